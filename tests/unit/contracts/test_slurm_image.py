"""A Slurm node: what base-config does there, held against our scripts and commands and against the rehearsal."""

import json
from pathlib import Path
from typing import Final

import pytest

from ops.slurm import change
from ops.slurm.change import SlurmNodeAction
from rehearsal.slurm.configuration import ConfiguredGroup, Folders, nodes, slurm_conf
from rehearsal.slurm.scripted import DeployedScripts, folder
from rehearsal.slurm.scripts import NodeFolder
from tests.unit.contracts.contract import read
from tests.unit.slurm_scripts.node import COMPUTE, CONTROLLER, LOGIN, PARAMETERS, SCRIPTS, Node, make_node

FACTS: Final = read("slurm_image")
ADDRESSES: Final = {"controller": CONTROLLER, "compute": COMPUTE, "login": LOGIN}
GROUPS: Final = (
    ConfiguredGroup("controller-machine", 1, "controller"),
    ConfiguredGroup("compute-nodes", 1, "compute", "dev"),
    ConfiguredGroup("login-nodes", 1, "login"),
)


def node_of(where: Path, role: str, **variables: str) -> Node:
    """Return a new node whose Slurm the lifecycle scripts start; nothing is mounted."""
    node = make_node(where)
    node.parameters()
    (node.root / "mounted").unlink()
    node.environment |= {"ADDRESS": ADDRESSES[role], **variables}
    return node


def test_product_takes_the_published_steps_in_order_after_the_name_service(tmp_path: Path) -> None:
    node = node_of(tmp_path, "compute", SECONDS_FOR_DNS="")
    node.succeed()
    first = next(line for line in node.read("asked").splitlines() if not line.startswith("hostname"))
    log = node.read(FACTS["log"].lstrip("/"))
    places = [log.index(f"step {step}: start") for step in FACTS["steps"]]
    assert first == f"sleep {FACTS['seconds_for_resolved']}"
    assert places == sorted(places)
    options = node.read("etc/fstab").split()[3].split(",")
    assert node.read("etc/fstab").split()[1] == FACTS["mount_point"]
    assert options == FACTS["mount_options"]
    assert [line.split()[1] for line in node.asked if line.startswith("modprobe")] == FACTS["modules"]


@pytest.mark.parametrize("role", FACTS["daemons"])
def test_product_starts_each_roles_daemon_by_its_unit(tmp_path: Path, role: str) -> None:
    node, daemon = node_of(tmp_path, role), FACTS["daemons"][role]
    node.succeed("start_slurm.sh")
    started = [line.split()[-1] for line in node.asked if line.startswith("systemctl enable")]
    assert started == ["munge", daemon]
    drop_in = node.root / FACTS["units"].lstrip("/") / f"{daemon}.service.d/10-controllers.conf"
    if role != "controller":
        assert f"{FACTS['slurmd_variable']}={FACTS['slurmd_option']}={CONTROLLER}" in drop_in.read_text()


def test_product_waits_for_slurm_conf_as_long_as_base_config(tmp_path: Path) -> None:
    node = node_of(tmp_path, "controller")
    (node.root / FACTS["slurm_conf"].lstrip("/")).write_text("ClusterName=ml\n")
    node.succeed("start_slurm.sh")
    waits = [int(line.split()[1]) for line in node.read("asked").splitlines() if line.startswith("sleep")]
    assert sum(waits) == FACTS["seconds_for_slurm_conf"]


def test_product_goes_on_where_the_users_home_cannot_be_moved(tmp_path: Path) -> None:
    node = node_of(tmp_path, "compute")
    node.program("usermod", f"exit {8 if FACTS['usermod_may_fail'] else 0}")
    assert FACTS["user"] in node.succeed("add_users.sh")


def test_product_asks_hyperpod_by_the_published_states_and_reasons() -> None:
    asked = {action: change.words(action, "ip-10-1-0-20", now=False).split()[3:] for action in SlurmNodeAction}
    state = f"state={FACTS['state']}"
    assert asked == {action: [state, f"reason={reason}"] for action, reason in FACTS["reasons"].items()}


def test_simulator_configures_slurm_as_hyperpod_does(tmp_path: Path) -> None:
    text = slurm_conf(GROUPS, Folders(tmp_path, tmp_path), login_nodes=True)
    named = {line.split()[0].removeprefix("NodeName=") for line in text.splitlines() if line.startswith("NodeName=")}
    made = {node.group.node: node for node in nodes(GROUPS)}
    names = {f"ip-{node.address.replace('.', '-')}" for role, node in made.items() if role != "controller"}
    assert f"SlurmctldParameters={FACTS['slurmctld_parameters']}" in text
    assert FACTS["node_name"] == "ip-{address with dashes}"
    assert FACTS["login_nodes_are_named"]
    assert named == names


def rehearsed(where: Path, role: str) -> NodeFolder:
    """Return a node of the rehearsal with real Slurm."""
    files = {path.name: path.read_bytes() for path in SCRIPTS.iterdir() if path.is_file()}
    files["provisioning_parameters.json"] = json.dumps(PARAMETERS).encode()
    scripts = DeployedScripts(files, "fs-0@tcp:/abc", FACTS["mount_point"])
    made = nodes(GROUPS)
    return folder(scripts, where, next(node for node in made if node.group.node == role), made, ())


@pytest.mark.parametrize("role", FACTS["daemons"])
def test_simulator_has_the_images_files_and_wants_the_published_commands(tmp_path: Path, role: str) -> None:
    node, daemon = rehearsed(tmp_path, role), FACTS["daemons"][role]
    assert FACTS["user"] in (node.root / "etc/passwd").read_text()
    assert (node.root / FACTS["slurm_conf"].lstrip("/")).is_file() == (role == "controller")
    unit = (node.directory / "units" / daemon).read_text()
    if daemon == "slurmd":
        assert f"{FACTS['units'].lstrip('/')}/{daemon}.service.d/" in unit
        assert FACTS["slurmd_variable"] in unit
    (node.root / "asked").touch()
    _, said = node.outcome(0, "")
    wanted = [*(f"modprobe {module}" for module in FACTS["modules"]), f"systemctl enable --now {daemon}"]
    assert [
        line for line in (*wanted, f"mount {FACTS['mount_point']}") if f"missing on this node: {line}" not in said
    ] == []
