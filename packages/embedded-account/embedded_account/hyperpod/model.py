"""Hold the state of HyperPod clusters: cluster, instance groups, nodes, events and operations.

The status values come from botocore's service model and AWS's HyperPod documentation. Modules `state` and
`instances.provisioning` change the objects.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from embedded_account.hyperpod import instance_types
from embedded_account.hyperpod.instance_types import NodeType
from embedded_account.tags import tag_list

DEFAULT_THREADS_PER_CORE = 1
"""The value for a group without ThreadsPerCore (AWS's console and CloudFormation; sources differ)."""

DEFAULT_IMAGE = "ami-0000000000000def0"
"""The image of a group without ImageId or with `default`; DescribeCluster shows an image for every group."""

UP_TO_DATE = "UpToDate"
"""ImageVersionStatus of a new or updated group; a fault makes a group's software older."""

KEPT_WHEN_OMITTED = ("OverrideVpcConfig", "CapacityRequirements", "SlurmConfig")
"""Fields of an instance group that an update keeps if the request omits them; it replaces all others."""

Specification = dict[str, Any]
"""An instance group in the form of a request."""


class ClusterStatus(StrEnum):
    """ClusterStatus of DescribeCluster."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    SYSTEM_UPDATING = "SystemUpdating"
    DELETING = "Deleting"
    FAILED = "Failed"


class NodeStatus(StrEnum):
    """InstanceStatus of a node."""

    PENDING = "Pending"
    DEEP_HEALTH_CHECK = "DeepHealthCheckInProgress"
    RUNNING = "Running"
    SYSTEM_UPDATING = "SystemUpdating"
    SHUTTING_DOWN = "ShuttingDown"
    FAILURE = "Failure"


JOINED = frozenset({NodeStatus.RUNNING, NodeStatus.DEEP_HEALTH_CHECK, NodeStatus.SYSTEM_UPDATING})
"""Statuses of a node that is part of the Kubernetes cluster and counts in CurrentCount."""


class NodeHealth(StrEnum):
    """Values of the label sagemaker.amazonaws.com/node-health-status."""

    SCHEDULABLE = "Schedulable"
    UNSCHEDULABLE = "Unschedulable"
    PENDING_REPLACEMENT = "UnschedulablePendingReplacement"
    PENDING_REBOOT = "UnschedulablePendingReboot"


class DeepCheck(StrEnum):
    """Values of the label sagemaker.amazonaws.com/deep-health-check-status."""

    IN_PROGRESS = "InProgress"
    PASSED = "Passed"
    FAILED = "Failed"


@dataclass(frozen=True)
class NodeSubnet:
    """A subnet, its VPC and its Availability Zone."""

    subnet_id: str
    vpc_id: str
    zone: str
    zone_id: str


@dataclass
class Node:
    """An instance. `interface_id` and `address` belong to its network interface in the customer's VPC."""

    instance_id: str
    group: str
    instance_type: NodeType
    threads_per_core: int
    launched: datetime
    subnet: NodeSubnet
    security_groups: tuple[str, ...]
    interface_id: str = ""
    address: str = ""
    status: NodeStatus = NodeStatus.PENDING
    message: str = ""
    health: NodeHealth = NodeHealth.SCHEDULABLE
    deep_check: DeepCheck | None = None
    fault: str = ""
    software_updated: datetime | None = None
    logical_id: str = field(default_factory=lambda: f"nodelogical-{secrets.token_hex(8)}")

    @property
    def kubernetes_name(self) -> str:
        """The node's name in Kubernetes; it changes when the instance is replaced."""
        return f"hyperpod-{self.instance_id}"

    @property
    def leaving(self) -> bool:
        """Whether the node no longer counts towards its group's target."""
        return self.status in {NodeStatus.SHUTTING_DOWN, NodeStatus.FAILURE}


@dataclass
class SimulatedGroup:
    """An instance group: the specification from the request and the simulator's own state.

    `shortage` is the message of the last launch attempt if it failed, else "". A group with `deleting` is removed
    together with its last node. `image_version` is ImageVersionStatus: how old the platform software is.
    """

    specification: Specification
    shortage: str = ""
    deleting: bool = False
    software_status: str = ""
    image_version: str = UP_TO_DATE

    @property
    def name(self) -> str:
        return str(self.specification["InstanceGroupName"])

    @property
    def target(self) -> int:
        return int(self.specification["InstanceCount"])

    @target.setter
    def target(self, count: int) -> None:
        self.specification["InstanceCount"] = count

    def change(self, specification: Specification) -> None:
        """Apply the specification of an update.

        If ThreadsPerCore is missing, nodes launched from now on get the default.
        """
        kept = {key: self.specification[key] for key in KEPT_WHEN_OMITTED if key in self.specification}
        self.specification = kept | specification
        self.deleting = False

    def mark_deleted(self) -> None:
        """Set the target to 0; the group is removed together with its last node."""
        self.deleting = True
        self.target = 0
        self.specification.pop("MinInstanceCount", None)

    @property
    def image_id(self) -> str:
        """The group's desired AMI."""
        named = self.specification.get("ImageId", "default")
        return DEFAULT_IMAGE if named == "default" else str(named)

    @property
    def minimum(self) -> int:
        return int(self.specification.get("MinInstanceCount", 0))

    @property
    def instance_types(self) -> list[NodeType]:
        """The instance types that the group may use, the preferred one first."""
        return instance_types_of(self.specification)

    @property
    def threads_per_core(self) -> int:
        return int(self.specification.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE))

    @property
    def deep_checks(self) -> list[str]:
        return list(self.specification.get("OnStartDeepHealthChecks", ()))

    @property
    def execution_role(self) -> str:
        return str(self.specification["ExecutionRole"])


@dataclass(frozen=True)
class ClusterEvent:
    """A cluster event; `metadata` is the EventMetadata structure of DescribeClusterEvent."""

    event_id: str
    time: datetime
    level: str
    resource_type: str
    description: str
    group: str = ""
    instance_id: str = ""
    operation_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Operation:
    """A scaling operation, with counts per group.

    `original` holds CurrentCount and TargetCount at the time of acceptance, `desired` the new TargetCount.
    """

    operation_id: str
    created: datetime
    original: dict[str, tuple[int, int]]
    desired: dict[str, int]
    status: str = "InProgress"


@dataclass(frozen=True)
class DelayedView:
    """The cluster before a change, which read calls return until `until`; `view` is None if it did not exist."""

    until: datetime
    view: Mapping[str, Any] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass
class SimulatedCluster:
    """A HyperPod cluster.

    Attributes:
        request: The CreateCluster request without its groups; UpdateCluster updates it.
        previous: The groups' specifications before the running update, by group name.
        eks_name: The name of the EKS cluster that orchestrates it; "" for Slurm.
        previous_request: The other fields of the request before the running update.
        access_entries: The principals for which HyperPod created EKS access entries.
        orphaned: Whether the EKS cluster was gone when the deletion began. Such a cluster leaves its network
            interfaces behind (AWS docs: delete HyperPod before EKS).
        published_status: The last status that EventBridge received.
        outdated: The earlier states that delayed reads still return, the oldest first.
    """

    name: str
    arn: str
    request: Specification
    groups: dict[str, SimulatedGroup]
    created: datetime
    eks_name: str
    status: ClusterStatus = ClusterStatus.CREATING
    failure: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tag_values: dict[str, str] = field(default_factory=dict)
    access_entries: list[str] = field(default_factory=list)
    previous: dict[str, Specification] | None = None
    previous_request: Specification = field(default_factory=dict)
    outdated: list[DelayedView] = field(default_factory=list)
    orphaned: bool = False
    published_status: ClusterStatus | None = None

    @property
    def cluster_id(self) -> str:
        return self.arn.rsplit("/", 1)[1]

    @property
    def continuous(self) -> bool:
        return self.request.get("NodeProvisioningMode") == "Continuous"

    @property
    def recovers(self) -> bool:
        """Whether HyperPod replaces faulty nodes automatically, which is AWS's default."""
        return bool(self.request.get("NodeRecovery", "Automatic") == "Automatic")

    @property
    def log_group(self) -> str:
        return f"/aws/sagemaker/Clusters/{self.name}/{self.cluster_id}"

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags in the form of AWS's API (moto's resource groups read this too)."""
        return tag_list(self.tag_values)

    def vpc_config(self, group: SimulatedGroup) -> dict[str, list[str]]:
        """Return the group's VpcConfig (subnets and security groups): its override or else the cluster's."""
        config: dict[str, list[str]] = group.specification.get("OverrideVpcConfig") or self.request["VpcConfig"]
        return config

    def nodes_of(self, group: str) -> Iterator[Node]:
        """Return the group's nodes in any status."""
        return (node for node in self.nodes.values() if node.group == group)

    def staying(self, group: str) -> list[Node]:
        """Return the group's nodes that count towards its target."""
        return [node for node in self.nodes_of(group) if not node.leaving]

    def current_count(self, group: str) -> int:
        """Return the group's CurrentCount: the number of nodes that have joined."""
        return sum(node.status in JOINED for node in self.nodes_of(group))


def instance_types_of(specification: Specification) -> list[NodeType]:
    """Return the known instance types that a group of a request names, the preferred one first."""
    found = (instance_types.find(name) for name in names_of_types(specification))
    return [each for each in found if each]


def names_of_types(specification: Specification) -> list[str]:
    """Return the names of the instance types of a group of a request, the preferred one first."""
    if "InstanceType" in specification:
        return [specification["InstanceType"]]
    return list(specification["InstanceRequirements"]["InstanceTypes"])


def new_instance_id() -> str:
    """Return a new instance id in EC2's form: `i-` and 17 hexadecimal digits."""
    return f"i-{secrets.token_hex(9)[:17]}"
