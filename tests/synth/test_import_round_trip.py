"""`ops import` loses nothing: requests drawn from botocore's model of CreateCluster come back from the synthesis.

Each value of the request is in the cluster's resource again, or a note of the import names its field; and what the
resource has besides is told, too.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from botocore.loaders import Loader
from ruamel.yaml.comments import CommentedMap

from config.model import HyperPod
from config.reading import strict_yaml
from ops.environment import cluster_config, new
from stacks.hyperpod.cluster import HyperPodCluster
from stacks.hyperpod.slurm import SlurmTopology
from tests.support.sampling import drawing

SHAPES: Final[Mapping[str, Any]] = Loader().load_service_model("sagemaker", "service-2")["shapes"]
Place = tuple[str | int, ...]

# Where an environment allows less than the API, `ops check` names the value with its line. Here it is allowed.
NARROWER: Final[Mapping[str, tuple[Any, ...]]] = {
    "TrainingPlanArn": ("arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-march",),
    "ImageId": ("ami-0123456789abcdef0", "ami-01234567", "default"),
    "ClusterInstanceMemoryAllocationPercentage": (20, 55, 100),
    "ClusterKubernetesLabelKey": ("team", "example.com/team", "a"),
    # YAML would read some of these as numbers, dates or truth.
    "ClusterKubernetesLabelValue": ("b", "c.d-e_f", "true", "null", "0123", "1e3", "2026-11-26", "on"),
    "ClusterKubernetesTaintKey": ("team", "example.com/team"),
    "ClusterKubernetesTaintValue": ("b", "c.d-e_f"),
    "ClusterPartitionName": ("dev", "batch-2"),
}
TEXTS: Final[Mapping[str, str]] = {
    "ClusterName": "ml-cluster",
    "RoleArn": "arn:aws:iam::111122223333:role/Given",
    "EksClusterArn": "arn:aws:eks:us-west-2:111122223333:cluster/given",
    "KmsKeyId": "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
}
# HyperPod means the same without these fields.
AS_GOOD_AS_ABSENT: Final = (("TieredStorageConfig", {"Mode": "Disable"}), ("RootVolume", False))


def drawn(name: str, by: random.Random) -> Any:
    """Return a value of the shape: all required members, and each other one with even odds."""
    shape = SHAPES[name]
    if name in NARROWER or "enum" in shape:
        return by.choice(NARROWER.get(name) or shape["enum"])
    match shape["type"]:
        case "structure":
            required = shape.get("required", [])
            given = [key for key in shape["members"] if key in required or by.random() < 0.5]
            value: Any = {key: drawn(shape["members"][key]["shape"], by) for key in given}
        case "list":
            count = by.randint(shape.get("min", 0), min(shape.get("max", 3), 3))
            value = [drawn(shape["member"]["shape"], by) for _ in range(count)]
        case "map":
            keys = {drawn(shape["key"]["shape"], by) for _ in range(by.randint(0, 3))}
            value = {key: drawn(shape["value"]["shape"], by) for key in sorted(keys)}
        case "integer":
            value = by.randint(shape.get("min", 0), shape.get("max", 9))
        case "boolean":
            value = by.random() < 0.5
        case _:
            value = TEXTS.get(name, f"x{by.randint(10, 99)}")
    return value


def request(by: random.Random) -> dict[str, Any]:
    """Return a request with instance groups of different names, which the API requires."""
    made: dict[str, Any] = drawn("CreateClusterRequest", by)
    made.setdefault("InstanceGroups", [drawn("ClusterInstanceGroupSpecification", by)])
    for number, group in enumerate(made["InstanceGroups"]):
        group["InstanceGroupName"] = f"group-{number}"
        # One of the two is required, which the model cannot say.
        if ("InstanceType" in group) is ("InstanceRequirements" in group):
            group.pop("InstanceRequirements", None)
            group.setdefault("InstanceType", drawn("ClusterInstanceType", by))
    return made


def synthesised(document: Mapping[str, Any], *, slurm: bool) -> dict[str, Any]:
    """Return the properties of the cluster's resource for the `hyperpod` of an environment's document."""
    settings = HyperPod.model_validate_json(json.dumps(document))
    stack = cdk.Stack()
    HyperPodCluster(
        stack,
        "Cluster",
        provider=SimpleNamespace(service_token="arn:aws:lambda:us-west-2:111122223333:function:own"),  # type: ignore[arg-type]
        settings=settings,
        tags={"own": "own"},
        execution_role=iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111122223333:role/own"),
        lifecycle_scripts=SimpleNamespace(  # type: ignore[arg-type]
            uris={group.lifecycle_scripts: "s3://own" for group in settings.instance_groups}, entry_point="own.sh"
        ),
        orchestration={},
        slurm=SlurmTopology(by_api=True, mounted={"DnsName": "own"}) if slurm else None,
        subnet=ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-own"),
        own_subnets={},
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-own"),
    )
    found = assertions.Template.from_stack(stack).find_resources("Custom::HyperPodCluster")
    [resource] = found.values()
    properties: dict[str, Any] = resource["Properties"]
    del properties["ServiceToken"]
    return properties


def told(notes: list[str], groups: list[dict[str, Any]], what: str) -> set[Place]:
    """Return the places that the notes name: `FIELD.0.FIELD left out: …`, or `GROUP: FIELD added: …`."""
    numbers = {group["InstanceGroupName"]: number for number, group in enumerate(groups)}
    found = set[Place]()
    for note in notes:
        match = re.fullmatch(r"(?:([\w-]+): )?([\w.]+) (left out|added): .+", note)
        assert match, note
        if match[3] == what:
            within: Place = ("InstanceGroups", numbers[match[1]]) if match[1] else ()
            found.add((*within, *(int(part) if part.isdigit() else part for part in match[2].split("."))))
    return found


def imported(asked: Mapping[str, Any], tmp_path: Path) -> tuple[dict[str, Any], list[str], bool]:
    """Return `hyperpod` of the file that the import writes, the notes, and whether Slurm orchestrates the cluster."""
    file = tmp_path / "cluster-config.json"
    file.write_text(json.dumps(asked))
    found = cluster_config.read(file)
    document = CommentedMap(
        hyperpod={"cluster_name": "template", "node_recovery": "Automatic"}, ray={"clusters": [{"head": {}}]}, slurm={}
    )
    if found.of_slurm:
        cluster_config.put_into_slurm(document, found, None)
    else:
        cluster_config.put_into(document, found)
    new.write(document, tmp_path / "mine.yaml", "Imported.")
    return strict_yaml.read(tmp_path / "mine.yaml").values["hyperpod"], found.notes, found.of_slurm


def without(value: Any, dropped: set[Place], place: Place = ()) -> Any:
    """Return the value without what is dropped, what HyperPod takes as absent, and what then is empty."""
    if isinstance(value, dict):
        kept = {
            key: without(each, dropped, (*place, key)) for key, each in value.items() if (*place, key) not in dropped
        }
        return {
            key: each for key, each in kept.items() if each not in ({}, []) and (key, each) not in AS_GOOD_AS_ABSENT
        }
    if isinstance(value, list):
        kept_items = [without(each, dropped, (*place, n)) for n, each in enumerate(value) if (*place, n) not in dropped]
        return [each for each in kept_items if each not in ({}, [])]
    return value


def own(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places of what the stacks make: its values contain `own`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from own(each, (*place, key))
    if not items and "own" in json.dumps(value):
        yield place


def compared(
    asked: Mapping[str, Any], document: Mapping[str, Any], notes: list[str], *, slurm: bool
) -> tuple[Any, Any]:
    """Return the request without what is left out, and the resource without what is added."""
    left_out, added = (told(notes, asked["InstanceGroups"], what) for what in ("left out", "added"))
    made = synthesised(document, slurm=slurm)
    return without(asked, left_out), without(made, added | set(own(made)))


@pytest.mark.sampled(25, long=1000)
@pytest.mark.parametrize("number", range(1000))
def test_a_drawn_request_comes_back_or_each_difference_is_told(number: int, tmp_path: Path) -> None:
    asked = request(drawing(f"import {number}"))
    document, notes, slurm = imported(asked, tmp_path)
    back, made = compared(asked, document, notes, slurm=slurm)
    assert back == made


def test_the_drawn_requests_have_every_field_of_the_model() -> None:
    """Else a field could be lost that no case has."""
    groups = [group for number in range(200) for group in request(drawing(f"import {number}"))["InstanceGroups"]]
    assert {key for group in groups for key in group} == {*SHAPES["ClusterInstanceGroupSpecification"]["members"]}
    for name, values in NARROWER.items():
        pattern = SHAPES[name].get("pattern")
        assert all(pattern is None or re.fullmatch(pattern, value) for value in values), name


def test_the_comparison_sees_a_lost_and_a_changed_value(tmp_path: Path) -> None:
    group = {"InstanceGroupName": "g", "InstanceType": "ml.m5.large", "InstanceCount": 1, "ThreadsPerCore": 2}
    asked = {"ClusterName": "c", "NodeRecovery": "None", "InstanceGroups": [group]}
    document, notes, _ = imported(asked, tmp_path)
    for wrong in ({"threads_per_core": 1}, {"count": 2}, {"min_count": 1}):
        changed = document | {"instance_groups": [document["instance_groups"][0] | wrong]}
        back, made = compared(asked, changed, notes, slurm=False)
        assert back != made
    back, made = compared(asked, document, [], slurm=False)
    assert back != made
