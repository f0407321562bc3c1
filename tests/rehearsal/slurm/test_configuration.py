"""slurm.conf follows from the environment's groups alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal.slurm.configuration import ConfiguredGroup, Folders, nodes, slurm_conf

FOLDERS = Folders(Path("/plugins"), Path("/state"))
CONTROLLER = ConfiguredGroup("controller", 1, "controller")
LOGIN = ConfiguredGroup("login", 1, "login")
DEV = ConfiguredGroup("small", 2, "compute", "dev")
MORE_DEV = ConfiguredGroup("large", 1, "compute", "dev")
GPU = ConfiguredGroup("gpu", 1, "compute", "gpu")


def lines(groups: Sequence[ConfiguredGroup], first: str) -> list[str]:
    return [line for line in slurm_conf(groups, FOLDERS).splitlines() if line.startswith(first)]


def test_partitions_have_the_compute_nodes_of_all_their_groups() -> None:
    assert lines([CONTROLLER, LOGIN, DEV, GPU, MORE_DEV], "PartitionName=") == [
        "PartitionName=dev Nodes=ip-10-1-3-10,ip-10-1-3-11,ip-10-1-5-10 Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=gpu Nodes=ip-10-1-4-10 Default=NO MaxTime=INFINITE State=UP",
    ]


def test_controller_and_login_nodes_take_no_jobs() -> None:
    """A published guide's Terraform module lists login nodes as workers."""
    assert lines([CONTROLLER, LOGIN, DEV], "NodeName=") == [
        "NodeName=ip-10-1-3-10 NodeAddr=10.1.3.10 CPUs=2 State=UNKNOWN",
        "NodeName=ip-10-1-3-11 NodeAddr=10.1.3.11 CPUs=2 State=UNKNOWN",
    ]
    assert lines([CONTROLLER, LOGIN, DEV], "SlurmctldHost=") == ["SlurmctldHost=ip-10-1-1-10(10.1.1.10)"]


def test_growing_group_moves_no_node() -> None:
    before = nodes([CONTROLLER, DEV, GPU])
    after = nodes([CONTROLLER, replace(DEV, count=5), GPU])
    assert {(node.name, node.address) for node in before} < {(node.name, node.address) for node in after}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([DEV], "0 controller groups are invalid"),
        ([CONTROLLER, replace(CONTROLLER, name="second"), DEV], "2 controller groups are invalid"),
        ([replace(CONTROLLER, count=2), DEV], "Allowed: one group with one node"),
        ([CONTROLLER, LOGIN], "no compute group is invalid"),
        ([CONTROLLER, replace(DEV, partition=None)], "group small: partition None is invalid"),
        ([CONTROLLER, replace(LOGIN, partition="dev"), DEV], "group login: partition 'dev' is invalid"),
    ],
)
def test_groups_without_a_cluster_are_refused(groups: list[ConfiguredGroup], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slurm_conf(groups, FOLDERS)
