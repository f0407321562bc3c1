"""Edit the custom resource's properties by the names of edits."""

from collections.abc import Callable, Collection
from typing import Any

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.framework import Properties

WORKERS = "worker-group-1"
BY_HAND = ("by-hand", "more", "another")
"""Names of groups that somebody creates by hand; templates use some of these names at other times."""
_GROUPS = ("head-group", WORKERS, "workers-2", *BY_HAND)


def _workers(**fields: Any) -> Callable[[Properties, HyperPodBench], object]:
    return lambda properties, _: [
        group.update(fields) for group in properties["InstanceGroups"] if group["InstanceGroupName"] == WORKERS
    ]


def _without_workers(properties: Properties, _: HyperPodBench) -> None:
    properties["InstanceGroups"] = [g for g in properties["InstanceGroups"] if g["InstanceGroupName"] != WORKERS]


def _own_network(properties: Properties, bench: HyperPodBench) -> None:
    own = {"SecurityGroupIds": [bench.security_group_id], "Subnets": [bench.subnet_id]}
    _workers(OverrideVpcConfig=own)(properties, bench)


def _added(name: str) -> Callable[[Properties, HyperPodBench], object]:
    return lambda properties, bench: properties["InstanceGroups"].append(bench.group(name, "ml.g5.2xlarge", 1))


def _labels(properties: Properties, bench: HyperPodBench) -> None:
    """Label the workers; Slurm's have a partition instead."""
    partition = {"NodeType": "Compute", "PartitionNames": ["vision"]}
    label = {"Labels": {"team": "vision"}}
    _workers(**({"SlurmConfig": partition} if bench.slurm else {"KubernetesConfig": label}))(properties, bench)


def _confirmed(properties: Properties, _: HyperPodBench) -> None:
    names = {group["InstanceGroupName"] for group in properties["InstanceGroups"]}
    properties["ConfirmGroupRemoval"] = [name for name in _GROUPS if name not in names]


# Edits apply in this order: those that rename or remove the workers come after those that change them.
EDITS: dict[str, Callable[[Properties, HyperPodBench], object]] = {
    "more workers": _workers(InstanceCount=3),
    "four workers": _workers(InstanceCount=4),
    "five workers": _workers(InstanceCount=5),
    "fewer workers": _workers(InstanceCount=1),
    "deep checks": _workers(OnStartDeepHealthChecks=["InstanceStress"]),
    "labels": _labels,
    "own image": _workers(ImageId="ami-0123456789abcdef0"),
    "bigger disks": _workers(InstanceStorageConfigs=[{"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}]),
    "own network": _own_network,
    "other type": _workers(InstanceType="ml.g5.2xlarge"),
    "two threads": _workers(ThreadsPerCore=2),
    "new group": _added("more"),
    "another group": _added("another"),
    "workers renamed": _workers(InstanceGroupName="workers-2"),
    "no workers": _without_workers,
    "removal confirmed": _confirmed,
    "no recovery": lambda properties, _: properties.update(NodeRecovery="None"),
    "recovery left out": lambda properties, _: properties.pop("NodeRecovery"),
    "other tags": lambda properties, _: properties.update(Tags=[{"Key": "team", "Value": "vision"}]),
    "not continuous": lambda properties, _: properties.pop("NodeProvisioningMode"),
    "other name": lambda properties, _: properties.update(ClusterName="other-name"),
    "typing error": lambda properties, _: properties.update(NodeRecover="None"),
}

NEVER = frozenset({"own network", "other type", "two threads", "not continuous", "other name", "typing error"})
"""Edits that an existing cluster refuses, or that create another kind of cluster."""


def edited(bench: HyperPodBench, edits: Collection[str]) -> Properties:
    """Return the properties with these edits."""
    properties: Properties = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}])
    for name, edit in EDITS.items():
        if name in edits:
            edit(properties, bench)
    return properties
