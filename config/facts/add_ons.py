"""Read what is known of EKS's add-ons, `add_ons.yaml`: their namespaces, service accounts and published schemas."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from config.facts.tables import read_table

ADD_ONS_FILE: Final = Path(__file__).with_name("add_ons.yaml")
CLOUDWATCH: Final = "amazon-cloudwatch-observability"
HYPERPOD: Final = "amazon-sagemaker-hyperpod-observability"
TRAINING_OPERATOR: Final = "amazon-sagemaker-hyperpod-training-operator"


class AddOnFacts(NamedTuple):
    """What the documentation says about an add-on. Texts are empty, and `schema` None, where it says nothing."""

    namespace: str
    source: str
    service_account: str = ""
    schema_of: str = ""
    """The version whose schema it is."""
    schema_source: str = ""
    schema: Mapping[str, Any] | None = None


@cache
def known_add_ons() -> Mapping[str, AddOnFacts]:
    """Return the table by the add-on's name."""
    return {name: AddOnFacts(**row) for name, row in read_table(ADD_ONS_FILE).items()}
