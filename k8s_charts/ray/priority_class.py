"""The scheduling priority of a RayCluster's pods."""

from dataclasses import dataclass

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart


@dataclass(frozen=True)
class PriorityClass:
    """Priority `value` of the pods of a RayCluster."""

    cluster: str
    namespace: str
    value: int

    @property
    def name(self) -> str:
        """Its name in Kubernetes tells the value, which cannot change: another value is another object."""
        return f"{self.namespace}-{self.cluster}-{self.value}"


class PriorityClassChart(ProjectChart):
    """One priority class; pods that name none do not get it."""

    def __init__(self, scope: Construct, id: str, *, priority: PriorityClass) -> None:
        super().__init__(scope, id)
        k8s.KubePriorityClass(
            self,
            "class",
            metadata=k8s.ObjectMeta(name=priority.name),
            value=priority.value,
            global_default=False,
            description=f"Pods of RayCluster {priority.namespace}/{priority.cluster}",
        )
