"""Compare the HyperPod cluster with the template that was deployed.

CloudFormation detects no drift of custom resources. Values that CloudFormation fills in (references to roles, subnets
and buckets) are compared only as far as the template writes them out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from handlers.hyperpod_cluster.consequences import LIVE_NAMES
from ops import hyperpod
from ops.drift.finding import Drift

Fields = Mapping[str, Any]

RESOURCE_TYPE: Final = "Custom::HyperPodCluster"
_KIND: Final = "HyperPod cluster"
_NOT_LIVE: Final = {"ServiceToken", "ConfirmGroupRemoval", "SleepingGroups"}
"""Properties for the handler, which DescribeCluster does not know."""
_EMPTY_OBJECT: Final = "{}"
"""What the template says for an empty object, which CDK would leave out (`stacks/hyperpod/slurm.py`)."""
_IDENTITIES: Final = ("InstanceGroupName", "Key")
"""The fields that name an item of a list."""


def cluster_drifts(sagemaker: Any, template: Fields) -> Iterator[Drift]:
    """Yield how each cluster of the deployed template differs from the cluster that SageMaker describes."""
    for resource in template.get("Resources", {}).values():
        if resource["Type"] != RESOURCE_TYPE:
            continue
        deployed = {key: value for key, value in resource["Properties"].items() if key not in _NOT_LIVE}
        name = deployed["ClusterName"]
        live = _describe(sagemaker, name)
        if live is None:
            yield Drift(_KIND, name, "is deleted")
            continue
        for detail in differences(deployed, live):
            yield Drift(_KIND, name, detail)


def _describe(sagemaker: Any, name: str) -> Fields | None:
    live = hyperpod.find(sagemaker, name)
    if live is None:
        return None
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=live["ClusterArn"])
    return {**live, "Tags": [tag for page in pages for tag in page["Tags"]]}


def differences(deployed: Fields, live: Fields) -> Iterator[str]:
    """Yield each difference in words: `path is X, deployed Y`, and groups that the template lacks."""
    yield from _compare(deployed, live, "")
    names = {group["InstanceGroupName"] for group in deployed.get("InstanceGroups", ())}
    for group in live.get("InstanceGroups", ()):
        # A deleted group is listed until its last node is gone.
        if group["InstanceGroupName"] not in names and group.get("Status") != "Deleting":
            yield f"instance group {group['InstanceGroupName']} was not deployed"


def _compare(deployed: Any, live: Any, path: str) -> Iterator[str]:
    pattern = _pattern(deployed) if isinstance(deployed, Mapping) else None
    if pattern is not None:
        if not isinstance(live, str) or not re.fullmatch(pattern, live):
            yield f"{path} is {_shown(live)}, which the deployed template excludes"
    elif isinstance(deployed, Mapping):
        for key, value in deployed.items():
            yield from _compare(value, _live(live, key), f"{path}.{key}".lstrip("."))
    elif isinstance(deployed, list) and _identity(deployed):
        yield from _compare_items(deployed, live, path)
    elif not _same(deployed, live):
        yield f"{path} is {_shown(live)}, deployed {_shown(deployed)}"


def _compare_items(deployed: Sequence[Fields], live: Any, path: str) -> Iterator[str]:
    identity = _identity(deployed)
    by_name = {each[identity]: each for each in live or () if identity in each}
    for item in deployed:
        where = f"{path}[{item[identity]}]"
        if item[identity] not in by_name:
            yield f"{where} is deleted"
        else:
            yield from _compare(item, by_name[item[identity]], where)


def _identity(items: Sequence[Any]) -> str:
    """Return the field by which the items of a list are told apart, or ""."""
    return next((key for key in _IDENTITIES if items and all(isinstance(i, Mapping) and key in i for i in items)), "")


def _live(live: Any, key: str) -> Any:
    if not isinstance(live, Mapping):
        return None
    return next((live[name] for name in (LIVE_NAMES.get(key, key), f"Desired{key}") if name in live), None)


def _pattern(value: Fields) -> str | None:
    """Return what the value of an intrinsic function can be, as a regular expression; None if it is no function."""
    match list(value.items()):
        case [("Fn::Join", [str(separator), list(parts)])]:
            literal = (re.escape(part) if isinstance(part, str) else ".*" for part in parts)
            return re.escape(separator).join(literal)
        case [(str(name), _)] if name == "Ref" or name.startswith("Fn::"):
            return ".*"
    return None


def _same(deployed: Any, live: Any) -> bool:
    if isinstance(deployed, list) and isinstance(live, list) and len(deployed) == len(live):
        # SageMaker promises no order; nested fields that the template leaves open are the service's defaults.
        left = list(live)
        for item in deployed:
            match = next((each for each in left if not list(_compare(item, each, ""))), None)
            if match is None:
                return False
            left.remove(match)
        return True
    if deployed == _EMPTY_OBJECT:
        return bool(live == {})
    return bool(deployed == live) or (not deployed and not live)


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
