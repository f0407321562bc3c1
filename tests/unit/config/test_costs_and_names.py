"""The cost estimate of `ops check`, and physical names."""

from itertools import combinations
from typing import Any

import config
from config import naming
from config.estimates import costs
from config.model import ExistingFileSystem, Fsx


def test_every_committed_environment_has_a_price_for_each_line() -> None:
    for name in config.available():
        assert all(line.usd_per_hour for line in costs.estimate(config.load_any(name))), name


def test_four_p5_nodes_are_most_of_dev_s_cost() -> None:
    lines = {line.what: line.usd_per_hour or 0 for line in costs.estimate(config.load("dev"))}
    gpu = next(cost for what, cost in lines.items() if what.startswith("worker-group-1"))
    assert gpu > 0.9 * sum(lines.values())


def test_an_instance_type_without_a_price_is_shown_as_such() -> None:
    environment = config.load("dev")
    eks = environment.eks.model_copy(
        update={"system_nodes": environment.eks.system_nodes.model_copy(update={"instance_type": "x9.huge"})}
    )
    lines = costs.estimate(environment.model_copy(update={"eks": eks}))
    assert [line.usd_per_hour for line in lines if line.what.startswith("system nodes")] == [None]


def test_file_system_is_priced_unless_it_is_an_existing_one() -> None:
    environment = config.load("small")

    def lines(**fsx: Any) -> dict[str, float | None]:
        estimate = costs.estimate(environment.model_copy(update={"fsx": Fsx(**fsx)}))
        return {line.what: line.usd_per_hour for line in estimate if line.what.startswith("FSx")}

    [(_, static)] = lines().items()
    assert lines(provisioning="dynamic") == {"FSx for Lustre for its claim: 1,200 GiB": static}
    assert lines(existing=ExistingFileSystem(id="fs-0fedcba9876543210", mount_name="zyxwvuts")) == {}


def test_no_two_environments_share_a_physical_name() -> None:
    def names(environment: config.EksEnvironment) -> set[str]:
        return {
            *(naming.stack(environment, part) for part in ("network", "ray")),
            naming.eks_cluster(environment),
            naming.lifecycle_bucket(environment),
            naming.data_bucket(environment),
            environment.hyperpod.cluster_name,
            environment.image.repository or f"none of {environment.name}",
        }

    for one, other in combinations([config.load(name) for name in config.available()], 2):
        assert not names(one) & names(other)


def test_bucket_names_are_short_enough_and_readable_by_hyperpod_nodes() -> None:
    for name in config.available():
        environment = config.load_any(name)
        assert naming.lifecycle_bucket(environment).startswith("sagemaker-")
        assert len(naming.lifecycle_bucket(environment)) <= 63
        assert len(naming.data_bucket(environment)) <= 63
