"""Read the `provisioning_parameters.json` of HyperPod's guide for Slurm: what the nodes of each group are."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from ops.environment.new import NewError

_ALLOWED: Final = "Allowed: the JSON file that lies beside the lifecycle scripts"
_FIX: Final = "Fix: copy it from the bucket of the scripts"


class _Workers(BaseModel):
    # Generators write names of digits alone as numbers.
    model_config = ConfigDict(coerce_numbers_to_str=True)

    instance_group_name: str
    partition_name: str | None = None


class _File(BaseModel):
    """The file's keys, as awslabs/awsome-distributed-ai (base-config) reads them: null is as good as no key.

    The rest is in `model_extra`.
    """

    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    workload_manager: str = "slurm"
    controller_group: str
    login_group: str | None = None
    worker_groups: list[_Workers] | None = None
    fsx_dns_name: str | None = None
    fsx_mountname: str | None = None


@dataclass(frozen=True)
class SlurmParameters:
    """What each instance group's nodes are in Slurm, by the group's name, and notes for the person."""

    nodes: dict[str, dict[str, Any]]
    notes: list[str]


def read(file: Path) -> SlurmParameters:
    """Return the content of the file. Raises NewError if it is not such a file."""
    try:
        found = _File.model_validate(json.loads(file.read_text()))
    except OSError as error:
        raise NewError(f"{file} cannot be read: {error.strerror}. {_FIX}") from None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise NewError(f"{file} is invalid: {wrong}. {_ALLOWED}. {_FIX}") from None
    except ValueError as error:
        raise NewError(f"{file} is not JSON: {error}. {_ALLOWED}. {_FIX}") from None
    if found.workload_manager != "slurm":
        problem = f"workload_manager: {found.workload_manager!r} is invalid: Slurm alone is supported"
        raise NewError(f"{file} {problem}. Allowed: slurm. Fix: import a cluster of Slurm")
    nodes: dict[str, dict[str, Any]] = {}
    for workers in found.worker_groups or []:
        partition = {"partition": workers.partition_name} if workers.partition_name else {}
        nodes[workers.instance_group_name] = {"node": "compute", **partition}
    # Last: a common mistake lists login nodes as workers, too.
    others = {"controller": found.controller_group, "login": found.login_group}
    nodes |= {name: {"node": node} for node, name in others.items() if name}
    return SlurmParameters(nodes, list(_notes(found)))


def _notes(found: _File) -> Iterator[str]:
    named = {found.controller_group, found.login_group}
    for workers in found.worker_groups or []:
        if workers.instance_group_name in named:
            yield f"worker_groups: {workers.instance_group_name} left out: its nodes run no jobs"
    if found.fsx_dns_name:
        yield (
            f"fsx_dns_name left out: the storage stack creates a file system (or name {found.fsx_dns_name} under "
            f"fsx.existing, with mount_name {found.fsx_mountname})"
        )
    for key in found.model_extra or {}:
        if key != "version":
            yield f"{key} left out: not supported yet"
