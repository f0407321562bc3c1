"""Prepare real Slurm's nodes by the deployed lifecycle scripts: they start munge and, unless HyperPod does, Slurm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedded_account.resource_config import ListedInstance, cluster_file, slurm_config
from rehearsal.slurm import stand_ins
from rehearsal.slurm.configuration import ConfiguredNode
from rehearsal.slurm.programs import Programs
from rehearsal.slurm.scripts import PARAMETERS, Inputs, NodeFolder, folder_of

_CONF_SERVER: Final = "etc/systemd/system/slurmd.service.d/10-controllers.conf"
_UNITS: Final = {
    # As with a forking service of systemd, the command returns once munge listens.
    "munge": '"$MUNGED" @MUNGE@ >>"$LOGS/munged.log" 2>&1',
    "slurmctld": 'setsid "$SLURMCTLD" -D >>"$LOGS/slurmctld.log" 2>&1 &',
    # The image's unit passes the scripts' drop-in, as one word or split: slurmd fetches slurm.conf from there.
    "slurmd": """options=$(sed -n 's/^Environment="SLURMD_OPTIONS=\\(.*\\)"$/\\1/p' "$ROOT/@DROP_IN@")
unset SLURM_CONF
setsid "$SLURMD" -D -N "$(hostname)" "$options" -d "$SLURMSTEPD" >>"$LOGS/slurmd.log" 2>&1 &""",
}
"""What starts a unit on a node."""


@dataclass(frozen=True)
class DeployedScripts:
    """The scripts of a deployment, and the file system that HyperPod mounts or the scripts do."""

    files: Mapping[str, bytes]
    source: str
    """DNS@tcp:/NAME of the deployed file system."""
    mount_point: str

    @property
    def start_slurm(self) -> bool:
        """Return whether the scripts start slurmctld and slurmd; with the API's way HyperPod does."""
        return PARAMETERS in self.files


def folder(
    scripts: DeployedScripts,
    directory: Path,
    node: ConfiguredNode,
    nodes: Sequence[ConfiguredNode],
    munge: Sequence[str],
) -> NodeFolder:
    """Return a new node's folder below `directory`, written; `munge` are munged's words.

    The shared file system of all nodes is one folder.
    """
    file_systems = directory / "file-systems"
    folder_of(file_systems, scripts.source).mkdir(parents=True, exist_ok=True)
    inputs = Inputs(
        group=node.group.name,
        address=node.address,
        files=scripts.files,
        resource_config=_resource_config(nodes),
        mounted={} if scripts.start_slurm else {scripts.mount_point: scripts.source},
    )
    made = NodeFolder(directory / "scripted" / node.name, inputs, file_systems, bodies={})
    made.write()
    units = {
        name: body.replace("@MUNGE@", " ".join(munge)).replace("@DROP_IN@", _CONF_SERVER)
        for name, body in _UNITS.items()
    }
    stand_ins.write_programs(made.directory / "units", {name: f"#!/bin/bash\n{body}\n" for name, body in units.items()})
    return made


def variables(made: NodeFolder, programs: Programs, logs: Path) -> dict[str, str]:
    """Return the variables of a node's scripts and units."""
    daemons = {name.upper(): str(programs[name]) for name in ("munged", "slurmctld", "slurmd", "slurmstepd")}
    units = {"UNITS": str(made.directory / "units"), "LOGS": str(logs)}
    return {**daemons, **units, **made.environment(programs.environment["PATH"])}


def _resource_config(nodes: Sequence[ConfiguredNode]) -> dict[str, Any]:
    groups: dict[str, list[ListedInstance]] = {}
    for node in nodes:
        members = groups.setdefault(node.group.name, [])
        name = f"{node.group.name}-{len(members) + 1}"
        members.append(ListedInstance(name, f"i-{node.name.removeprefix('ip-')}", node.address))
    typed = {name: ("ml.c5.xlarge", members) for name, members in groups.items()}
    controllers = [node.address for node in nodes if node.group.node == "controller"]
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/rehearsal000"
    return cluster_file("rehearsal", arn, typed) | slurm_config(controllers)
