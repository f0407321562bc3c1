"""The command `ops gate`, on the output of a review."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.__main__ import app
from ops.review.data import to_json
from ops.review.model import Change, Danger, Effect, EnvironmentVerdict, Verdict
from tests.unit.support.documented_data import assert_same_shape, documented

LOST = Change(
    "storage",
    "AWS::FSx::FileSystem FileSystem",
    "file system",
    "throughput 250 → 500",
    Effect.DATA_LOST,
    "The new one is empty.",
    dangers=frozenset({Danger.DATA_LOSS}),
    digest="5d41" * 16,
)
APPROVAL = f"""\
approvals:
  - stack: storage
    resource: AWS::FSx::FileSystem FileSystem
    change: data-loss
    digest: {LOST.digest}
    reason: its data is in the bucket
    expires: "2999-12-31"
"""

Gate = Callable[..., Result]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a function that judges changes of the environment dev in a checkout with this file of approvals."""
    folder = tmp_path / "environments"
    (folder / "approvals").mkdir(parents=True)
    (folder / "dev.yaml").write_text("project: rayhp\n")
    monkeypatch.setattr("ops.gate.gate.REPOSITORY", tmp_path)

    def run(*changes: Change, approvals: str = "", options: tuple[str, ...] = ()) -> Result:
        if approvals:
            (folder / "approvals" / "dev.yaml").write_text(approvals)
        verdict = tmp_path / "review.json"
        verdict.write_text(to_json(Verdict((EnvironmentVerdict("dev", changes),))))
        return CliRunner().invoke(app, ["gate", "--review", str(verdict), *options])

    return run


def test_gate_is_open_without_dangerous_changes(gate: Gate) -> None:
    result = gate(Change("eks", "Role R", "role R", "tag", Effect.IN_PLACE))
    assert result.exit_code == 0
    assert "the gate is open" in result.stdout


def test_stopped_change_is_named_with_the_entry_that_would_approve_it(gate: Gate, tmp_path: Path) -> None:
    result = gate(LOST)
    assert result.exit_code == 1
    assert "STOPPED   dev: file system: throughput 250 → 500: data lost" in result.stdout
    entry = "\n".join(line.removeprefix("          ") for line in result.stdout.splitlines() if "  " in line[:4])
    written = entry[entry.index("  - stack") :].replace("WHY", "saved").replace("YYYY-MM-DD", "2999-12-31")
    assert gate(LOST, approvals=f"approvals:\n{written}\n").exit_code == 0


def test_approved_change_passes_and_names_its_approval(gate: Gate) -> None:
    result = gate(LOST, approvals=APPROVAL)
    assert result.exit_code == 0
    assert "approved  dev: file system" in result.stdout
    assert "approvals/dev.yaml:2" in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "code", "message"),
    [
        ("2999-12-31", "2020-01-01", 1, "it expired after 2020-01-01"),
        ("FileSystem FileSystem", "FileSystem Other", 1, "no change of dev needs it"),
        ("data-loss", "everything", 2, "no change has this name"),
        ("approvals:", "approved:", 2, "the key is unknown"),
    ],
)
def test_approval_that_does_not_hold_closes_the_gate(
    gate: Gate, before: str, after: str, code: int, message: str
) -> None:
    result = gate(LOST, approvals=APPROVAL.replace(before, after))
    assert result.exit_code == code
    assert message in result.stderr


def test_approvals_of_an_unknown_environment_close_the_gate(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "environments" / "approvals" / "prod.yaml").write_text(APPROVAL)
    result = gate()
    assert result.exit_code == 2
    assert "no environment has this name" in result.stderr


def test_removed_environment_needs_an_approval_in_a_file_of_its_name(gate: Gate, tmp_path: Path) -> None:
    review = tmp_path / "removed.json"
    lost = frozenset({Danger.CLUSTER_LOSS})
    gone = Change("", "Environment old", "environment", "gone", Effect.KEPT, dangers=lost, digest=LOST.digest)
    review.write_text(to_json(Verdict((EnvironmentVerdict("old", (gone,), synthesised=False),))))
    gate()
    command = ["gate", "--review", str(review)]
    assert CliRunner().invoke(app, command).exit_code == 1
    approval = APPROVAL.replace("data-loss", "cluster-loss").replace(LOST.resource, gone.resource)
    approval = approval.replace("stack: storage\n    ", "")
    (tmp_path / "environments" / "approvals" / "old.yaml").write_text(approval)
    assert CliRunner().invoke(app, command).exit_code == 0


def test_data_has_the_documented_shape(gate: Gate) -> None:
    shown = json.loads(gate(LOST, options=("-o", "json")).stdout)
    example = documented("gate")
    assert_same_shape(shown, example)
    assert shown["opens"] is False


@pytest.mark.parametrize("arguments", [(), (".", "--review", "review.json")])
def test_exactly_one_source_of_the_verdict_is_needed(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["gate", *arguments])
    assert result.exit_code == 2
    assert "Allowed: exactly one of them" in result.stderr


def test_file_that_is_no_verdict_closes_the_gate(gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"environments": []}')
    result = CliRunner().invoke(app, ["gate", "--review", str(file)])
    assert result.exit_code == 2
    assert "is no verdict" in result.stderr
