"""The table of consequences: what an update of each property does to a running HyperPod cluster.

It is data, and the only place of these facts: the handler refuses by it (`changes.py`), `ops schema` writes it into
docs/explain/hyperpod-updates.md and docs/reference/environment.md, and `ops review` judges by it. The module imports
only the standard library, because `ops` imports it, too.

Sources: AWS docs, sagemaker-hyperpod-eks-operate-cli-command-update-cluster (type and role of a group must stay the
same); UpdateCluster's input has no VpcConfig; EKS and HyperPod clusters are 1:1, so a replacement cannot work, because
CloudFormation creates the new resource before it deletes the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

GROUPS: Final = "InstanceGroups[]"
ANY_FIELD: Final = f"{GROUPS}.*"
"""The fields of a group that have no row of their own."""


LIVE_NAMES: Final[Mapping[str, str]] = {"InstanceCount": "TargetCount", "MinInstanceCount": "MinCount"}
"""DescribeCluster's names of fields of a request; it shows images, labels and taints under Desired… as well."""


class ChangeKind(StrEnum):
    """How a property differs."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    RAISED = "raised"
    LOWERED = "lowered"
    CHANGED = "changed"


class UpdateEffect(StrEnum):
    """What the update does."""

    IN_PLACE = "in place"
    """Nodes that run are kept, and the change reaches them where it concerns them."""
    NEW_NODES = "in place, for nodes created afterwards"
    CREATED = "nodes created"
    REMOVED = "nodes removed"
    REPLACED = "nodes replaced"
    REFUSED = "refused"
    NOTHING = "nothing"
    UNKNOWN = "unknown"
    """The handler sends it to SageMaker; what it does to nodes that run is not documented."""


@dataclass(frozen=True)
class Consequence:
    """One row: what these kinds of change of one property do."""

    path: str
    """The property: `NodeRecovery`, `InstanceGroups[].InstanceCount`."""
    kinds: tuple[ChangeKind, ...]
    effect: UpdateEffect
    reason: str
    """Why, as a clause without a full stop."""
    action: str = ""
    """What to do, as a clause without a full stop. Empty: nothing."""


FIXED: Final = ("ClusterName", "VpcConfig", "Orchestrator")
"""Fields that a cluster never changes."""
FIXED_IN_A_GROUP: Final = (
    "InstanceType",
    "ExecutionRole",
    "ThreadsPerCore",
    "OverrideVpcConfig",
    "CapacityRequirements",
)
"""Fields that a group never changes."""
NODE_OF_SLURM: Final = "SlurmConfig.NodeType"
"""The field of a group that never changes within one of which the partition may."""
KEY_OF_A_VOLUME: Final = "InstanceStorageConfigs[].EbsVolumeConfig.VolumeKmsKeyId"
"""The field of a group that never changes within one that may (AWS docs: smcluster-cmk, exclusions)."""
UNSUPPORTED: Final = ("RestrictedInstanceGroups", "RestrictedInstanceGroupsConfig")
"""Fields that the handler takes in no request: restricted groups (Amazon Nova) have update rules of their own."""
ANOTHER_NAME: Final = "give the group another name, which makes new nodes and removes the old ones"
DESTROY: Final = "destroy this stack and what depends on it, then deploy again"

_ANY: Final = (ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED)
_SET: Final = (ChangeKind.ADDED, ChangeKind.CHANGED)
_CONFIRM: Final = "list the old name under hyperpod.confirm_group_removal"


def _group(
    name: str, *rest: str, kinds: tuple[ChangeKind, ...] = _ANY, effect: UpdateEffect = UpdateEffect.IN_PLACE
) -> Consequence:
    return Consequence(f"{GROUPS}.{name}", kinds, effect, *rest)


TABLE: Final = (
    Consequence(
        GROUPS,
        (ChangeKind.ADDED,),
        UpdateEffect.CREATED,
        "one UpdateCluster adds the group, and HyperPod makes its nodes",
    ),
    Consequence(
        GROUPS,
        (ChangeKind.REMOVED,),
        UpdateEffect.REMOVED,
        "its nodes are deleted with everything that runs on them; refused until confirmed",
        f"drain the group with `ops scale`, and {_CONFIRM}",
    ),
    Consequence(
        GROUPS,
        (ChangeKind.RENAMED,),
        UpdateEffect.REPLACED,
        "one UpdateCluster adds the new group and deletes the old one with its nodes; refused until confirmed",
        f"{_CONFIRM}; without capacity for both, remove the old group first, in a deployment of its own",
    ),
    _group("InstanceCount", "HyperPod makes more nodes", kinds=(ChangeKind.RAISED,)),
    _group(
        "InstanceCount",
        "HyperPod chooses the nodes to delete, and does not drain them; refused below a count raised by hand",
        "lower the group with `ops scale` first, which drains",
        kinds=(ChangeKind.LOWERED,),
        effect=UpdateEffect.REMOVED,
    ),
    _group("MinInstanceCount", "it decides when SageMaker gives up on nodes that do not start"),
    _group("KubernetesConfig", "HyperPod sets labels and taints on the group's nodes"),
    _group("LifeCycleConfig", "HyperPod runs the scripts when it makes a node", effect=UpdateEffect.NEW_NODES),
    _group("InstanceStorageConfigs", "a volume is made with its node", effect=UpdateEffect.NEW_NODES),
    _group(KEY_OF_A_VOLUME, "SageMaker never changes the key of a volume", ANOTHER_NAME, effect=UpdateEffect.REFUSED),
    _group(NODE_OF_SLURM, "a node keeps what it is in Slurm", ANOTHER_NAME, effect=UpdateEffect.REFUSED),
    _group("SlurmConfig.PartitionNames", "HyperPod adds the partition to slurm.conf"),
    _group("OnStartDeepHealthChecks", "the checks run when a node starts", effect=UpdateEffect.NEW_NODES),
    *(
        _group(name, "SageMaker cannot change it in an existing group", ANOTHER_NAME, effect=UpdateEffect.REFUSED)
        for name in FIXED_IN_A_GROUP
    ),
    *(
        _group(
            name,
            "SageMaker may refuse it, and what it does to nodes that run is not documented",
            "try it on an environment without jobs",
            effect=UpdateEffect.UNKNOWN,
        )
        for name in ("TrainingPlanArn", "ImageId", "*")
    ),
    Consequence("NodeRecovery", _SET, UpdateEffect.IN_PLACE, "it decides whether HyperPod replaces unhealthy nodes"),
    Consequence("NodeRecovery", (ChangeKind.REMOVED,), UpdateEffect.IN_PLACE, "it becomes Automatic"),
    Consequence("NodeProvisioningMode", (ChangeKind.ADDED,), UpdateEffect.IN_PLACE, "to Continuous, the only mode"),
    Consequence(
        "NodeProvisioningMode", (ChangeKind.REMOVED,), UpdateEffect.REFUSED, "it cannot be taken away once it is set"
    ),
    Consequence("ClusterRole", _SET, UpdateEffect.IN_PLACE, "the role of HyperPod's autoscaling"),
    Consequence("ClusterRole", (ChangeKind.REMOVED,), UpdateEffect.REFUSED, "it cannot be taken away once it is set"),
    Consequence("AutoScaling", _SET, UpdateEffect.IN_PLACE, "UpdateCluster takes it"),
    Consequence("AutoScaling", (ChangeKind.REMOVED,), UpdateEffect.IN_PLACE, "it is disabled"),
    Consequence("TieredStorageConfig", _SET, UpdateEffect.IN_PLACE, "UpdateCluster takes it"),
    Consequence("TieredStorageConfig", (ChangeKind.REMOVED,), UpdateEffect.IN_PLACE, "it is disabled"),
    Consequence("Tags", _ANY, UpdateEffect.IN_PLACE, "AddTags and DeleteTags"),
    *(
        Consequence(name, _ANY, UpdateEffect.REFUSED, "SageMaker cannot change it in an existing cluster", DESTROY)
        for name in FIXED
    ),
    *(
        Consequence(name, _ANY, UpdateEffect.REFUSED, "the handler does not support it", "remove it")
        for name in UNSUPPORTED
    ),
    Consequence(
        "ConfirmGroupRemoval",
        _ANY,
        UpdateEffect.NOTHING,
        "only the handler reads it: it may then remove these groups",
        "remove the names after the deployment",
    ),
    Consequence(
        "SleepingGroups",
        (ChangeKind.ADDED,),
        UpdateEffect.NOTHING,
        "only the handler reads it: it keeps a group's count between this minimum and the template's count",
    ),
    Consequence(
        "SleepingGroups",
        (ChangeKind.REMOVED, ChangeKind.CHANGED),
        UpdateEffect.CREATED,
        "a group that no longer sleeps, or has fewer nodes than its minimum, gets all of its count",
    ),
    Consequence("ServiceToken", _ANY, UpdateEffect.REFUSED, "CloudFormation allows no other function", DESTROY),
    Consequence(
        "ServiceTimeout", _ANY, UpdateEffect.NOTHING, "it limits how long CloudFormation waits for the handler"
    ),
)


def keys_of_volumes(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the customer managed keys of a group's volumes; without one AWS encrypts with a key of its own."""
    volumes = [each.get("EbsVolumeConfig", {}) for each in group.get("InstanceStorageConfigs") or []]
    return {
        "root" if volume.get("RootVolume") in (True, "true") else "secondary": volume["VolumeKmsKeyId"]
        for volume in volumes
        if volume.get("VolumeKmsKeyId")
    }


def consequence(path: str, kind: ChangeKind) -> Consequence | None:
    """Return the row of this change; None if the table has none."""
    return next((row for row in TABLE if row.path == path and kind in row.kinds), None)


IN_PLACE: Final = tuple(
    dict.fromkeys(
        row.path
        for row in TABLE
        # Tags have calls of their own.
        if ChangeKind.ADDED in row.kinds
        and row.effect is UpdateEffect.IN_PLACE
        and not row.path.startswith((GROUPS, "Tags"))
    )
)
"""Fields of the cluster that UpdateCluster changes."""
