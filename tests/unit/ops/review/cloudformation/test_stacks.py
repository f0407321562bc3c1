"""Stacks, their settings, exports, and the other sections of a template."""

import json
from typing import Any

import pytest

from ops.review.assembly import Pair
from ops.review.model import Change, Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, changes, dangers, of

RESOURCES = {"Role": of("AWS::IAM::Role")}


def around(pairs: Pairs, before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    stacks = [{"storage": {"Resources": RESOURCES, **more}} for more in (before, after)]
    return changes(pairs.pair(stacks[0], stacks[1]))


def settings(pairs: Pairs, before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    stacks = {"storage": {"Resources": RESOURCES}}
    base, head = (pairs.assembly(stacks, {"storage": each}) for each in (before, after))
    return changes(Pair("dev", base, head))


def test_a_stack_that_is_gone_stays_and_says_how_to_delete_it(pairs: Pairs) -> None:
    kept = {"Resources": RESOURCES}
    found = changes(
        pairs.pair({"storage": kept, "ray": {"Resources": {"A": of("AWS::S3::Bucket")}}}, {"storage": kept})
    )
    assert {each.effect for each in found} == {Effect.KEPT}
    stack = next(each for each in found if each.resource == "Stack ray")
    assert "cdk destroy rayhp-dev-ray -c environment=dev" in stack.action
    assert stack.dangers == {Danger.CLUSTER_LOSS}


def test_a_new_stack_is_created(pairs: Pairs) -> None:
    kept = {"Resources": RESOURCES}
    found = changes(pairs.pair({"storage": kept}, {"storage": kept, "ray": kept}))
    assert {each.effect for each in found} == {Effect.CREATED}


@pytest.mark.parametrize(
    ("before", "after", "danger"),
    [
        ({"terminationProtection": True}, {"terminationProtection": False}, Danger.LOWER_PROTECTION),
        ({"terminationProtection": False}, {"terminationProtection": True}, None),
        ({}, {"stackName": "other-storage"}, Danger.CLUSTER_LOSS),
        ({}, {"assumeRoleArn": "arn:aws:iam::999999999999:role/cdk"}, Danger.CLUSTER_LOSS),
        ({}, {"tags": {"team": "ml"}}, None),
        ({}, {"invented": 1}, Danger.UNKNOWN),
    ],
)
def test_settings_of_a_stack(
    pairs: Pairs, before: dict[str, Any], after: dict[str, Any], danger: Danger | None
) -> None:
    found = settings(pairs, before, after)
    assert found
    assert dangers(found) == ({danger} if danger else set())


@pytest.mark.parametrize(
    ("section", "before", "after", "danger"),
    [
        ("Description", "a", "b", None),
        ("Conditions", {"A": 1}, {"A": 2}, Danger.UNKNOWN),
        ("Mappings", {"A": 1}, {"A": 2}, Danger.UNKNOWN),
        ("Transform", None, "AWS::Include", Danger.UNKNOWN),
        ("Parameters", {"A": {"Default": 1}}, {"A": {"Default": 2}}, Danger.UNKNOWN),
        ("Parameters", {"A": {"Description": "1"}}, {"A": {"Description": "2"}}, None),
        ("Rules", {"CheckBootstrapVersion": 1}, {"CheckBootstrapVersion": 2}, None),
        ("Invented", 1, 2, Danger.UNKNOWN),
    ],
)
def test_sections_of_a_template(
    pairs: Pairs, section: str, before: object, after: object, danger: Danger | None
) -> None:
    [change] = around(pairs, {section: before}, {section: after})
    assert change.dangers == ({danger} if danger else set())
    assert (change.effect is Effect.UNKNOWN) == (danger is not None)


def exporting(value: str | None) -> dict[str, Any]:
    outputs = {"Outputs": {"Id": {"Value": value, "Export": {"Name": "shared"}}}} if value else {}
    return {"Resources": RESOURCES, **outputs}


IMPORTING = {"Resources": {"P": of("AWS::SSM::Parameter", Value={"Fn::ImportValue": "shared"})}}
ALONE = {"Resources": {"P": of("AWS::SSM::Parameter", Value="literal")}}


@pytest.mark.parametrize(
    ("after", "importer", "effect"),
    [(None, IMPORTING, Effect.REFUSED), ("other", IMPORTING, Effect.REFUSED), (None, ALONE, Effect.IN_PLACE)],
)
def test_an_export_that_a_stack_imports(
    pairs: Pairs, after: str | None, importer: dict[str, Any], effect: Effect
) -> None:
    before = {"network": exporting("id"), "ray": IMPORTING}
    found = changes(pairs.pair(before, {"network": exporting(after), "ray": importer}))
    change = next(each for each in found if each.resource == "Stack network")
    assert change.effect is effect
    assert ("--exclusively" in change.action) == (effect is Effect.IN_PLACE)


def test_an_export_without_importers_may_go(pairs: Pairs) -> None:
    found = changes(pairs.pair({"network": exporting("id")}, {"network": exporting(None)}))
    assert [each.effect for each in found] == [Effect.NOTHING]


def test_stacks_behind_another_depend_on_it_directly_or_through_others(pairs: Pairs) -> None:
    assembly = pairs.assembly({part: {} for part in ("network", "storage", "ray", "platform")})
    file = assembly.directory / "manifest.json"
    manifest = json.loads(file.read_text())
    for part, needs in (("storage", "network"), ("ray", "storage")):
        manifest["artifacts"][f"rayhp-dev-{part}"]["dependencies"] = [f"rayhp-dev-{needs}", f"{part}.assets"]
    file.write_text(json.dumps(manifest))
    assert {part: assembly.dependents(part) for part in assembly.stacks} == {
        "network": ("storage", "ray"),
        "storage": ("ray",),
        "ray": (),
        "platform": (),
    }
