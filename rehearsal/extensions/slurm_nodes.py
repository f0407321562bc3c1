"""Run this project's lifecycle scripts for each node of a Slurm cluster, on a folder that stands for the node.

Scripts whose programs are not this project's are not run: nobody knows what they would do to this machine.
"""

import os
from pathlib import Path

from embedded_account.context import Account
from embedded_account.hyperpod import simulator_of
from embedded_account.hyperpod.slurm.scripts import NodeScripts, ScriptsOutcome
from embedded_account.services.fsx.service import FsxService
from rehearsal.slurm.scripts import Inputs, NodeFolder, folder_of


def install(account: Account) -> None:
    """Let the account's HyperPod run the scripts."""
    runner = Runner(account.directory, FsxService(account))
    simulator_of(account).world.run_scripts = runner.run


class Runner:
    """Runs the scripts of one node after the other, below `directory`."""

    def __init__(self, directory: Path, fsx: FsxService) -> None:
        self._nodes = directory / "nodes"
        self._file_systems = directory / "file-systems"
        self._fsx = fsx

    def run(self, given: NodeScripts) -> ScriptsOutcome | None:
        """Run the scripts of a node, and return their outcome; None if they are not this project's."""
        inputs = Inputs(
            group=given.group["InstanceGroupName"],
            address=given.address,
            files=given.files,
            resource_config=given.resource_config,
            mounted=_mounted(given),
        )
        if not inputs.ours:
            return None
        for record in self._fsx.file_systems.values():
            source = f"{record.fields['DNSName']}@tcp:/{record.fields['LustreConfiguration']['MountName']}"
            folder_of(self._file_systems, source).mkdir(parents=True, exist_ok=True)
        node = NodeFolder(self._nodes / given.instance_id, inputs, self._file_systems)
        node.write()
        return ScriptsOutcome(*node.run(os.environ["PATH"]))


def _mounted(given: NodeScripts) -> dict[str, str]:
    """Return what HyperPod mounts itself, from the group's FsxLustreConfig."""
    configs = [each.get("FsxLustreConfig") for each in given.group.get("InstanceStorageConfigs", [])]
    return {each["MountPath"]: f"{each['DnsName']}@tcp:/{each['MountName']}" for each in configs if each}
