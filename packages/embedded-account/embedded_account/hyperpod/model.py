"""A HyperPod cluster as the simulator keeps it: cluster, instance groups, nodes, events, operations.

States: botocore's service model and AWS's HyperPod documentation. These classes hold; `state` and
`provisioning` change them.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from config.facts.instance_types import InstanceType
from embedded_account.hyperpod import instance_types

DEFAULT_THREADS_PER_CORE = 1
"""What a group gets whose request has no ThreadsPerCore (AWS's console and CloudFormation; sources differ)."""

DEFAULT_IMAGE = "ami-0000000000000def0"
"""The image of a group whose request names none, or `default`: DescribeCluster shows one for every group."""

KEPT_WHEN_OMITTED = ("OverrideVpcConfig", "CapacityRequirements")
"""Fields of an instance group that an update keeps when it does not name them; all others are replaced."""

Specification = dict[str, Any]
"""An instance group as a request spells it."""


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
"""States of a node that is part of the Kubernetes cluster and counts in CurrentCount."""


class Health(StrEnum):
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
class Subnet:
    """A subnet and where it lies."""

    subnet_id: str
    vpc_id: str
    zone: str
    zone_id: str


@dataclass
class Node:
    """One instance. `interface_id` and `address` are those of its network interface in the customer's VPC."""

    instance_id: str
    group: str
    instance_type: InstanceType
    threads_per_core: int
    launched: datetime
    subnet: Subnet
    security_groups: tuple[str, ...]
    interface_id: str = ""
    address: str = ""
    status: NodeStatus = NodeStatus.PENDING
    message: str = ""
    health: Health = Health.SCHEDULABLE
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
class Group:
    """An instance group: the request's specification and what the simulator adds.

    `shortage` is the text of the last failed attempt to launch, empty while none fails; a group that is
    `deleting` goes with its last node.
    """

    specification: Specification
    shortage: str = ""
    deleting: bool = False
    software_status: str = ""

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
        """Take an update's specification. Without ThreadsPerCore it is reset, for nodes launched from now on."""
        kept = {key: self.specification[key] for key in KEPT_WHEN_OMITTED if key in self.specification}
        self.specification = kept | specification
        self.deleting = False

    def mark_deleted(self) -> None:
        """Let the group end with its last node."""
        self.deleting = True
        self.target = 0
        self.specification.pop("MinInstanceCount", None)

    @property
    def image_id(self) -> str:
        """The AMI that the group is to have."""
        named = self.specification.get("ImageId", "default")
        return DEFAULT_IMAGE if named == "default" else str(named)

    @property
    def minimum(self) -> int:
        return int(self.specification.get("MinInstanceCount", 0))

    @property
    def instance_types(self) -> list[InstanceType]:
        """The types that the group may use, the preferred one first."""
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
class Event:
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
    """A scaling operation: counts per group when it was accepted, and what it wants."""

    operation_id: str
    created: datetime
    original: dict[str, tuple[int, int]]
    desired: dict[str, int]
    status: str = "InProgress"


@dataclass(frozen=True)
class Outdated:
    """What reading calls still answer until a moment: the cluster before a change, None when it was not there."""

    until: datetime
    view: Mapping[str, Any] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass
class HyperPodCluster:
    """A cluster. `request` is CreateCluster's, kept up to date by UpdateCluster except for the groups.

    `previous` holds the groups' specifications before the running update, `previous_request` the other fields;
    `access_entries` the principals whose EKS access entries HyperPod made. An `orphaned` cluster lost its EKS cluster
    before it was deleted: it leaves its network interfaces behind (AWS docs: delete HyperPod before EKS).
    `published_status` is what EventBridge knows, `outdated` what lagging reads know, the oldest first.
    """

    name: str
    arn: str
    request: Specification
    groups: dict[str, Group]
    created: datetime
    eks_name: str
    status: ClusterStatus = ClusterStatus.CREATING
    failure: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tag_values: dict[str, str] = field(default_factory=dict)
    access_entries: list[str] = field(default_factory=list)
    previous: dict[str, Specification] | None = None
    previous_request: Specification = field(default_factory=dict)
    outdated: list[Outdated] = field(default_factory=list)
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
        """Whether faulty nodes are replaced by themselves; AWS's default is Automatic."""
        return bool(self.request.get("NodeRecovery", "Automatic") == "Automatic")

    @property
    def log_group(self) -> str:
        return f"/aws/sagemaker/Clusters/{self.name}/{self.cluster_id}"

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags as AWS lists them (moto's resource groups read this too)."""
        return [{"Key": key, "Value": value} for key, value in self.tag_values.items()]

    def vpc_config(self, group: Group) -> dict[str, list[str]]:
        """Subnets and security groups of a group: its own, else the cluster's."""
        config: dict[str, list[str]] = group.specification.get("OverrideVpcConfig") or self.request["VpcConfig"]
        return config

    def nodes_of(self, group: str) -> Iterator[Node]:
        """The group's nodes in any state."""
        return (node for node in self.nodes.values() if node.group == group)

    def staying(self, group: str) -> list[Node]:
        """The group's nodes that count towards its target."""
        return [node for node in self.nodes_of(group) if not node.leaving]

    def current_count(self, group: str) -> int:
        """CurrentCount: nodes that have joined."""
        return sum(node.status in JOINED for node in self.nodes_of(group))


def instance_types_of(specification: Specification) -> list[InstanceType]:
    """The instance types that a request's group names, the preferred one first; those that are not known left out."""
    found = (instance_types.find(name) for name in names_of_types(specification))
    return [each for each in found if each]


def names_of_types(specification: Specification) -> list[str]:
    """The names of a request's instance types, the preferred one first."""
    if "InstanceType" in specification:
        return [specification["InstanceType"]]
    return list(specification["InstanceRequirements"]["InstanceTypes"])


def new_instance_id() -> str:
    """An instance id as EC2 writes it: `i-` and 17 hexadecimal digits."""
    return f"i-{secrets.token_hex(9)[:17]}"
