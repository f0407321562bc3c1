"""The base class of all charts."""

from typing import Final

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "ray-on-hyperpod"}


class ProjectChart(cdk8s.Chart):
    """Kubernetes objects that are applied, updated and deleted as a whole; their names are given, not generated."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, labels=MANAGED_BY, disable_resource_name_hashes=True)


def quantity(text: str) -> k8s.Quantity:
    """Return a Kubernetes quantity such as `1200Gi` or `500m`."""
    return k8s.Quantity.from_string(text)
