"""`ops cost` without credentials: the estimate, its sums, and what has no price."""

import json
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import config
from config.estimates import costs
from config.estimates.costs import HOURS_PER_MONTH, Inventory, PricedFileSystem, PricedNodes
from config.model.hyperpod import Sleep
from ops.commands.whole import app
from ops.cost.show import EnvironmentCosts, document, table
from tests.unit.support.fake_apis import Apis

SYSTEM = PricedNodes("system nodes", 2, "m5.xlarge")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["cost", "--env", "dev", *arguments])


def test_the_plan_needs_no_credentials(no_aws: pytest.MonkeyPatch) -> None:
    found = json.loads(run("-o", "json").stdout)
    usd = sum(line.usd_per_hour or 0 for line in costs.estimate(config.load("dev")))
    assert found["planned"]["usd_per_hour"] == pytest.approx(usd, abs=0.001)
    assert found["planned"]["usd_per_month"] == pytest.approx(usd * HOURS_PER_MONTH, abs=1)
    assert found["live"] is None
    assert "volumes of nodes" in found["unpriced"]


def test_people_see_items_sums_and_what_has_no_price(no_aws: pytest.MonkeyPatch) -> None:
    printed = run().stdout
    assert [line.split()[0] for line in printed.splitlines()[1:4]] == ["head-group", "worker-group-1", "system"]
    assert "per month" in printed
    assert "Not priced: volumes of nodes, public IPv4 addresses of NAT gateways" in printed


def test_live_without_credentials_is_refused_with_the_fix(no_aws: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        no_aws.delenv(name, raising=False)
    result = run("--live")
    assert result.exit_code == 2
    assert "there are no AWS credentials. Fix: log in" in result.stderr


def test_live_of_another_account_is_refused_with_the_fix(apis: Apis) -> None:
    apis.account = "999999999999"
    result = run("--live")
    assert result.exit_code == 2
    assert "the AWS credentials belong to account 999999999999" in result.stderr


def test_a_right_that_is_missing_is_named(apis: Apis) -> None:
    error = "<Error><Code>AccessDenied</Code><Message>not authorized</Message></Error>"
    apis.aws["DescribeStacks"] = (403, f"<ErrorResponse>{error}</ErrorResponse>")
    result = run("--live")
    assert result.exit_code == 2
    assert "AWS refuses DescribeStacks" in result.stderr


def test_what_has_no_price_is_named_and_not_a_part_of_the_sum() -> None:
    inventory = Inventory(
        (PricedNodes("new", 3, "ml.x9.huge"), PricedNodes("gone", 0, "ml.x9.huge")), SYSTEM, "1.35", 0, ()
    )
    found = document(EnvironmentCosts(config.load("dev"), costs.priced(inventory)))
    assert found["unpriced"][0] == "new: 3 x ml.x9.huge"
    assert [each["usd_per_hour"] for each in found["planned"]["items"]][:2] == [None, 0.0]


def test_items_stand_beside_each_other_by_name_and_those_of_one_name_are_numbered() -> None:
    planned = costs.priced(Inventory((PricedNodes("workers", 4, "ml.p5.48xlarge"),), SYSTEM, "1.35", 1, ()))
    two = (PricedFileSystem(1200, 250, True), PricedFileSystem(2400, 250, True))
    live = costs.priced(Inventory((PricedNodes("by-hand", 1, "ml.t3.medium"),), SYSTEM, "1.35", 1, two))
    rows = {
        item: (a.amount if a else None, b.amount if b else None)
        for item, a, b in EnvironmentCosts(config.load("dev"), planned, live).rows
    }
    assert rows == {
        "workers": ("4 x ml.p5.48xlarge", None),
        "system nodes": ("2 x m5.xlarge", "2 x m5.xlarge"),
        "EKS control plane": ("", ""),
        "NAT gateways": ("1", "1"),
        "by-hand": (None, "1 x ml.t3.medium"),
        "FSx for Lustre for its claim": (None, "1,200 GiB"),
        "FSx for Lustre for its claim (2)": (None, "2,400 GiB"),
    }


def test_a_paused_environment_keeps_its_price_of_everything_but_hyperpod_s_nodes() -> None:
    environment = config.load("dev")
    names = {group.name for group in environment.hyperpod.instance_groups}
    stays = [line for line in costs.estimate(environment) if line.item not in names]
    assert costs.priced(costs.paused(environment)) == stays


def test_a_closed_network_names_its_endpoints_as_not_priced() -> None:
    assert "interface endpoints" in costs.unpriced(config.load("closed"))
    assert "interface endpoints" not in costs.unpriced(config.load("dev"))


def test_a_group_that_sleeps_shows_what_it_costs_unused() -> None:
    dev = config.load("dev")
    head, workers = dev.hyperpod.instance_groups
    asleep = workers.model_copy(update={"sleep": Sleep(min=1, hours="Mon-Fri 07:00-19:00 Europe/Berlin")})
    hyperpod = dev.hyperpod.model_copy(update={"instance_groups": (head, asleep)})
    environment = dev.model_copy(update={"hyperpod": hyperpod})
    bill = EnvironmentCosts(environment, costs.estimate(environment))
    price, month = costs.prices()["instances"]["ml.p5.48xlarge"], HOURS_PER_MONTH
    [found] = document(bill)["sleeping"]
    assert found["asleep_usd_per_hour"] == pytest.approx(price, abs=0.01)
    least = price * 4 * month * 60 / 168 + price * month * 108 / 168
    assert found["least_usd_per_month"] == pytest.approx(least, rel=1e-3)
    console = Console(width=200, record=True)
    console.print(table(bill))
    said = f"at {price:,.2f} per hour: unused, awake 60 hours a week, it costs {least:,.0f} per month instead of"
    assert f"worker-group-1 sleeps while nothing uses it, {said} {price * 4 * month:,.0f}" in console.export_text()
    assert document(EnvironmentCosts(dev, costs.estimate(dev)))["sleeping"] == []


@pytest.mark.parametrize(
    ("hours", "per_week"),
    [
        (None, 0),
        ("Mon-Fri 07:00-19:00 Europe/Berlin", 60),
        ("Sat,Sun 00:00-24:00 UTC", 48),
        ("Fri-Mon 09:30-10:00 UTC", 2),
        ("Mon-Wed,Tue-Thu 08:00-09:00 UTC", 4),
    ],
)
def test_hours_of_a_week_are_added_up(hours: str | None, per_week: float) -> None:
    assert Sleep(hours=hours).hours_per_week == per_week
