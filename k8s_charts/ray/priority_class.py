"""The scheduling priority of a RayCluster's pods."""

from dataclasses import dataclass

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart


@dataclass(frozen=True)
class PriorityClass:
    """The priority `value` of a RayCluster's pods."""

    cluster: str
    namespace: str
    value: int

    @property
    def name(self) -> str:
        """Return the object's name. It contains the value, which is immutable: another value needs a new object."""
        return f"{self.namespace}-{self.cluster}-{self.value}"


class PriorityClassChart(ProjectChart):
    """One priority class, which is not the default of pods without one."""

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
