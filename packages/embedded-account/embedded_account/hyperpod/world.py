"""What the parts of the simulator share: the clusters, the timeline, the account around them, events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from moto.sagemaker.models import sagemaker_backends

from embedded_account.hyperpod import views
from embedded_account.hyperpod.eks import KubernetesUnavailableError, Orchestrators
from embedded_account.hyperpod.faults import Faults
from embedded_account.hyperpod.model import Event, HyperPodCluster
from embedded_account.hyperpod.schedule import Action, Schedule
from embedded_account.hyperpod.surroundings import Surroundings

KUBERNETES_RETRY_MINUTES = 1.0
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
STATE_CHANGE = "SageMaker HyperPod Cluster State Change"

Publish = Callable[[str, Mapping[str, Any]], object]
"""Takes the detail type and the detail of an event for EventBridge."""


@dataclass(frozen=True)
class Minutes:
    """How long things take, in simulated minutes.

    Orders of magnitude that users report (create, scale-up and replacement 15-30, reboot 1-3, software update
    30-60, shutting down 5-20, fault detection 5-30 seconds); AWS promises none of them.
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
class World:
    """The simulator's state apart from its rules. `record` is the journal's, `publish` leads to EventBridge.

    Published are cluster events and changes of a cluster's status, not the health of single nodes (AWS docs:
    sagemaker-hyperpod-cluster-events-reference, EventBridge integration).
    """

    account_id: str
    region: str
    surroundings: Surroundings
    orchestrators: Orchestrators
    timeline: Schedule
    record: Callable[..., object]
    publish: Publish = lambda _type, _detail: None
    minutes: Minutes = field(default_factory=Minutes)
    faults: Faults = field(default_factory=Faults)

    @property
    def clusters(self) -> dict[str, HyperPodCluster]:
        """The clusters by name. They live in moto's backend, so resetting moto removes them too."""
        clusters: dict[str, HyperPodCluster] = sagemaker_backends[self.account_id][self.region].clusters
        return clusters

    @property
    def partition(self) -> str:
        return self.surroundings.partition

    def plan(self, cluster: HyperPodCluster, key: tuple[str, ...], minutes: float, action: Action) -> None:
        """Do something for the cluster later; nothing happens if it is gone by then.

        While Kubernetes does not answer the action is tried again, so it must bear repetition.
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

    def planned(self, cluster: HyperPodCluster, *key: str) -> bool:
        """Whether something is planned for the cluster under the key."""
        return self.timeline.planned((cluster.arn, *key))

    def forget(self, cluster: HyperPodCluster, *key: str) -> None:
        """Drop what is planned for the cluster under the key."""
        self.timeline.forget((cluster.arn, *key))

    def event(
        self,
        cluster: HyperPodCluster,
        description: str,
        *,
        level: str = "Info",
        group: str = "",
        instance: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event; its resource type follows from what is named. The wording is the rehearsal's own."""
        resource_type = "Instance" if instance else "InstanceGroup" if group else "Cluster"
        operation = cluster.operations[-1].operation_id if cluster.operations else ""
        event = Event(
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
        # The metadata, where failures stand, is missing in what EventBridge delivers.
        self.publish(CLUSTER_EVENT, {"EventDetails": views.event_view(cluster, event, details=False)})
        if cluster.published_status is not cluster.status:
            cluster.published_status = cluster.status
            self.publish(STATE_CHANGE, views.cluster_summary(cluster))
