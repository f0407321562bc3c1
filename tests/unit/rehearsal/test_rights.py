"""A right that a recorded decision needs is exercised; the page gives the others with their reason, or says so."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rehearsal.__main__ import app
from rehearsal.rights import compare, page, prove, recorded
from rehearsal.rights.replay import Right, replay

ROLE, BUCKET = "arn:aws:iam::111122223333:role/made-Role-X", "arn:aws:s3:::data"
LAMBDA = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
OWNER = "ray: RayRole"


def statement(actions: str | list[str], resource: str = "*", effect: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": actions, "Resource": resource, **more}


def decision(action: str, resource: str = "*", outcome: str = "ALLOW", **of: str) -> dict[str, Any]:
    more = {"kind": "iam", "principal": ROLE, "context": {}, "policies": {ROLE: "1"} | ({BUCKET: "2"} if of else {})}
    return {"action": action, "resource": resource, "decision": outcome, "boundary": {}, **more}


def journal(folder: Path, policies: Mapping[str, Any], *decisions: Mapping[str, Any], bucket: Any = None) -> Path:
    """Write the journal of an account in which the ray stack has a role with these policies."""
    made = {"kind": "cfn", "stack": "rayhp-dev-ray", "type": "AWS::IAM::Role", "logical_id": "RayRole0A1B2C3D"}
    documents = {name: {"Statement": each} for name, each in policies.items()}
    entries = [
        made | {"physical_id": "made-Role-X"},
        made | {"physical_id": "data", "type": "AWS::S3::Bucket", "logical_id": "Data"},
        made | {"physical_id": "others", "stack": "CDKToolkit"},
        {"kind": "policies", "of": ROLE, "digest": "1", "policies": documents},
        {"kind": "policies", "of": "arn:aws:iam::1:role/others", "digest": "1", "policies": documents},
        *decisions,
    ]
    if bucket:
        entries.append({"kind": "policies", "of": BUCKET, "digest": "2", "policies": {"own": {"Statement": bucket}}})
    file = folder / "journal.jsonl"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return file


def outcome(file: Path) -> dict[tuple[str, str, str], bool]:
    return {(each.owner, each.effect, each.action): needed for each, needed in replay(recorded.read([file])).items()}


def test_only_what_a_decision_needs_is_exercised(tmp_path: Path) -> None:
    own = [statement(["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::data/*"), statement("sns:Publish")]
    file = journal(tmp_path, {"own": own}, decision("s3:GetObject", "arn:aws:s3:::data/a"))
    assert outcome(file) == {
        (OWNER, "Allow", "s3:GetObject"): True,
        (OWNER, "Allow", "s3:PutObject"): False,
        (OWNER, "Allow", "sns:Publish"): False,
    }


def test_right_that_another_statement_gives_too_is_not_exercised(tmp_path: Path) -> None:
    twice = [statement("s3:GetObject"), statement(["s3:Get*"])]
    file = journal(tmp_path, {"own": twice}, decision("s3:GetObject", "arn:aws:s3:::data/a"))
    assert set(outcome(file).values()) == {False}


def test_deny_is_exercised_by_a_refusal(tmp_path: Path) -> None:
    own = [statement("s3:*"), statement("s3:PutObject", effect="Deny"), statement("s3:DeleteObject", effect="Deny")]
    file = journal(tmp_path, {"own": own}, decision("s3:PutObject", "arn:aws:s3:::data/a", "EXPLICIT_DENY"))
    found = outcome(file)
    assert found[OWNER, "Deny", "s3:PutObject"]
    assert not found[OWNER, "Deny", "s3:DeleteObject"]


def test_right_that_the_boundary_refuses_is_not_exercised(tmp_path: Path) -> None:
    """What the boundary refuses, it refuses with and without the right; and the boundary is nobody's right."""
    boundary = "arn:aws:iam::111122223333:policy/Boundary"
    own = [statement("s3:GetObject"), statement("s3:PutObject"), statement("s3:Put*")]
    policies = {"boundary": {"Statement": statement("s3:Get*")}}
    asked = (decision("s3:GetObject"), decision("s3:PutObject", outcome="IMPLICIT_DENY"))
    bounded = [each | {"boundary": {boundary: "3"}} for each in asked]
    bounded.append({"kind": "policies", "of": boundary, "digest": "3", "policies": policies})
    assert outcome(journal(tmp_path, {"own": own}, *bounded)) == {
        (OWNER, "Allow", "s3:GetObject"): True,
        (OWNER, "Allow", "s3:PutObject"): False,
        (OWNER, "Allow", "s3:Put*"): False,
    }


def test_policy_of_aws_is_one_right(tmp_path: Path) -> None:
    file = journal(tmp_path, {LAMBDA: [statement(["logs:PutLogEvents", "logs:X"])]}, decision("logs:PutLogEvents"))
    assert outcome(file) == {(OWNER, "attached policy", "AWSLambdaBasicExecutionRole"): True}


def test_right_of_a_buckets_policy_is_taken_away_too(tmp_path: Path) -> None:
    bucket = [statement(["s3:GetObject", "s3:List*"], f"{BUCKET}/*", Principal={"AWS": ROLE})]
    file = journal(tmp_path, {}, decision("s3:GetObject", f"{BUCKET}/a", of="bucket"), bucket=bucket)
    assert outcome(file) == {
        ("ray: Data (bucket policy)", "Allow", "s3:GetObject"): True,
        ("ray: Data (bucket policy)", "Allow", "s3:List*"): False,
    }


def test_rights_of_people_are_those_of_their_role(tmp_path: Path) -> None:
    [right] = outcome(journal(tmp_path, {"arn:aws:iam::1:policy/rayhp-dev-operator-2": [statement("a:B")]}))
    assert right == ("operator", "Allow", "a:B")


def test_page_counts_and_gives_reasons() -> None:
    framework = "eks: ProviderframeworkonEventServiceRole"
    needed = {
        Right(framework, "Allow", "lambda:InvokeFunction", "lambda function"): True,
        Right(framework, "Allow", "lambda:GetFunction", "lambda function"): False,
        Right("operator", "Deny", "a:B", "*"): False,
    }
    text = page.page({"`dev`": needed, "tests": {}}, "2026-11-28")
    assert (
        "by `dev`, tests on 2026-11-28: 3 rights, 1 exercised, 1 kept with\na reason, 1 with no scenario yet." in text
    )
    assert f"| {framework} | 2 | **`lambda:InvokeFunction`** | `lambda:GetFunction`: CDK's provider framework" in text
    assert "| operator | 1 |  | `deny a:B`: no scenario yet |" in text


def test_administrator_may_do_what_others_exercise_and_nobody_else_may() -> None:
    needed = {
        Right("operator", "Allow", "a:B", "*", "Watch"): True,
        Right("admin", "Allow", "a:B", "*", "Watch"): False,
        Right("admin", "Allow", "a:C", "*", "Watch"): False,
        Right("viewer", "Allow", "a:B", "*", "Watch"): False,
    }
    text = page.page({"tests": needed}, "2026-11-28")
    assert (
        "| admin | 2 |  | `a:B`: exercised as the operator's: an administrator may do all that others may; `a:C`: "
        in text
    )
    assert "| viewer | 1 |  | `a:B`: no scenario yet |" in text


def test_the_same_action_of_another_statement_is_not_the_administrators() -> None:
    needed = {
        Right("scientist", "Allow", "s3:GetObject", "s3 objects", "MoveData"): True,
        Right("admin", "Allow", "s3:GetObject", "s3 objects", "ReadBuildLog"): False,
    }
    assert "| admin | 1 |  | `s3:GetObject`: no scenario yet |" in page.page({"tests": needed}, "2026-11-28")


def test_right_is_in_bold_if_every_rehearsal_that_has_it_needs_it() -> None:
    always, sometimes, tested = (Right(OWNER, "Allow", f"s3:{name}", "*") for name in ("Get", "Put", "List"))
    recordings = {
        "`dev`": {always: True, sometimes: True, tested: False},
        "`prod`": {always: True, sometimes: False},
        "`slurm`": {},
        "tests": {always: False, sometimes: False, tested: True},
    }
    assert "| 3 | **`s3:Get`**, `s3:List`, `s3:Put` |" in page.page(recordings, "2026-11-28")


@pytest.mark.parametrize(
    ("granted", "reported"),
    [
        ([statement(["s3:GetObject", "s3:PutObject"])], []),
        (
            [statement("s3:GetObject"), statement("*")],
            ["nothing is refused without s3:GetObject", "* gives a whole service"],
        ),
        ([statement("s3:*")], ["s3:* gives a whole service"]),
        ([statement("s3:GetObject"), statement("s3:Get*")], ["nothing is refused without s3:GetObject"]),
    ],
    ids=["as the page has it", "everything beside it", "a service in place of it", "given twice"],
)
def test_right_that_a_rehearsal_no_longer_needs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granted: list[Any], reported: list[str]
) -> None:
    monkeypatch.setattr(compare, "PAGE", tmp_path / "rights.md")
    (tmp_path / "rights.md").write_text(f"| {OWNER} | 2 | **`s3:GetObject`** | `s3:PutObject`: no scenario yet |\n")
    file = journal(tmp_path, {"own": granted}, decision("s3:GetObject", "arn:aws:s3:::data/a"))
    assert compare.surplus([file]) == [f"{OWNER}: {each}" for each in reported]


def test_role_that_is_no_longer_evaluated_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAGE", tmp_path / "rights.md")
    (tmp_path / "rights.md").write_text(f"| {OWNER} | 1 | **`s3:GetObject`** |  |\n")
    file = journal(tmp_path, {"own": [statement("s3:GetObject")]})
    assert compare.surplus([file]) == [f"{OWNER}: nothing is refused without s3:GetObject"]


def test_comparison_without_a_recording_is_no_success() -> None:
    assert compare.surplus([]) == ["no decision about a stack's role is recorded"]


def test_replay_without_a_recording_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "_FOLDERS", {"tests": tmp_path})
    done = CliRunner().invoke(app, ["rights", "--replay"])
    assert done.exit_code == 2
    assert "no decision is recorded. Fix: `make test-rights`" in done.output
