"""Read the `cluster-config.json` of HyperPod's walkthroughs: the request of CreateCluster, or only its groups.

The EKS walkthrough writes the whole request, the Slurm walkthrough the list for `--instance-groups`. Both come from a
shell's here-document, so the file may contain placeholders `${…}`, quoted or not, instead of values.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_pascal

from config.facts.instance_types import catalogue
from ops.environment.new import NewError
from ops.environment.provisioning_parameters import Parameters

# A text as a whole, so that its content does not match the others; a comma before a closing bracket; a placeholder
# without quotes.
_TOKENS: Final = re.compile(r'"(?:\\.|[^"\\])*"|(?P<comma>,)(?=\s*[}\]])|(?P<placeholder>\$\{\w+\})')
_MADE_BY_STACKS: Final = {
    "ExecutionRole": "the hyperpod stack creates the role",
    "LifeCycleConfig": "the project's own lifecycle_scripts/ are uploaded",
    "Orchestrator": "the eks stack creates the cluster (or name yours under eks.existing)",
    "VpcConfig": "the network stack creates the VPC (or name yours under network.existing)",
    "OverrideVpcConfig": "state the group's `zone` instead",
    "NodeProvisioningMode": "always Continuous",
    "Tags": "the stacks tag their resources",
}

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


class _Request(_Shape):
    cluster_name: str | None = None
    node_recovery: str | None = None
    groups: list[_Group] = Field(alias="InstanceGroups", min_length=1)


@dataclass(frozen=True)
class Imported:
    """The content of the file as an environment states it, and notes for the person."""

    cluster_name: str | None
    node_recovery: str | None
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
        document = json.loads(_TOKENS.sub(lambda match: _mended(match, text, notes), text))
        request = _Request.model_validate({"InstanceGroups": document} if isinstance(document, list) else document)
    except OSError as error:
        raise NewError(f"{file} cannot be read: {error.strerror}. {_GIVE_THE_REQUEST}") from None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise NewError(f"{file} is invalid: {wrong}. {_ALLOWED}. {_GIVE_THE_REQUEST}") from None
    except (ValueError, RecursionError) as error:
        raise NewError(f"{file} is not JSON: {error}. {_GIVE_THE_REQUEST}") from None
    notes += _left_out(request, "")
    for group in request.groups:
        notes += _left_out(group, f"{group.name}: ")
    return Imported(request.cluster_name, request.node_recovery, [_group(group) for group in request.groups], notes)


def put_into(document: dict[str, Any], imported: Imported) -> None:
    """Replace the instance groups of an environment's document, and adapt its RayCluster to them."""
    _replace_cluster(document, imported)
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


def put_into_slurm(document: dict[str, Any], imported: Imported, parameters: Parameters | None) -> None:
    """Replace the instance groups of a document with Slurm; `parameters` say what nodes are if the request does not."""
    _replace_cluster(document, imported)
    for group in imported.groups if parameters else ():
        if node := parameters.nodes.get(group["name"]) if parameters else None:
            group["slurm"] = node
    document["slurm"]["configuration"] = "provisioning_parameters" if parameters else "api"
    # Whose account it is, is unknown; nobody else's roles may enter it.
    document.pop("access", None)


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


def _mended(match: re.Match[str], text: str, notes: list[str]) -> str:
    if match["comma"]:
        line = text.count("\n", 0, match.start()) + 1
        notes.append(f"line {line}: a comma before a closing bracket is not JSON; ignored")
        return ""
    return json.dumps(match["placeholder"]) if match["placeholder"] else match[0]


def _group(group: _Group) -> dict[str, Any]:
    """Return the group as an environment states it, without keys that the file lacks."""
    left = {"storage", "kubernetes", "slurm", *(group.model_extra or {})}
    said = group.model_dump(exclude=left, exclude_none=True)
    if group.slurm:
        partition = {"partition": group.slurm.partition_names[0]} if group.slurm.partition_names else {}
        said["slurm"] = {"node": group.slurm.node_type.lower(), **partition}
    for storage in group.storage:
        if storage.ebs and storage.ebs.size is not None and not storage.ebs.root_volume:
            said["volume_gib"] = storage.ebs.size
    said |= group.kubernetes.model_dump(exclude_defaults=True)
    return said


def _left_out(shape: _Request | _Group, where: str) -> Iterator[str]:
    for field in shape.model_extra or {}:
        yield f"{where}{field} left out: {_MADE_BY_STACKS.get(field, 'not supported yet, or no field of the API')}"
    if isinstance(shape, _Group) and any(storage.ebs is None for storage in shape.storage):
        yield f"{where}a file system in InstanceStorageConfigs left out: pods mount the environment's own (fsx)"
    if isinstance(shape, _Group) and any(storage.ebs and storage.ebs.root_volume for storage in shape.storage):
        yield f"{where}the root volume left out: HyperPod sizes it itself, and a key for it is not supported yet"


def _accelerated(group: dict[str, Any]) -> bool:
    kind = catalogue().get(group["instance_type"])
    return kind is not None and kind.accelerated
