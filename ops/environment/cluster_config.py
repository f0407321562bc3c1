"""Read the `cluster-config.json` of HyperPod's walkthroughs: the request of CreateCluster, or only its groups.

The EKS walkthrough writes the whole request, the Slurm walkthrough the list for `--instance-groups`. Both come from a
shell's here-document, so the file may contain placeholders `${…}`, quoted or not, instead of values.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_pascal

from config.facts.instance_types import catalogue
from config.model import HyperPod, InstanceGroup, TieredStorage
from ops.environment.new import NewError
from ops.environment.provisioning_parameters import SlurmParameters

# A text as a whole, so that its content does not match the others; a comma before a closing bracket; a placeholder
# without quotes.
_TOKENS: Final = re.compile(r'"(?:\\.|[^"\\])*"|(?P<comma>,)(?=\s*[}\]])|(?P<placeholder>\$\{\w+\})')
_REASONS: Final = {
    "ExecutionRole": "the hyperpod stack creates the role",
    "FsxLustreConfig": "the environment's own file system is mounted (fsx)",
    "FsxOpenZfsConfig": "the environment's own file system is mounted (fsx)",
    "InstanceRequirements": "a group has one type here",
    "LifeCycleConfig": "the project's own lifecycle_scripts/ are uploaded",
    "Orchestrator": "the eks stack creates the cluster (or name yours under eks.existing)",
    "VpcConfig": "the network stack creates the VPC (or name yours under network.existing)",
    "OverrideVpcConfig": "state the group's `zone` instead",
    "NodeProvisioningMode": "always Continuous",
    "Tags": "the stacks tag their resources",
    "VolumeKmsKeyId": "one key encrypts all volumes and buckets here: name it as company.kms_key",
}
"""Why a field is left out; any other is not supported yet."""

# A check of the API that `deep_health_checks` lacks, and the image that the API means without ImageId.
_OTHER_CHECKS: Final = frozenset({"MultiNodeTrainingValidation"})
_DEFAULT_IMAGE: Final = "default"

_ALLOWED: Final = "Allowed: a request of CreateCluster, or its list of instance groups"
_GIVE_THE_REQUEST: Final = "Fix: give the JSON that `aws sagemaker create-cluster` was given"

_Number = int | Annotated[str, StringConstraints(pattern=r"^\$\{\w+\}$")]


class _Shape(BaseModel):
    """A structure of SageMaker's API, as far as an environment uses it; the rest is in `model_extra`."""

    model_config = ConfigDict(alias_generator=to_pascal, extra="allow")


class _Volume(_Shape):
    size: _Number | None = Field(default=None, alias="VolumeSizeInGB")
    root_volume: bool = False


class _Storage(_Shape):
    """One storage of a group. Its file systems are in `model_extra`, because no environment takes them over."""

    ebs: _Volume | None = Field(default=None, alias="EbsVolumeConfig")


class _Taint(_Shape):
    key: str
    value: str = ""
    effect: str


class _Kubernetes(_Shape):
    labels: dict[str, str] = {}
    taints: list[_Taint] = []


class _Slurm(_Shape):
    node_type: str
    partition_names: list[str] = []


class _Group(_Shape):
    name: str = Field(alias="InstanceGroupName")
    instance_type: str
    count: _Number = Field(alias="InstanceCount")
    min_count: _Number | None = Field(default=None, alias="MinInstanceCount")
    threads_per_core: _Number | None = None
    deep_health_checks: list[str] | None = Field(default=None, alias="OnStartDeepHealthChecks")
    training_plan: str | None = Field(default=None, alias="TrainingPlanArn")
    image_id: str | None = None
    storage: list[_Storage] = Field(default=[], alias="InstanceStorageConfigs")
    kubernetes: _Kubernetes = Field(default=_Kubernetes(), alias="KubernetesConfig")
    slurm: _Slurm | None = Field(default=None, alias="SlurmConfig")

    @model_validator(mode="before")
    @classmethod
    def _take_the_first_type(cls, group: Any) -> Any:
        """Give a group with several types, of which a request has either, the one that it prefers."""
        match group:
            case {"InstanceRequirements": {"InstanceTypes": [first, *_]}} if "InstanceType" not in group:
                return group | {"InstanceType": first}
        return group

    @property
    def volumes(self) -> dict[int, _Number]:
        """The sizes of the secondary volumes by their place in `storage`; an environment takes over the first."""
        found = {n: each.ebs for n, each in enumerate(self.storage) if each.ebs and not each.ebs.root_volume}
        return {n: volume.size for n, volume in found.items() if volume.size is not None}


class _Tier(_Shape):
    mode: Literal["Enable", "Disable"]
    percentage: int | None = Field(default=None, alias="InstanceMemoryAllocationPercentage")


class _Request(_Shape):
    cluster_name: str | None = None
    node_recovery: str | None = None
    tier: _Tier | None = Field(default=None, alias="TieredStorageConfig")
    groups: list[_Group] = Field(alias="InstanceGroups", min_length=1)


@dataclass(frozen=True)
class Imported:
    """The content of the file as an environment states it, and notes for the person."""

    cluster_name: str | None
    node_recovery: str | None
    tiered_storage: dict[str, int] | None
    groups: list[dict[str, Any]]
    notes: list[str]

    @property
    def of_slurm(self) -> bool:
        """Whether the request configures Slurm."""
        return any("slurm" in group for group in self.groups)


def read(file: Path) -> Imported:
    """Return the content of the file. Raises NewError if it is not such a file."""
    notes: list[str] = []
    try:
        text = file.read_text()
        document = json.loads(
            _TOKENS.sub(lambda match: _mended(match, text, notes), text), object_pairs_hook=_without_repetition
        )
        request = _Request.model_validate({"InstanceGroups": document} if isinstance(document, list) else document)
    except OSError as error:
        raise NewError(f"{file} cannot be read: {error.strerror}. {_GIVE_THE_REQUEST}") from None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise NewError(f"{file} is invalid: {wrong}. {_ALLOWED}. {_GIVE_THE_REQUEST}") from None
    except (ValueError, RecursionError) as error:
        raise NewError(f"{file} is not JSON: {error}. {_GIVE_THE_REQUEST}") from None
    notes += _unsupported(request)
    notes += _unused(request)
    for group in request.groups:
        notes += (f"{group.name}: {note}" for note in (*_unsupported(group), *_unused_of(group), *_added(group)))
    groups = [_group(group) for group in request.groups]
    return Imported(request.cluster_name, request.node_recovery, _tiered_storage(request.tier), groups, notes)


def put_into(document: dict[str, Any], imported: Imported) -> None:
    """Replace the instance groups of an environment's document, and adapt its RayCluster to them."""
    _replace_cluster(document, imported)
    if imported.tiered_storage is not None:
        document["hyperpod"]["tiered_storage"] = imported.tiered_storage
    cluster = document["ray"]["clusters"][0]
    head = next((group for group in imported.groups if not _accelerated(group)), imported.groups[0])
    workers = [group for group in imported.groups if group is not head] or [head]
    cluster["head"]["instance_group"] = head["name"]
    cluster["workers"] = [
        {
            "name": "gpu-group" if len(workers) == 1 else f"group-{n}",
            "instance_group": group["name"],
            "replicas": group["count"],
            **_replica_limits(group["count"]),
        }
        for n, group in enumerate(workers, start=1)
    ]


def put_into_slurm(document: dict[str, Any], imported: Imported, parameters: SlurmParameters | None) -> None:
    """Replace the instance groups of a document with Slurm; `parameters` say what nodes are if the request does not."""
    _replace_cluster(document, imported)
    for group in imported.groups if parameters else ():
        if node := parameters.nodes.get(group["name"]) if parameters else None:
            group["slurm"] = node
    document["slurm"]["configuration"] = "provisioning_parameters" if parameters else "api"
    if imported.tiered_storage is not None:
        imported.notes.append("TieredStorageConfig left out: only a cluster that EKS orchestrates has a memory tier")


def _replace_cluster(document: dict[str, Any], imported: Imported) -> None:
    hyperpod = document["hyperpod"]
    hyperpod["cluster_name"] = imported.cluster_name or hyperpod["cluster_name"]
    if imported.node_recovery:
        hyperpod["node_recovery"] = imported.node_recovery
    hyperpod["instance_groups"] = imported.groups


def _replica_limits(count: _Number) -> dict[str, _Number]:
    """Return the walkthrough's limits: at least one worker, at most the group's nodes. It may have none yet."""
    if isinstance(count, str):
        return {"min_replicas": 1, "max_replicas": count}
    return {"min_replicas": min(1, count), "max_replicas": max(1, count)}


def _tiered_storage(tier: _Tier | None) -> dict[str, int] | None:
    if tier is None or tier.mode != "Enable":
        return None
    return {} if tier.percentage is None else {"memory_percent": tier.percentage}


def _mended(match: re.Match[str], text: str, notes: list[str]) -> str:
    if match["comma"]:
        line = text.count("\n", 0, match.start()) + 1
        notes.append(f"line {line}: a comma before a closing bracket is not JSON; ignored")
        return ""
    return json.dumps(match["placeholder"]) if match["placeholder"] else match[0]


def _group(group: _Group) -> dict[str, Any]:
    """Return the group as an environment states it, without keys that the file lacks."""
    left = {"storage", "kubernetes", "slurm", *(group.model_extra or {})}
    fields = group.model_dump(exclude=left, exclude_none=True)
    if fields.get("image_id") == _DEFAULT_IMAGE:
        del fields["image_id"]
    if fields.get("min_count") == 0:
        del fields["min_count"]
    if "deep_health_checks" in fields:
        fields["deep_health_checks"] = [each for each in fields["deep_health_checks"] if each not in _OTHER_CHECKS]
    if group.slurm:
        partition = {"partition": group.slurm.partition_names[0]} if group.slurm.partition_names else {}
        fields["slurm"] = {"node": group.slurm.node_type.lower(), **partition}
    if group.volumes:
        fields["volume_gib"] = next(iter(group.volumes.values()))
    fields |= group.kubernetes.model_dump(exclude_defaults=True)
    return fields


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises ValueError for a key that is listed twice, of which JSON's reader takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is listed twice in one object")
    return found


def _unsupported(shape: _Shape, within: str = "") -> Iterator[str]:
    """Yield a note for each field that no environment states, except those of the groups of a request."""
    for extra in shape.model_extra or {}:
        yield f"{within}{extra} left out: {_REASONS.get(extra, 'not supported yet, or no field of the API')}"
    for name, field in type(shape).model_fields.items():
        match getattr(shape, name):
            case _Shape() as inner:
                yield from _unsupported(inner, f"{within}{field.alias}.")
            case [_Storage() | _Taint(), *_] as items:
                for n, inner in enumerate(items):
                    yield from _unsupported(inner, f"{within}{field.alias}.{n}.")


def _unused(request: _Request) -> Iterator[str]:
    """Yield a note for each value of the cluster that an environment cannot state, and for what it adds."""
    if request.tier and request.tier.mode == "Disable" and request.tier.percentage is not None:
        yield "TieredStorageConfig.InstanceMemoryAllocationPercentage left out: the tier's Mode is Disable"
    if request.tier and request.tier.mode == "Enable" and request.tier.percentage is None:
        share = TieredStorage.model_fields["memory_percent"].default
        yield f"TieredStorageConfig.InstanceMemoryAllocationPercentage added: {share}, the default of memory_percent"
    if request.node_recovery is None:
        yield f"NodeRecovery added: {HyperPod.model_fields['node_recovery'].default}, the default of node_recovery"


def _unused_of(group: _Group) -> Iterator[str]:
    """Yield a note for each value of the group that an environment cannot state."""
    for n, storage in enumerate(group.storage):
        where = f"InstanceStorageConfigs.{n}.EbsVolumeConfig"
        if storage.ebs and storage.ebs.root_volume:
            yield f"{where} left out: it is the root volume, which HyperPod sizes; company.kms_key encrypts it"
        elif n in [*group.volumes][1:]:
            yield f"{where} left out: a group has one secondary volume here, the first"
    if group.image_id == _DEFAULT_IMAGE:
        yield f"ImageId left out: {_DEFAULT_IMAGE} is HyperPod's AMI, as without the key image_id"
    if group.min_count == 0:
        yield "MinInstanceCount left out: 0 is no minimum"
    for n, check in enumerate(group.deep_health_checks or ()):
        if check in _OTHER_CHECKS:
            yield f"OnStartDeepHealthChecks.{n} left out: {check} is not supported yet"
    for n in range(1, len(group.slurm.partition_names) if group.slurm else 0):
        yield f"SlurmConfig.PartitionNames.{n} left out: a group has one partition here, the first"


def _added(group: _Group) -> Iterator[str]:
    """Yield a note for each value that the request lacks."""
    if "InstanceRequirements" in (group.model_extra or {}):
        yield f"InstanceType added: {group.instance_type}, the first of InstanceRequirements"
    if group.threads_per_core is None:
        yield f"ThreadsPerCore added: {_default('threads_per_core')}, the default of threads_per_core"
    if not group.volumes:
        yield f"InstanceStorageConfigs added: a volume of {_default('volume_gib')} GiB, the default of volume_gib"


def _default(key: str) -> Any:
    return InstanceGroup.model_fields[key].default


def _accelerated(group: dict[str, Any]) -> bool:
    kind = catalogue().get(group["instance_type"])
    return kind is not None and kind.accelerated
