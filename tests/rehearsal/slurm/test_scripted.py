"""Real Slurm on nodes that the project's lifecycle scripts prepare: munge, and with the guide's way Slurm itself."""

import json
from pathlib import Path
from typing import Final

import pytest

from embedded_account.machine.processes import ProcessError
from rehearsal.paths import REPOSITORY
from rehearsal.slurm.scripted import DeployedScripts
from tests.support.slurm import slurm_cluster

SCRIPTS: Final = REPOSITORY / "lifecycle_scripts" / "slurm"
DNS: Final = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
PARAMETERS: Final = {
    "version": "1.0.0",
    "workload_manager": "slurm",
    "controller_group": "controller-machine",
    "login_group": "login-nodes",
    "worker_groups": [{"instance_group_name": "compute-nodes", "partition_name": "dev"}],
    "fsx_dns_name": DNS,
    "fsx_mountname": "abcdefgh",
}


def deployed(*, by_api: bool, **texts: str) -> DeployedScripts:
    """Return the scripts as a deployment uploads them; `texts` replace files."""
    files = {path.name: path.read_bytes() for path in SCRIPTS.iterdir() if path.is_file()}
    if not by_api:
        files["provisioning_parameters.json"] = json.dumps(PARAMETERS).encode()
    files |= {name.replace("_txt", ".txt"): text.encode() for name, text in texts.items()}
    return DeployedScripts(files, f"{DNS}@tcp:/abcdefgh", "/fsx")


def test_scripts_of_the_guides_way_start_slurm_which_loses_replaces_and_adds_nodes(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path / "cluster", scripts=deployed(by_api=False)) as cluster:
        login = next(node.name for node in cluster.nodes if node.group.node == "login")
        # The login node has no slurm.conf: it got the controller's.
        assert sorted(cluster.run("srun", "-N2", "hostname", on=login).split()) == cluster.compute
        lost = cluster.compute[1]
        cluster.kill(lost)
        cluster.wait_for_node(lost, "down*")
        cluster.start(lost)
        cluster.wait_until_idle()
        [added] = cluster.grow("compute-nodes", by=1)
        cluster.wait_for_node(added, "idle")
        assert added in cluster.run("srun", "-N3", "hostname").split()


@pytest.mark.sampled(1, of="real Slurm")
def test_nodes_share_homes_and_keys_that_open_every_node(tmp_path: Path) -> None:
    scripts = deployed(by_api=True, users_txt="ubuntu,1000\nada,2001\n")
    with slurm_cluster(tmp_path / "cluster", scripts=scripts) as cluster:
        roots = [tmp_path / "cluster/scripted" / node.name / "root/fsx/home/ada/.ssh" for node in cluster.nodes]
        assert len({(root / "id_ed25519.pub").read_text() for root in roots}) == 1
        assert len({(root / "authorized_keys").read_text() for root in roots}) == 1


@pytest.mark.sampled(1, of="real Slurm")
def test_failed_step_of_a_node_is_named(tmp_path: Path) -> None:
    scripts = deployed(by_api=True, users_txt="ada,0\n")
    with (
        pytest.raises(ProcessError, match=r"FAILED: step add_users ended"),
        slurm_cluster(tmp_path / "cluster", scripts=scripts),
    ):
        pass
