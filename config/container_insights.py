"""CloudWatch's alarms of `observability.container_insights`: the metric, when it is wrong, and where the runbook is.

Metrics and dimensions are those of tests/synth/stacks/cloudwatch_metrics.yaml, which names the source of each.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from config.model import Environment

RUNBOOK: Final = "docs/operate/observe-aws.md"
CONTAINER_INSIGHTS: Final = "ContainerInsights"
FSX: Final = "AWS/FSx"
_FREE_SHARE: Final = 0.1
"""Lustre spreads files unevenly: writes fail before the last byte is used (FSx for Lustre user guide, performance)."""


class AlarmFacts(NamedTuple):
    """An alarm that fires if `statistic` of the metric breaks the limit in each of `periods`, each of `seconds`.

    `of` names the dimension: the EKS cluster, or the file system.
    """

    name: str
    summary: str
    namespace: str
    metric: str
    of: Literal["ClusterName", "FileSystemId"]
    statistic: Literal["Maximum", "Sum"]
    periods: int
    threshold: Callable[[Environment], float] = lambda _: 1
    below: bool = False
    applies: Callable[[Environment], bool] = lambda _: True
    seconds: int = 300

    @property
    def runbook(self) -> str:
        """The heading of the page that says what to do."""
        return f"{RUNBOOK}#{self.name.lower()}"


def has_efa(environment: Environment) -> bool:
    """Return whether a group of the environment has a type with EFA."""
    return any(group.type.efa for group in environment.hyperpod.instance_groups)


def owns_file_system(environment: Environment) -> bool:
    """Return whether a stack of the environment makes its file system, so that its id is known."""
    return not environment.fsx.existing and not environment.fsx.dynamic


def _free_bytes(environment: Environment) -> float:
    return environment.fsx.capacity_gib * 2**30 * _FREE_SHARE


ALARMS: Final = (
    AlarmFacts(
        "NodeNotReplaced",
        "HyperPod has marked a node for replacement, and it is still there after half an hour.",
        CONTAINER_INSIGHTS,
        "hyperpod_node_health_status_unschedulable_pending_replacement",
        "ClusterName",
        "Maximum",
        6,
    ),
    AlarmFacts(
        "NodeNotRebooted",
        "HyperPod has marked a node for a reboot, and it still waits after half an hour.",
        CONTAINER_INSIGHTS,
        "hyperpod_node_health_status_unschedulable_pending_reboot",
        "ClusterName",
        "Maximum",
        6,
    ),
    AlarmFacts(
        "NodeFailed",
        "A node of the EKS cluster has had a failed condition for a quarter of an hour.",
        CONTAINER_INSIGHTS,
        "cluster_failed_node_count",
        "ClusterName",
        "Maximum",
        3,
    ),
    AlarmFacts(
        "EfaDrops",
        "EFA interfaces have dropped received packets for a quarter of an hour.",
        CONTAINER_INSIGHTS,
        "node_efa_rx_dropped",
        "ClusterName",
        "Maximum",
        3,
        applies=has_efa,
    ),
    AlarmFacts(
        "FileSystemFull",
        "Less than a tenth of the file system is free.",
        FSX,
        "FreeDataStorageCapacity",
        "FileSystemId",
        "Sum",
        5,
        threshold=_free_bytes,
        below=True,
        applies=owns_file_system,
        # FSx sends what is free every minute: a longer period would sum it several times.
        seconds=60,
    ),
)


def alarms_of(environment: Environment) -> tuple[AlarmFacts, ...]:
    """Return the alarms that the environment has."""
    if not environment.container_insights:
        return ()
    return tuple(alarm for alarm in ALARMS if alarm.applies(environment))
