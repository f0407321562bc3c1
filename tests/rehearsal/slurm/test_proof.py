"""The cluster of real Slurm has the environment's shape, and a difference fails the rehearsal."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from config import SlurmEnvironment, load_as
from config.model import Environment
from embedded_account.machine.processes import ProcessError
from rehearsal.slurm import proof
from rehearsal.slurm.configuration import ConfiguredGroup


@pytest.fixture
def environment() -> SlurmEnvironment:
    return load_as(SlurmEnvironment, "slurm")


def test_groups_are_the_environments(environment: Environment) -> None:
    assert proof.groups_of(environment) == [
        ConfiguredGroup("controller-machine", 1, "controller"),
        ConfiguredGroup("login-group", 1, "login"),
        ConfiguredGroup("worker-group-1", 2, "compute", "dev"),
    ]


def test_a_large_group_has_few_nodes_here(environment: Environment) -> None:
    *others, compute = environment.hyperpod.instance_groups
    groups = (*others, compute.model_copy(update={"count": 100}))
    large = environment.model_copy(
        update={"hyperpod": environment.hyperpod.model_copy(update={"instance_groups": groups})}
    )
    assert proof.groups_of(large)[-1].count == proof.MOST_NODES


@pytest.mark.parametrize("said", ["", "dev 1\n", "dev 2\ngpu 1\n", "gpu 2\n"])
def test_other_partitions_than_the_environments_fail(environment: Environment, said: str) -> None:
    cluster: Any = SimpleNamespace(run=lambda *_: said, groups=proof.groups_of(environment), directory="/logs")
    with pytest.raises(ProcessError, match=r"^sinfo says .* Allowed: {'dev': 2}\. Fix: "):
        proof.prove(cast("Any", cluster), print)
