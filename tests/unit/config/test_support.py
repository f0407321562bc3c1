"""The dated table of support: what each day changes for rules and prices, and that no day turns the tests red.

The days are those of endoflife.date/amazon-eks and of EKS's release calendar.
"""

import os
import re
from datetime import date, datetime, time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from config import load
from config.estimates import costs
from config.facts import support, versions
from config.facts.support import Phase
from config.findings import ConfigError
from config.model import EksEnvironment
from config.rules import findings
from embedded_account.services.eks import checks
from ops.environment import supported
from ops.environment.schema import VERSIONS
from ops.watch import sections

TABLE = pytest.mark.table("config/facts/support.yaml")
PROJECT = Path(__file__).parents[3]
DEV = load("dev")


def on(day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(support.TODAY_VARIABLE, day)


def with_version(version: str) -> EksEnvironment:
    return DEV.model_copy(update={"eks": DEV.eks.model_copy(update={"version": version})})


def given(version: str) -> dict[str, str]:
    """Return what the two rules about the version say, by their ids."""
    return {each.rule: str(each) for each in findings(with_version(version)) if each.rule in {"V2", "V110"}}


@pytest.mark.parametrize(
    ("day", "version", "phase"),
    [
        ("2026-07-22", "1.30", Phase.EXTENDED),
        ("2026-07-23", "1.30", Phase.ENDED),
        ("2026-11-25", "1.31", Phase.EXTENDED),
        ("2026-11-26", "1.31", Phase.ENDED),
        ("2026-03-22", "1.32", Phase.STANDARD),
        ("2026-03-23", "1.32", Phase.EXTENDED),
        ("2026-07-28", "1.33", Phase.STANDARD),
        ("2026-07-29", "1.33", Phase.EXTENDED),
        ("2026-12-01", "1.34", Phase.STANDARD),
        ("2026-12-02", "1.34", Phase.EXTENDED),
        ("2027-03-26", "1.35", Phase.STANDARD),
        ("2028-03-27", "1.35", Phase.ENDED),
        ("2026-11-26", "1.99", None),
    ],
)
def test_each_day_decides_phase_rule_and_price(
    day: str, version: str, phase: Phase | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(day, monkeypatch)
    assert support.phase(version) is phase
    rules = {Phase.STANDARD: set(), Phase.EXTENDED: {"V110"}, Phase.ENDED: {"V2"}, None: {"V2"}}
    assert set(given(version)) == rules[phase]
    price = {Phase.STANDARD: 0.10, Phase.EXTENDED: 0.60, Phase.ENDED: 0.60, None: None}
    [line] = [each for each in costs.estimate(with_version(version)) if each.item == "EKS control plane"]
    assert line.usd_per_hour == price[phase]


def test_a_version_that_can_no_longer_be_created_is_an_error() -> None:
    said = given("1.30")["V2"]
    assert "EKS ended its support on 2026-07-23: no cluster can be created with it" in said
    assert "Allowed: 1.32, 1.33, 1.34, 1.35." in said


def test_extended_support_is_a_warning_with_the_price() -> None:
    said = given("1.33")["V110"]
    assert "since 2026-07-29 it is in extended support: its control plane costs US$ 0.60 an hour, not 0.10" in said
    assert "Advised: 1.34, 1.35." in said


DAYS = sorted(
    {str(day) for each in support.versions(support.KUBERNETES).values() for day in (each.until, each.extended)}
)


@pytest.mark.parametrize("day", DAYS)
def test_every_day_s_fix_is_accepted(day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on(day, monkeypatch)
    for version in support.versions(support.KUBERNETES):
        for rule, said in given(version).items():
            assert re.search("(Allowed|Advised): [1-9l]", said)
            fixes = re.findall(r'(?:write version:|deployed cluster) "(.+?)"', said)
            assert not any(rule in given(fix) for fix in fixes), said
            assert fixes or "Fix: update this project (docs/operate/follow-upstream.md)" in said


def test_a_day_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    on("tomorrow", monkeypatch)
    said = "RAYHP_TODAY: 'tomorrow' is invalid: it is no day. Allowed: YYYY-MM-DD. Fix: unset RAYHP_TODAY"
    with pytest.raises(ConfigError, match=re.escape(said)):
        support.today()


def test_an_existing_cluster_in_extended_support_costs_its_owner() -> None:
    existing = load("existing-eks")
    old = existing.model_copy(update={"eks": existing.eks.model_copy(update={"version": "1.33"})})
    assert "V110" in {each.rule for each in findings(old)}
    assert "EKS control plane" not in {each.item for each in costs.estimate(old)}


@TABLE
def test_the_table_has_every_version_that_the_project_offers() -> None:
    assert tuple(support.versions(support.KUBERNETES)) == versions.KUBERNETES_VERSIONS
    assert tuple(support.versions("KubeRay")) == tuple(versions.KUBERAY_VERSIONS)
    assert tuple(support.versions("Ray")) == tuple(each.ray for each in versions.SETS.values())
    assert {*support.versions("CPython")} == {each.python for each in versions.SETS.values()}


@TABLE
def test_every_row_names_its_source_and_its_days_are_in_order() -> None:
    for component in support.table()["components"]:
        assert component["source"]
        assert component["note"].endswith(".")
        for found in support.versions(component["name"]).values():
            assert found.extended is None or (found.until and found.until < found.extended)


@TABLE
def test_the_rehearsal_s_eks_creates_what_the_table_says() -> None:
    creates = {version for version in checks.VERSIONS if version not in checks.ENDED}
    assert creates & set(versions.KUBERNETES_VERSIONS) == {*support.offered(support.today())}


@TABLE
def test_new_clusters_get_a_version_in_standard_support() -> None:
    assert support.phase(versions.KUBERNETES_DEFAULT) is Phase.STANDARD


def test_the_status_says_until_when_versions_are_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {each["component"]: each for each in sections.support(with_version("1.33"))}
    assert found["Kubernetes on EKS"] == {
        "component": "Kubernetes on EKS",
        "version": "1.33",
        "phase": "extended support",
        "until": "2027-07-29",
        "flaws": [],
    }
    assert (found["CPython"]["phase"], found["CPython"]["until"]) == ("no support", "2026-10-31")
    assert (found["Ray"]["phase"], found["Ray"]["flaws"]) == (
        "no published end",
        [*support.versions("Ray")["2.42.1"].flaws],
    )
    on("2026-07-01", monkeypatch)
    assert sections.support(with_version("1.33"))[0]["phase"] == "standard support"


def test_the_page_shows_the_table() -> None:
    page = VERSIONS.read_text()
    assert supported.with_table(page) == page
    assert "| Kubernetes on EKS | 1.34 | 2026-12-02 | 2027-12-02 |" in page


def test_no_day_turns_the_tests_red() -> None:
    """Every place that runs tests pins the day of the table, and one function alone reads the clock in rules."""
    read: Any = support.table()["date"]
    assert os.environ[support.TODAY_VARIABLE] == read
    clock = re.compile(r"\b(datetime\.now|date\.today|time\.time)\(")
    reads = [file.name for file in (PROJECT / "config").rglob("*.py") if clock.search(file.read_text())]
    assert reads == ["support.py"]


@pytest.mark.parametrize("day", ["2025-01-01", "2026-12-03", "2028-06-01"])
def test_without_the_variable_the_day_is_the_clocks(day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=lambda zone: datetime.combine(date.fromisoformat(day), time(23, 59), zone))
    monkeypatch.setattr(support, "datetime", clock)
    monkeypatch.delenv(support.TODAY_VARIABLE)
    assert str(support.today()) == day
