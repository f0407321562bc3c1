"""Munge and Slurm's daemons."""

import json

import pytest

from tests.unit.slurm_scripts.node import COMPUTE, CONTROLLER, LOGIN, Node

DROP_IN = "etc/systemd/system/slurmd.service.d/10-controllers.conf"


def test_api_way_leaves_the_daemons_to_hyperpod(node: Node) -> None:
    assert "slurmctld answers" in node.succeed("start_slurm.sh")
    assert not [line for line in node.asked if "slurmctld" in line or "slurmd" in line]


def test_api_way_only_warns_while_the_controller_is_away(node: Node) -> None:
    node.program("scontrol", "exit 1")
    assert "warning: slurmctld does not answer yet" in node.succeed("start_slurm.sh")


def test_controller_starts_slurmctld(guide_node: Node) -> None:
    guide_node.environment["ADDRESS"] = CONTROLLER
    guide_node.succeed("start_slurm.sh")
    assert "systemctl enable --now slurmctld" in guide_node.asked
    assert not (guide_node.root / DROP_IN).exists()


@pytest.mark.parametrize(("address", "role"), [(COMPUTE, "compute"), (LOGIN, "login")])
def test_other_nodes_ask_the_controller_for_their_configuration(guide_node: Node, address: str, role: str) -> None:
    guide_node.environment["ADDRESS"] = address
    assert f"this node is a {role} node" in guide_node.succeed("start_slurm.sh")
    assert f'Environment="SLURMD_OPTIONS=--conf-server={CONTROLLER}"' in guide_node.read(DROP_IN)
    assert guide_node.asked.index("systemctl daemon-reload") < guide_node.asked.index("systemctl enable --now slurmd")


def test_options_of_slurmd_are_one_word(guide_node: Node) -> None:
    """base-config's start_slurm.sh fills the unit with envsubst, so that `$X` and `${X}` are alike there.

    systemd splits `$SLURMD_OPTIONS` at spaces, and passes `${SLURMD_OPTIONS}` as one word (systemd.service(5)).
    """
    guide_node.succeed("start_slurm.sh")
    [line] = [line for line in guide_node.read(DROP_IN).splitlines() if "SLURMD_OPTIONS" in line]
    value = line.removeprefix('Environment="SLURMD_OPTIONS=').removesuffix('"')
    assert value.split() == [value]


SLURM_CONF = "opt/slurm/etc/slurm.conf"
NAMES_NO_CONTROLLER = "ClusterName=hyperpod\n"


@pytest.mark.parametrize("text", [None, NAMES_NO_CONTROLLER])
def test_slurmctld_starts_once_slurm_conf_names_the_controller(guide_node: Node, text: str | None) -> None:
    """base-config's lifecycle_script.py, wait_for_slurm_conf: HyperPod's agent writes the file meanwhile."""
    guide_node.environment["ADDRESS"] = CONTROLLER
    path = guide_node.root / SLURM_CONF
    path.unlink() if text is None else path.write_text(text)
    writes = f'echo "SlurmctldHost=controller({CONTROLLER})" >"$ROOT/{SLURM_CONF}"'
    guide_node.program("sleep", f'(($(grep -c "^sleep 5" "$ROOT/asked") < 4)) || {writes}')
    guide_node.succeed("start_slurm.sh")
    began = [line for line in guide_node.read("asked").splitlines() if line.startswith(("sleep", "systemctl enable"))]
    assert began[-5:] == ["sleep 5"] * 4 + ["systemctl enable --now slurmctld"]


@pytest.mark.parametrize("text", [None, NAMES_NO_CONTROLLER])
def test_slurmctld_is_started_after_a_minute_without_slurm_conf(guide_node: Node, text: str | None) -> None:
    """As base-config does: the unit then says what it lacks."""
    guide_node.environment["ADDRESS"] = CONTROLLER
    path = guide_node.root / SLURM_CONF
    path.unlink() if text is None else path.write_text(text)
    said = guide_node.succeed("start_slurm.sh")
    assert "names no controller after 60s" in said
    assert guide_node.read("asked").splitlines().count("sleep 5") == 12
    assert "systemctl enable --now slurmctld" in guide_node.asked


def test_address_that_only_begins_like_the_controllers_is_not_taken_for_it(guide_node: Node) -> None:
    guide_node.environment["ADDRESS"] = CONTROLLER
    guide_node.write(SLURM_CONF, f"SlurmctldHost=other({CONTROLLER}9)\n")
    assert "names no controller" in guide_node.succeed("start_slurm.sh")


@pytest.mark.parametrize("address", [COMPUTE, LOGIN])
def test_nodes_without_slurmctld_do_not_wait_for_slurm_conf(guide_node: Node, address: str) -> None:
    """slurmd fetches it from the controller."""
    guide_node.environment["ADDRESS"] = address
    (guide_node.root / SLURM_CONF).unlink()
    guide_node.succeed("start_slurm.sh")
    assert "sleep 5" not in guide_node.read("asked").splitlines()


def test_login_group_that_is_listed_as_workers_too_stays_a_login_group(guide_node: Node) -> None:
    guide_node.parameters(worker_groups=[{"instance_group_name": "login-nodes", "partition_name": "dev"}])
    guide_node.environment["ADDRESS"] = LOGIN
    assert "this node is a login node" in guide_node.succeed("start_slurm.sh")


def test_unit_that_runs_is_not_started_again(guide_node: Node) -> None:
    guide_node.environment["UNITS_INACTIVE"] = "0"
    guide_node.succeed("start_slurm.sh")
    assert not [line for line in guide_node.asked if "enable" in line]


def test_unit_that_cannot_start_says_why(guide_node: Node) -> None:
    guide_node.program("systemctl", "exit 1")
    assert "munge cannot be started: why the unit failed" in guide_node.refuse("start_slurm.sh")


def test_munge_that_does_not_decode_is_refused_before_slurm_starts(guide_node: Node) -> None:
    guide_node.program("unmunge", "cat >/dev/null; exit 1")
    assert "munge does not decode its own credential" in guide_node.refuse("start_slurm.sh")
    assert "systemctl enable --now slurmd" not in guide_node.asked


def test_controller_that_does_not_answer_is_an_error(guide_node: Node) -> None:
    guide_node.program("scontrol", "exit 1")
    assert "slurmctld does not answer after 5s" in guide_node.refuse("start_slurm.sh")


def test_node_without_a_controller_to_ask_is_refused(guide_node: Node) -> None:
    path = guide_node.root / "opt/ml/config/resource_config.json"
    known = json.loads(path.read_text())
    known["InstanceGroups"][0]["Instances"] = []
    path.write_text(json.dumps(known))
    assert "names no node of the controller group" in guide_node.refuse("start_slurm.sh")


def test_node_of_a_group_that_the_parameters_do_not_name_is_refused(guide_node: Node) -> None:
    guide_node.parameters(worker_groups=[])
    assert "compute-nodes is invalid: it does not list this node's group" in guide_node.refuse("start_slurm.sh")


def test_node_that_hyperpod_does_not_know_is_refused(node: Node) -> None:
    node.environment["ADDRESS"] = "10.9.9.9"
    assert "names no node with the addresses 10.9.9.9, 172.17.0.1" in node.refuse("start_slurm.sh")


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "resource_config.json is missing: HyperPod writes it"), ("{", "is not JSON"), ("[]", "is no JSON object")],
)
def test_resource_config_that_is_no_json_object_is_refused(node: Node, text: str | None, message: str) -> None:
    path = node.root / "opt/ml/config/resource_config.json"
    path.unlink() if text is None else path.write_text(text)
    assert message in node.refuse("start_slurm.sh")


def test_resource_config_that_cannot_be_read_is_refused(node: Node) -> None:
    path = node.root / "opt/ml/config/resource_config.json"
    path.unlink()
    path.mkdir()
    assert "resource_config.json cannot be read: Is a directory. Fix: " in node.refuse("start_slurm.sh")


@pytest.mark.parametrize("address", [CONTROLLER, COMPUTE, LOGIN])
def test_groups_without_instances_stop_no_node(guide_node: Node, address: str) -> None:
    path = guide_node.root / "opt/ml/config/resource_config.json"
    known = json.loads(path.read_text())
    known["InstanceGroups"][:0] = [{"Name": "first", "Instances": None}, {"Name": "second"}]
    path.write_text(json.dumps(known))
    guide_node.environment["ADDRESS"] = address
    guide_node.succeed("start_slurm.sh")
