"""Namespaces with their Pod Security level."""

from dataclasses import dataclass
from typing import Literal

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.base import ProjectChart


@dataclass(frozen=True)
class Namespace:
    """A namespace whose pods must keep to a Pod Security level as Kubernetes `version` (such as `1.35`) defines it."""

    name: str
    pod_security: Literal["restricted", "baseline", "privileged"]
    version: str


class NamespaceChart(ProjectChart):
    """One namespace."""

    def __init__(self, scope: Construct, id: str, *, namespace: Namespace) -> None:
        super().__init__(scope, id)
        prefix = "pod-security.kubernetes.io"
        labels: dict[str, str] = {}
        for mode in ("enforce", "audit", "warn"):
            labels[f"{prefix}/{mode}"] = namespace.pod_security
            labels[f"{prefix}/{mode}-version"] = f"v{namespace.version}"
        k8s.KubeNamespace(self, "namespace", metadata=k8s.ObjectMeta(name=namespace.name, labels=labels))
