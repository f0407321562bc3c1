"""Tell what a change of a property, or of a key of the environment file, does to a running HyperPod cluster.

All of it comes from the handler's table of consequences (`handlers/hyperpod_cluster/consequences.py`).
"""

from collections.abc import Mapping
from typing import Final

from handlers.hyperpod_cluster.consequences import ANY_FIELD, GROUPS, TABLE, ChangeKind, Consequence, UpdateEffect
from ops.environment.generated import between

_BEGIN: Final = "<!-- Written by `ops schema`, from handlers/hyperpod_cluster/consequences.py. -->"
_END: Final = "<!-- End of what `ops schema` writes. -->"

GROUP_KEYS: Final = "hyperpod.instance_groups[]"
PROPERTY_OF: Final[Mapping[str, str]] = {
    "hyperpod.cluster_name": "ClusterName",
    "hyperpod.node_recovery": "NodeRecovery",
    "hyperpod.tiered_storage": "TieredStorageConfig",
    "hyperpod.tiered_storage.memory_percent": "TieredStorageConfig",
    "hyperpod.instance_groups": GROUPS,
    "hyperpod.confirm_group_removal": "ConfirmGroupRemoval",
    f"{GROUP_KEYS}.name": GROUPS,
    f"{GROUP_KEYS}.instance_type": f"{GROUPS}.InstanceType",
    f"{GROUP_KEYS}.count": f"{GROUPS}.InstanceCount",
    f"{GROUP_KEYS}.min_count": f"{GROUPS}.MinInstanceCount",
    f"{GROUP_KEYS}.threads_per_core": f"{GROUPS}.ThreadsPerCore",
    f"{GROUP_KEYS}.volume_gib": f"{GROUPS}.InstanceStorageConfigs",
    f"{GROUP_KEYS}.deep_health_checks": f"{GROUPS}.OnStartDeepHealthChecks",
    f"{GROUP_KEYS}.sleep": "SleepingGroups",
    f"{GROUP_KEYS}.sleep.min": "SleepingGroups",
    f"{GROUP_KEYS}.labels": f"{GROUPS}.KubernetesConfig",
    f"{GROUP_KEYS}.taints": f"{GROUPS}.KubernetesConfig",
    f"{GROUP_KEYS}.taints[].key": f"{GROUPS}.KubernetesConfig",
    f"{GROUP_KEYS}.taints[].value": f"{GROUPS}.KubernetesConfig",
    f"{GROUP_KEYS}.taints[].effect": f"{GROUPS}.KubernetesConfig",
    f"{GROUP_KEYS}.zone": f"{GROUPS}.OverrideVpcConfig",
    f"{GROUP_KEYS}.training_plan": f"{GROUPS}.TrainingPlanArn",
    f"{GROUP_KEYS}.image_id": f"{GROUPS}.ImageId",
    f"{GROUP_KEYS}.lifecycle_scripts": f"{GROUPS}.LifeCycleConfig",
    f"{GROUP_KEYS}.slurm.node": f"{GROUPS}.SlurmConfig.NodeType",
    f"{GROUP_KEYS}.slurm.partition": f"{GROUPS}.SlurmConfig.PartitionNames",
}
"""The property of the cluster into which a key of the environment file goes."""
ELSEWHERE: Final[Mapping[str, str]] = {
    "hyperpod.sub_charts": "nothing in the cluster: a release of HyperPod's Helm chart",
    f"{GROUP_KEYS}.slurm": "see its keys",
    f"{GROUP_KEYS}.sleep.after": "nothing in the cluster: when the group sleeps",
    f"{GROUP_KEYS}.sleep.hours": "nothing in the cluster: when the group is awake",
    f"{GROUP_KEYS}.sleep.wake": "nothing in the cluster: which group stands in for it",
    f"{GROUP_KEYS}.type_facts": "nothing in the cluster: the figures only size Ray's pods",
}
"""Keys without a property of the cluster, and what they change instead."""
_KINDS: Final[Mapping[str, tuple[ChangeKind, ...]]] = {
    "hyperpod.instance_groups": (ChangeKind.ADDED, ChangeKind.REMOVED),
    f"{GROUP_KEYS}.name": (ChangeKind.RENAMED,),
}


def explains(path: str) -> bool:
    """Return whether the keys below this path of the environment file have a consequence."""
    return any(key.rpartition(".")[0] == path for key in (*PROPERTY_OF, *ELSEWHERE))


def of_key(key: str) -> str:
    """Return what a change of the environment's key does, as text of one cell. Raises KeyError for an unknown key."""
    if key in ELSEWHERE:
        return ELSEWHERE[key]
    path, kinds = PROPERTY_OF[key], _KINDS.get(key)
    rows = [row for row in TABLE if row.path == path and (kinds is None or set(row.kinds) & set(kinds))]
    only = len({(row.effect, row.action) for row in rows}) == 1
    return "; ".join(dict.fromkeys(_sentence(row, of_kind=not only) for row in rows))


def table() -> list[str]:
    """Return the table of consequences as lines of Markdown."""
    lines = ["| property | difference | effect | why | what to do |", "| --- | --- | --- | --- | --- |"]
    for row in TABLE:
        name = f"`{GROUPS}`: every other field" if row.path == ANY_FIELD else f"`{row.path}`"
        lines.append(f"| {name} | {_kinds(row)} | {row.effect} | {row.reason} | {row.action} |")
    return lines


def with_table(page: str) -> str:
    """Return the page with the current table between its two markers. Raises ValueError if it lacks them."""
    return between(page, _BEGIN, _END, table())


def _sentence(row: Consequence, *, of_kind: bool) -> str:
    effect = f"{_kinds(row)}: {row.effect}" if of_kind else str(row.effect)
    return f"{effect} ({row.action})" if row.effect is UpdateEffect.REFUSED and row.action else effect


def _kinds(row: Consequence) -> str:
    return "any" if ChangeKind.CHANGED in row.kinds and len(row.kinds) == 3 else ", ".join(row.kinds)
