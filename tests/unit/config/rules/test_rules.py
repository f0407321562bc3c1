"""Each rule fires on a document that breaks only this rule, and is silent on the nearest document that keeps it."""

import builtins
import copy
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from ruamel.yaml import YAML

from config import Environment, available, examine, load
from config.findings import Finding, Severity, place_of
from config.load import DIRECTORY, validated
from config.model.environment import every_key, model_of
from config.reading.strict_yaml import read
from config.rules import ALL_RULES, RULES, findings, findings_of_part
from config.rules.across_environments import PAIR_RULES
from config.rules.rule import Rule
from tests.unit.support.findings import assert_whole, line_of, with_fix, write
from tests.unit.support.rule_cases import CASES, CLUSTER, GONE, HEADS, SECRETS, Case, changed

EACH_CASE = [pytest.param(id, case, id=f"{id}-{n}") for id, cases in CASES.items() for n, case in enumerate(cases)]


def given(document: Any) -> Counter[str]:
    """Return how often each rule fires."""
    return Counter(_given(json.dumps(document)))


@cache
def _given(document: str) -> list[str]:
    """Return the rules that fire. Several tests ask about the document that keeps a rule."""
    made, found = validated(json.loads(document), "dev")
    assert made, found
    return [finding.rule for finding in found]


def errors(findings: Iterable[Finding]) -> set[str]:
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def environment(document: Any) -> Environment:
    return model_of(document).model_validate_json(json.dumps(document))


@pytest.fixture(scope="module")
def dev() -> Any:
    document = read(DIRECTORY / "dev.yaml").values | {"name": "dev"}
    del document["accepted_warnings"]
    return document


def test_every_rule_is_broken_and_kept_here() -> None:
    assert list(CASES) == sorted(CASES, key=lambda id: int(id[1:]))
    assert set(CASES) == {rule.id for rule in RULES}


def test_every_rule_has_an_id_of_its_own() -> None:
    assert len(ALL_RULES) == len(RULES) + len(PAIR_RULES)


@pytest.mark.parametrize("rule", ALL_RULES.values(), ids=ALL_RULES)
def test_every_rule_explains_itself(rule: Rule) -> None:
    said = rule.explanation
    assert re.match(r"(Warn of|Require|Refuse|Allow|Keep) .+\.$", said.what), said.what
    assert said.what.startswith("Warn of") == (rule.severity is Severity.WARNING)
    assert said.why.endswith(".")
    assert said.source.endswith((".", ")"))
    assert re.fullmatch(r"\S+: .+", said.example), said.example


@pytest.mark.parametrize("id", [id for id in CASES if CASES[id]])
def test_the_example_of_a_rule_breaks_it(id: str, dev: Any) -> None:
    key, _, value = ALL_RULES[id].explanation.example.partition(": ")
    change = {key.strip('"'): GONE if value == "(left out)" else YAML(typ="safe", pure=True).load(value)}
    given_on_each = [given(changed(changed(dev, case.keeps), change)) for case in CASES[id] if _fits(dev, case, key)]
    assert any(id in given for given in given_on_each)


def _fits(dev: Any, case: Case, key: str) -> bool:
    """Return whether the document that keeps the rule has the key that the example changes."""
    place = changed(dev, case.keeps)
    for part in key.strip('"').split(".")[:-1]:
        if isinstance(place, list):
            if int(part) >= len(place):
                return False
            place = place[int(part)]
        elif part not in place:
            return True
        else:
            place = place[part]
    return True


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_rule_is_silent_on_what_keeps_it(id: str, case: Case, dev: Any) -> None:
    assert id not in given(changed(dev, case.keeps))


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_rule_fires_on_what_breaks_exactly_it(id: str, case: Case, dev: Any) -> None:
    kept = changed(dev, case.keeps)
    broken = changed(kept, case.breaks)
    assert given(broken) - given(kept) == Counter({id: 1})


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_finding_has_file_line_key_value_reason_allowed_and_fix(
    id: str, case: Case, dev: Any, tmp_path: Path
) -> None:
    document = changed(changed(dev, case.keeps), case.breaks)
    file = write(tmp_path / "dev.yaml", document)
    [finding] = [each for each in examine("dev", tmp_path).findings if each.rule == id]
    assert_whole(finding)
    assert finding.key.split(".")[0] in every_key().model_fields
    assert finding.file == file
    assert finding.line == line_of(file, place_of(finding.key, document))
    assert str(finding).startswith(f"{file}:{finding.line} {finding.label}: ")


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_value_that_a_fix_names_is_accepted(id: str, case: Case, dev: Any, tmp_path: Path) -> None:
    document = changed(changed(dev, case.keeps), case.breaks)
    write(tmp_path / "dev.yaml", document)
    found = examine("dev", tmp_path).findings
    [finding] = [each for each in found if each.rule == id]
    if (mended := with_fix(document, finding)) is None:
        return
    write(tmp_path / "dev.yaml", mended)
    left = examine("dev", tmp_path).findings
    assert (id, finding.key) not in {(each.rule, each.key) for each in left if each.severity is finding.severity}
    # A guess at a name leads to facts that other keys may not fit; a figure is computed, and must fit.
    if not finding.fix.startswith("did you mean"):
        assert errors(left) <= errors(found), finding.fix


@pytest.mark.parametrize(("id", "case"), [("V25", CASES["V25"][0]), ("V61", CASES["V61"][0]), ("V66", CASES["V66"][0])])
def test_a_copied_item_is_one_finding_however_often(id: str, case: Case, dev: Any) -> None:
    """Consequences of the copy (addresses, workers without nodes) are not reported in addition."""
    document = changed(changed(dev, case.keeps), case.breaks)
    way = {"V25": ("hyperpod", "instance_groups"), "V61": ("ray", "clusters", 0, "workers"), "V66": ("ray", "clusters")}
    items = document
    for part in way[id]:
        items = items[part]
    items += copy.deepcopy(items[-1:] * 2)
    before = given(changed(dev, case.keeps))
    assert given(document) - before == Counter({id: 1})


@pytest.mark.parametrize("name", available())
def test_a_committed_environment_has_only_warnings_with_a_reason(name: str) -> None:
    assert [str(finding) for finding in findings(load(name)) if not finding.accepted] == []


def test_an_accepted_warning_carries_its_reason(dev: Any) -> None:
    said = findings(environment(dev | {"accepted_warnings": {"V20": "the walkthrough's"}}))
    assert [finding.accepted for finding in said if finding.rule == "V20"] == ["the walkthrough's"]


def test_an_accepted_warning_that_is_not_given_is_a_warning(dev: Any) -> None:
    [said] = [each for each in findings(environment(dev | {"accepted_warnings": {"V15": "x"}})) if not each.rule]
    assert said.severity is Severity.WARNING
    assert said.key == "accepted_warnings.V15"
    assert "the rule no longer warns" in str(said)
    assert_whole(said._replace(file=Path("x"), line=1))


def test_a_parked_head_is_an_error_until_it_is_said(dev: Any) -> None:
    parked = changed(dev, {f"{HEADS}.count": 0})
    assert given(parked)["V77"] == 1
    assert given(parked)["V54"] == 0
    said = given(parked | {"accepted_warnings": {"V54": "parked over the holidays"}})
    assert said["V77"] == 0
    assert said["V54"] == 1


@pytest.mark.parametrize("value", SECRETS)
def test_a_secret_is_not_repeated(value: str, dev: Any) -> None:
    found = findings(environment(changed(dev, {f"{CLUSTER}.env": {"HUB_TOKEN": value}})))
    assert [finding.rule for finding in found if finding.key.endswith("HUB_TOKEN")] == ["V73"]
    assert not any(value in str(finding) for finding in found)


@pytest.mark.parametrize("id", ["V1", "V999"])
def test_an_error_cannot_be_accepted(id: str, dev: Any) -> None:
    [said] = [each for each in findings(environment(dev | {"accepted_warnings": {id: "x"}})) if not each.rule]
    assert said.severity is Severity.ERROR
    assert ("errors cannot be accepted" if id == "V1" else "no rule has this id") in said.reason
    assert said.allowed.startswith("V8, V15, V20, ")
    assert_whole(said._replace(file=Path("x"), line=1))


def test_findings_of_rules_are_reported_beside_values_of_a_wrong_type(dev: Any, tmp_path: Path) -> None:
    broken = changed(
        dev,
        {
            "region": 7,
            "hyperpod.instance_groups.1.count": "four",
            "hyperpod.instance_groups.1.volume_gib": 0,
            "fsx.capacity_gib": 1300,
            "kuberay": [],
        },
    )
    broken["name"] = "broken"
    (tmp_path / "broken.yaml").write_text(json.dumps(broken))
    with pytest.raises(Exception) as refusal:  # noqa: PT011  the list below is the whole message
        load("broken", tmp_path)
    assert [line.split(" ", 1)[1].partition(". Allowed")[0] for line in str(refusal.value).splitlines()] == [
        "region: 7 is invalid: it is a whole number",
        "hyperpod.instance_groups.1 (worker-group-1).count: 'four' is invalid: it is text",
        "kuberay: [] is invalid: it is a list",
        "hyperpod.instance_groups.1 (worker-group-1).volume_gib: 0 is invalid: SageMaker does not accept this size",
        "fsx.capacity_gib: 1300 is invalid: FSx does not offer this size",
    ]


def misspelt(rule: Rule) -> Rule:
    """Return the rule with each attribute that its function reads misspelt."""
    assert isinstance(rule.check, FunctionType)
    code, known = rule.check.__code__, rule.check.__globals__
    names = tuple(name if name in known or hasattr(builtins, name) else f"{name}_" for name in code.co_names)
    check = FunctionType(code.replace(co_names=names), known, rule.check.__name__, None, rule.check.__closure__)
    check.__annotations__ = rule.check.__annotations__
    return replace(rule, check=check)


# The functions of these rules leave the reading to helpers; V75 reads a file, and V87 also the document.
@pytest.mark.parametrize("id", [id for id in CASES if id not in {"V25", "V66", "V73", "V75", "V87"}])
def test_a_misspelt_attribute_of_a_rule_surfaces(id: str, dev: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown value of a partial environment silences a rule; a typing error does not."""
    monkeypatch.setattr("config.rules.RULES", (misspelt(ALL_RULES[id]),))
    for case in CASES[id]:
        with pytest.raises(AttributeError, match="_'"):
            findings_of_part(environment(changed(changed(dev, case.keeps), case.breaks)))
