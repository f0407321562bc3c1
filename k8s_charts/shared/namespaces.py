"""Namespaces with their Pod Security level and their quota."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.limits import NO_PUBLIC_SERVICE, quota


@dataclass(frozen=True)
class Namespace:
    """A namespace whose pods must meet a Pod Security level as Kubernetes `version` (such as `1.35`) defines it.

    `quota` limits the namespace's objects, by resource name; no namespace of the project allows a public service.
    """

    name: str
    pod_security: Literal["restricted", "baseline", "privileged"]
    version: str
    quota: Mapping[str, str] = field(default_factory=dict)


class NamespaceChart(ProjectChart):
    """One namespace and its quota."""

    def __init__(self, scope: Construct, id: str, *, namespace: Namespace) -> None:
        super().__init__(scope, id)
        prefix = "pod-security.kubernetes.io"
        labels: dict[str, str] = {}
        for mode in ("enforce", "audit", "warn"):
            labels[f"{prefix}/{mode}"] = namespace.pod_security
            labels[f"{prefix}/{mode}-version"] = f"v{namespace.version}"
        made = k8s.KubeNamespace(self, "namespace", metadata=k8s.ObjectMeta(name=namespace.name, labels=labels))
        quota(self, namespace=namespace.name, hard={**NO_PUBLIC_SERVICE, **namespace.quota}).add_dependency(made)
