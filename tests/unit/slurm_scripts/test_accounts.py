"""Accounts, home directories and SSH keys."""

import os
import stat
import subprocess

import pytest

from tests.unit.slurm_scripts.node import Node

KEY = "ssh-ed25519 AAAAC3Nza ada@laptop"


def prepared(node: Node, *lines: str) -> Node:
    node.users(*(lines or ("ubuntu,1000", f"ada,2001,{KEY}")))
    return node


def test_account_has_the_id_of_the_table_for_user_and_group(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    assert "groupadd --gid 2001 ada" in node.asked
    home = "--home-dir /fsx/home/ada --no-create-home --shell /bin/bash ada"
    assert f"useradd --uid 2001 --gid 2001 {home}" in node.asked


def test_account_of_the_image_keeps_its_id_and_moves_to_the_shared_home(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    assert "usermod --home /fsx/home/ubuntu ubuntu" in node.asked


BUSY = 'echo "usermod: user ubuntu is currently used by process 1234" >&2; exit 8'
"""shadow's usermod.c, E_USER_BUSY: the home directory of a user with a process is not changed."""


def test_account_with_a_process_keeps_its_home_and_stops_nothing(node: Node) -> None:
    """base-config's utils/fsx_ubuntu.sh expects that `usermod` fails for `ubuntu`, and continues."""
    node.program("usermod", BUSY)
    said = prepared(node).succeed("add_users.sh")
    assert "warning: ubuntu has a process, so that its home directory stays /home/ubuntu" in said
    assert "Fix: end its processes, then run usermod --home /fsx/home/ubuntu ubuntu" in said
    assert (node.root / "fsx/home/ubuntu").is_dir()


def test_home_that_cannot_be_moved_for_another_reason_is_an_error(node: Node) -> None:
    node.program("usermod", "echo 'usermod: cannot lock /etc/passwd' >&2; exit 1")
    assert "the home directory of ubuntu cannot be changed" in prepared(node).refuse("add_users.sh")


def test_home_lies_on_the_shared_file_system_and_is_private(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    home = node.root / "fsx/home/ada"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / ".profile").read_text() == "skeleton"
    assert f"chown -R 2001:2001 {'/fsx/home/ada'}.new-ip-10-1-0-20" in node.asked


def test_home_that_another_node_made_is_kept(node: Node) -> None:
    prepared(node)
    node.write("fsx/home/ada/work", "kept")
    node.succeed("add_users.sh")
    assert [path.name for path in (node.root / "fsx/home/ada").iterdir()] == ["work"]


def test_home_that_another_node_makes_meanwhile_is_kept(node: Node) -> None:
    prepared(node, "ada,2001")
    node.program("chown", 'mkdir -p "$ROOT/fsx/home/ada" && echo kept >"$ROOT/fsx/home/ada/work"')
    node.succeed("add_users.sh")
    assert sorted(path.name for path in (node.root / "fsx/home").iterdir()) == ["ada"]
    assert node.read("fsx/home/ada/work") == "kept\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ada,1000", "uid 1000 of ada belongs to account ubuntu of this node"),
        ("ubuntu,2001", "account ubuntu of this node has uid 1000, not 2001"),
    ],
)
def test_id_that_the_node_uses_otherwise_is_refused(node: Node, line: str, message: str) -> None:
    assert message in prepared(node, line).refuse("add_users.sh")
    assert node.asked == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Ada,2001"], "users.txt:1 name: Ada is invalid: Linux refuses it. Allowed: a lower-case letter or _"),
        (["# who", "ada"], "users.txt:2 uid:  is invalid: it is no id of a person. Allowed: 1000 to 60000"),
        (["ada,0"], "users.txt:1 uid: 0 is invalid"),
        (["ada,-1"], "users.txt:1 uid: -1 is invalid"),
        (["ada,2001", "ada,2002"], "users.txt:2 name: ada is invalid: is listed twice"),
        (["ada,2001", "bob,2001"], "users.txt:2 uid: 2001 is invalid: is listed twice"),
        (["ada,2001,-----BEGIN OPENSSH PRIVATE KEY"], "it is no public SSH key"),
        (["ada;reboot,2001"], "users.txt:1 name: ada;reboot is invalid"),
    ],
)
def test_table_is_checked_before_the_first_account_is_made(node: Node, lines: list[str], message: str) -> None:
    assert message in prepared(node, *lines).refuse("add_users.sh")
    assert node.asked == []


def test_key_pair_is_made_once_for_the_cluster_and_opens_every_node(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    node.succeed("share_ssh_keys.sh")
    public = node.read("fsx/home/ada/.ssh/id_ed25519.pub")
    assert node.read("fsx/home/ada/.ssh/authorized_keys").splitlines() == [public.strip(), KEY]
    node.environment["ADDRESS"] = "10.1.0.30"
    node.succeed("share_ssh_keys.sh")
    assert node.read("fsx/home/ada/.ssh/id_ed25519.pub") == public
    assert len(node.read("fsx/home/ada/.ssh/authorized_keys").splitlines()) == 2


def test_private_key_is_readable_by_its_owner_only(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    node.succeed("share_ssh_keys.sh")
    assert stat.S_IMODE((node.root / "fsx/home/ada/.ssh/id_ed25519").stat().st_mode) == 0o600
    assert "chown -R 2001:2001 /fsx/home/ada/.ssh" in node.asked


def test_key_is_appended_on_a_line_of_its_own(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    node.write("fsx/home/ada/.ssh/authorized_keys", "ssh-ed25519 AAAAold without an end")
    node.succeed("share_ssh_keys.sh")
    assert node.read("fsx/home/ada/.ssh/authorized_keys").splitlines()[0] == "ssh-ed25519 AAAAold without an end"


def test_replaced_node_with_a_known_name_can_be_reached(node: Node) -> None:
    prepared(node).succeed("add_users.sh")
    node.succeed("share_ssh_keys.sh")
    assert "StrictHostKeyChecking no" in node.read("etc/ssh/ssh_config.d/10-cluster.conf")


@pytest.mark.parametrize(
    ("name", "trusted"),
    [("ip-10-1-38-128", "false"), ("gpu-compute-4", "false"), ("bastion", "ask"), ("github.com", "ask")],
)
def test_nodes_are_trusted_by_either_form_of_name_and_no_other_host_is(node: Node, name: str, trusted: str) -> None:
    """`ip-…` is the observed form; AWS's page on the configuration by the API shows `gpu-compute-[1-4]`.

    slurm.conf names the nodes (base-config's utils/ssh-to-compute.sh), and Slurm answers with its names.
    """
    prepared(node).succeed("add_users.sh")
    node.succeed("share_ssh_keys.sh")
    node.program("scontrol", '[[ "$*" =~ ^show\\ node\\ (ip-10-1-38-128|gpu-compute-[1-4])$ ]]')
    conf = node.root / "etc/ssh/ssh_config.d/10-cluster.conf"
    said = subprocess.run(
        ["/usr/bin/env", "ssh", "-G", "-F", conf, name],
        env={"PATH": f"{node.programs}:{os.environ['PATH']}", "ROOT": str(node.root), "SHELL": "/bin/bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"stricthostkeychecking {trusted}" in said.stdout.splitlines()
    asked = name in {"gpu-compute-4", "bastion"}
    assert (f"scontrol show node {name}" in node.read("asked")) == asked, "a controller that is away delays ssh"
