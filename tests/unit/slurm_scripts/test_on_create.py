"""The entry point: order, logs, a second run, a step that fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.slurm_scripts.node import SCRIPTS, Node

STEPS = [
    "mount_fsx",
    "add_users",
    "share_ssh_keys",
    "mount_s3",
    "install_python",
    "install_containers",
    "start_slurm",
]
SHELL = sorted(SCRIPTS.glob("*.sh"))


def complete(node: Node) -> Node:
    """Ask for everything that the options can do."""
    node.users("ubuntu,1000", "ada,2001,ssh-ed25519 AAAAkey ada@laptop")
    node.option("S3_BUCKET", "data")
    node.option("CONTAINERS", "true")
    (node.scripts / "requirements.txt").write_text("torch==2.6.0 --hash=sha256:0\n")
    (node.scripts / "containers").mkdir()
    for package in ("enroot", "pyxis"):
        (node.scripts / "containers" / f"{package}.deb").touch()
    return node


def test_steps_run_in_order_and_slurm_starts_last(node: Node) -> None:
    printed = node.succeed()
    begun = [line.split("step ")[1] for line in printed.splitlines() if line.endswith(": start") and "step" in line]
    assert begun == [f"{step}: start" for step in STEPS]


def test_first_step_waits_for_the_name_service(node: Node) -> None:
    """base-config's on_create.sh: `sleep 30`, as HyperPod restarts systemd-resolved when the node starts."""
    node.environment["SECONDS_FOR_DNS"] = ""
    node.succeed()
    assert node.read("asked").splitlines()[0] == "sleep 30"


def test_each_step_says_how_long_it_took(node: Node) -> None:
    printed = node.succeed()
    for step in STEPS:
        assert f"step {step}: done after " in printed


def test_log_on_the_node_has_what_cloudwatch_gets(node: Node) -> None:
    assert node.succeed() == node.read("var/log/provision/provisioning.log")


@pytest.mark.parametrize("way", ["api", "provisioning_parameters"])
def test_second_run_changes_nothing(node: Node, way: str) -> None:
    if way != "api":
        node.parameters()
    complete(node).succeed()
    node.write("usr/bin/docker", "").chmod(0o755)
    before = node.state()
    (node.root / "asked").unlink()
    node.program("mount-s3", "echo mount-s3 1.21.0")
    node.environment["UNITS_INACTIVE"] = "0"
    node.succeed()
    assert node.state() == before
    changing = ("useradd", "groupadd", "usermod", "mount ", "curl", "gpg", "uv", "python3", "systemctl restart")
    assert [line for line in node.asked if line.startswith(changing)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("program", "step"),
    [
        ("mount", "mount_fsx"),
        ("useradd", "add_users"),
        ("ssh-keygen", "share_ssh_keys"),
        ("curl", "mount_s3"),
        ("apt-get", "mount_s3"),
        ("uv", "install_python"),
        ("munge", "start_slurm"),
    ],
)
def test_step_that_fails_names_itself_and_ends_the_run(guide_node: Node, program: str, step: str) -> None:
    complete(guide_node).program(program, "exit 1")
    lines = guide_node.refuse().splitlines()
    assert f"on_create: FAILED: step {step} ended with an error after " in lines[-1]
    assert not [line for line in lines if "start_slurm: start" in line and step != "start_slurm"]


def test_run_that_ended_in_a_step_is_completed_by_the_next(guide_node: Node) -> None:
    complete(guide_node)
    for program in ("useradd", "munge"):
        works = (guide_node.programs / program).read_text()
        guide_node.program(program, "exit 1")
        guide_node.refuse()
        (guide_node.programs / program).write_text(works)
    guide_node.succeed()
    assert "ada:x:2001:2001::/fsx/home/ada:" in guide_node.read("etc/passwd")


def test_failure_waits_until_the_logs_have_left_the_node(node: Node) -> None:
    node.program("munge", "exit 1")
    node.environment["SECONDS_FOR_LOGS"] = "60"
    node.refuse()
    assert node.read("asked").splitlines()[-2:] == ["sync ", "sleep 60"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file", ["mount_fsx.sh", "common.sh", "read_inputs.py", "options", "users.txt"])
def test_missing_file_of_the_folder_ends_the_run_with_its_name(node: Node, file: str) -> None:
    (node.scripts / file).unlink()
    assert file in node.refuse()


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_script_is_what_a_node_can_run(script: Path) -> None:
    text = script.read_bytes()
    assert text.startswith(b"#!/bin/bash\n")
    assert b"\r" not in text
    assert b"\nset -euo pipefail\n" in text


def test_scripts_are_shellcheck_clean() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    result = subprocess.run([shellcheck, "--external-sources", *SHELL], text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stdout
