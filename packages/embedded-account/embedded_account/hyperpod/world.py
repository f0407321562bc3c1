"""Hold the state that the simulator's parts share: the clusters, the timeline, the account and the events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from moto.sagemaker.models import sagemaker_backends

from embedded_account.hyperpod import views
from embedded_account.hyperpod.eks import KubernetesUnavailableError, Orchestrators
from embedded_account.hyperpod.faults import Faults
from embedded_account.hyperpod.model import ClusterEvent, SimulatedCluster
from embedded_account.hyperpod.schedule import Action, Schedule
from embedded_account.hyperpod.slurm.clusters import OrWithout
from embedded_account.hyperpod.slurm.scripts import RunScripts
from embedded_account.hyperpod.surroundings import AccountServices

KUBERNETES_RETRY_MINUTES = 1.0
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
STATE_CHANGE = "SageMaker HyperPod Cluster State Change"

Publish = Callable[[str, Mapping[str, Any]], object]
"""A function that sends an event to EventBridge; its arguments are the detail type and the detail."""


@dataclass(frozen=True)
class Minutes:
    """The durations of transitions, in simulated minutes.

    Users report these orders of magnitude: create, scale-up and replacement 15-30 minutes, reboot 1-3, software
    update 30-60, shutdown 5-20, fault detection 5-30 seconds. AWS guarantees none of them.
    """

    accept: float = 5
    update: float = 1
    provision: float = 15
    deep_check: float = 60
    retry: float = 15
    detect: float = 0.5
    drain: float = 2
    shut_down: float = 6
    remove: float = 4
    reboot: float = 3
    software: float = 40
    roll_back: float = 10
    minimum: float = 180


@dataclass
class SimulatorState:
    """The simulator's shared state. `record` appends to the journal; `publish` sends to EventBridge. `quota`
    returns how many instances of a type the account may have in clusters.

    An extension of the account's caller sets `run_scripts` to run the lifecycle scripts of new nodes; while they run,
    HyperPod answers no call.

    EventBridge receives cluster events and changes of a cluster's status, but not the health of single nodes (AWS
    docs: sagemaker-hyperpod-cluster-events-reference, EventBridge integration).
    """

    account_id: str
    region: str
    surroundings: AccountServices
    orchestrators: Orchestrators
    timeline: Schedule
    record: Callable[..., object]
    publish: Publish = lambda _type, _detail: None
    quota: Callable[[str], int | None] = lambda _instance_type: None
    run_scripts: RunScripts = lambda _scripts: None
    minutes: Minutes = field(default_factory=Minutes)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.orchestrators = OrWithout(self.orchestrators)

    @property
    def clusters(self) -> dict[str, SimulatedCluster]:
        """The clusters by name. moto's backend stores them, so a reset of moto removes them too."""
        clusters: dict[str, SimulatedCluster] = sagemaker_backends[self.account_id][self.region].clusters
        return clusters

    @property
    def partition(self) -> str:
        return self.surroundings.partition

    def plan(self, cluster: SimulatedCluster, key: tuple[str, ...], minutes: float, action: Action) -> None:
        """Run `action` after `minutes`, unless the cluster is gone by then.

        If Kubernetes does not answer, the action is retried every minute, so it must be idempotent.
        """

        def run() -> None:
            if self.clusters.get(cluster.name) is not cluster:
                return
            try:
                action()
            except KubernetesUnavailableError as error:
                self.record("hyperpod", action="waits for Kubernetes", cluster=cluster.name, reason=str(error))
                self.plan(cluster, key, KUBERNETES_RETRY_MINUTES, action)

        self.timeline.plan((cluster.arn, *key), minutes, run)

    def planned(self, cluster: SimulatedCluster, *key: str) -> bool:
        """Return whether an action is planned for the cluster under the key."""
        return self.timeline.planned((cluster.arn, *key))

    def forget(self, cluster: SimulatedCluster, *key: str) -> None:
        """Cancel the action planned for the cluster under the key, if any."""
        self.timeline.forget((cluster.arn, *key))

    def event(
        self,
        cluster: SimulatedCluster,
        description: str,
        *,
        level: str = "Info",
        group: str = "",
        instance: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event to the cluster and the journal, and publish it.

        The arguments `group` and `instance` determine the resource type. Most descriptions are the rehearsal's own.
        """
        resource_type = "Instance" if instance else "InstanceGroup" if group else "Cluster"
        operation = cluster.operations[-1].operation_id if cluster.operations else ""
        event = ClusterEvent(
            event_id=str(uuid4()),
            time=self.timeline.now(),
            level=level,
            resource_type=resource_type,
            description=description,
            group=group,
            instance_id=instance,
            operation_id=operation,
            metadata=metadata or {},
        )
        cluster.events.append(event)
        self.record(
            "hyperpod",
            action="event",
            cluster=cluster.name,
            level=level,
            group=group,
            instance=instance,
            description=description,
        )
        # EventBridge's events lack the metadata, which contains the failure messages.
        self.publish(CLUSTER_EVENT, {"EventDetails": views.event_view(cluster, event, details=False)})
        if cluster.published_status is not cluster.status:
            cluster.published_status = cluster.status
            self.publish(STATE_CHANGE, views.cluster_summary(cluster))
