"""The table of the instance groups, before and after."""

from collections.abc import Mapping
from typing import Any

from ops.review.assembly import Assembly, Pair
from ops.review.hyperpod.cluster import CLUSTER
from ops.review.hyperpod.values import shown
from ops.review.kubernetes.sleeper import known_groups
from ops.review.model import ComparedRow
from ops.review.sleeping import ranges


def groups(pair: Pair) -> tuple[ComparedRow, ...]:
    """Return a row for each instance group of either side, in the order of the templates."""
    before, after = _groups(pair.base), _groups(pair.head)
    return tuple(
        ComparedRow(name, before.get(name, {}), after.get(name, {})) for name in dict.fromkeys([*before, *after])
    )


def _groups(assembly: Assembly | None) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for stack in assembly.stacks.values() if assembly else ():
        for resource in stack.resources.values():
            if assembly and resource.get("Type") == CLUSTER:
                properties = resource.get("Properties", {})
                found = properties.get("InstanceGroups")
                for group in found if isinstance(found, list) else []:
                    network = group.get("OverrideVpcConfig") or properties.get("VpcConfig", {})
                    name = shown(group.get("InstanceGroupName"))
                    rows[name] = _row(assembly, group, network) | _sleep(assembly, name)
    return rows


def _row(assembly: Assembly, group: Mapping[str, Any], network: Mapping[str, Any]) -> dict[str, str]:
    volumes = [each.get("EbsVolumeConfig", {}) for each in _list(group, "InstanceStorageConfigs")]
    return {
        "type": shown(group.get("InstanceType")),
        "count": shown(group.get("InstanceCount")),
        "min count": _shown(group.get("MinInstanceCount")),
        "volume": ", ".join(f"{shown(each['VolumeSizeInGB'])} GiB" for each in volumes if "VolumeSizeInGB" in each),
        "zone": ", ".join(_zone(assembly, subnet) for subnet in _list(network, "Subnets")),
        "training plan": _shown(group.get("TrainingPlanArn")),
        "deep health checks": ", ".join(map(shown, _list(group, "OnStartDeepHealthChecks"))),
    }


def _sleep(assembly: Assembly, name: str) -> dict[str, str]:
    """Return the column of how groups sleep, if any group of the side does."""
    if ranges(assembly) == {}:
        return {}
    known = known_groups(assembly).get(name)
    return {"sleep": known.words if known else ""}


def _zone(assembly: Assembly, subnet: Any) -> str:
    """Return the zone of a subnet that a stack of the assembly exports; the subnet itself of another one."""
    name = subnet.get("Fn::ImportValue") if isinstance(subnet, Mapping) else None
    for stack in assembly.stacks.values():
        for output in stack.template.get("Outputs", {}).values():
            if name is not None and output.get("Export", {}).get("Name") == name:
                target = output.get("Value", {}).get("Fn::GetAtt") or [output.get("Value", {}).get("Ref")]
                properties = stack.resources.get(target[0], {}).get("Properties", {})
                return shown(properties.get("AvailabilityZoneId") or properties.get("AvailabilityZone") or subnet)
    return shown(subnet)


def _list(values: Mapping[str, Any], key: str) -> list[Any]:
    found = values.get(key)
    return found if isinstance(found, list) else []


def _shown(value: Any) -> str:
    return "" if value is None else shown(value)
