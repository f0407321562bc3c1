"""The base class of all charts, and how they add an object without a typed class."""

from collections.abc import Mapping
from typing import Any, Final

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "ray-on-hyperpod"}


class ProjectChart(cdk8s.Chart):
    """Kubernetes objects that are applied, updated and deleted as a whole; their names are given, not generated."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, labels=MANAGED_BY, disable_resource_name_hashes=True)


def add_object(
    scope: Construct,
    id: str,
    *,
    api_version: str,
    kind: str,
    metadata: cdk8s.ApiObjectMetadata,
    fields: Mapping[str, Any],
) -> cdk8s.ApiObject:
    """Add an object with these fields beside its metadata to a chart, in their order; return it."""
    made = cdk8s.ApiObject(scope, id, api_version=api_version, kind=kind, metadata=metadata)
    # One call to Node instead of one per field.
    made.add_json_patch(*(cdk8s.JsonPatch.add(f"/{key}", value) for key, value in fields.items()))
    return made


def quantity(text: str) -> k8s.Quantity:
    """Return a Kubernetes quantity such as `1200Gi` or `500m`."""
    return k8s.Quantity.from_string(text)
