"""What `ops job submit` says about the instance groups that a run wakes."""

from pathlib import Path
from typing import Any

import pytest

import config
from config.estimates import costs, creation
from config.model.hyperpod import Sleep
from tests.support.sleeping_environment import with_sleep
from tests.unit.ops.jobs.test_job import cluster, ops, script  # noqa: F401 - fixtures
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import HEAD, WORKERS, group


@pytest.fixture
def sleepy(cluster: Apis, monkeypatch: pytest.MonkeyPatch) -> Apis:  # noqa: F811
    """Serve a `dev` whose workers' group sleeps."""
    monkeypatch.setattr("ops.commands.operate.job.load", lambda name: with_sleep(config.load(name), Sleep(min=1)))
    cluster.aws["DescribeCluster"] |= {"InstanceGroups": [group(HEAD, 1), group(WORKERS, 1)]}
    return cluster


def submitted(script: Path, *options: str) -> list[str]:  # noqa: F811
    result = ops("submit", str(script), "--name", "train", "--detach", *options)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return [line for line in result.stdout.splitlines() if "wakes" in line]


def test_submit_says_what_the_run_wakes_how_long_it_takes_and_what_it_costs(sleepy: Apis, script: Path) -> None:  # noqa: F811
    later = creation.later(ray=False)
    minutes = later[creation.NODES].typical + later[creation.DEEP_CHECKS].typical
    price = 3 * costs.prices()["instances"]["ml.p5.48xlarge"]
    sentence = f"wakes 3 x ml.p5.48xlarge in {WORKERS}: about {minutes:.0f} minutes, US$ {price:,.0f} an hour"
    assert submitted(script) == [sentence]


def test_group_without_deep_health_checks_wakes_sooner_and_one_without_a_price_has_none(
    sleepy: Apis,
    script: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dev = with_sleep(config.load("dev"))
    head, workers = dev.hyperpod.instance_groups
    groups = (head, workers.model_copy(update={"deep_health_checks": ()}))
    hyperpod = dev.hyperpod.model_copy(update={"instance_groups": groups})
    monkeypatch.setattr("ops.commands.operate.job.load", lambda _: dev.model_copy(update={"hyperpod": hyperpod}))
    monkeypatch.setattr(costs, "prices_of_nodes", lambda _: {})
    minutes = creation.later(ray=False)[creation.NODES].typical
    assert submitted(script) == [f"wakes 3 x ml.p5.48xlarge in {WORKERS}: about {minutes:.0f} minutes"]


def test_group_that_is_awake_is_not_mentioned(sleepy: Apis, script: Path) -> None:  # noqa: F811
    sleepy.aws["DescribeCluster"] |= {"InstanceGroups": [group(HEAD, 1), group(WORKERS, 1, target=4)]}
    assert submitted(script) == []


@pytest.mark.parametrize(
    "answer",
    [
        aws_error("AccessDeniedException", "not authorized"),
        aws_error("ThrottlingException", "slow down"),
        aws_error("ResourceNotFound", "no cluster"),
        {"InstanceGroups": []},
    ],
)
def test_what_sagemaker_does_not_say_is_not_mentioned(sleepy: Apis, script: Path, answer: Any) -> None:  # noqa: F811
    sleepy.aws["DescribeCluster"] = answer
    assert submitted(script) == []


def test_nobody_asks_sagemaker_where_no_group_sleeps(cluster: Apis, script: Path) -> None:  # noqa: F811
    cluster.aws["DescribeCluster"] = (500, "asked")
    assert submitted(script) == []
