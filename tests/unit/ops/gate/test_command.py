"""The command `ops gate`, on the output of a review."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from ops.review.checkouts.inputs import fingerprint
from ops.review.data import to_json
from ops.review.model import Change, Compared, Danger, Effect, EnvironmentVerdict, Verdict
from tests.support.approving import SOON, accepted
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
    expires: "{SOON}"
"""

Gate = Callable[..., Result]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the checkout of the command, with the environment dev."""
    folder = tmp_path / "checkout"
    (folder / "environments" / "approvals").mkdir(parents=True)
    (folder / "environments" / "dev.yaml").write_text("project: rayhp\n")
    monkeypatch.setattr("ops.gate.gate.REPOSITORY", folder)
    return folder


@pytest.fixture
def gate(checkout: Path) -> Gate:
    """Return a function that judges changes of an environment with this file of approvals."""

    def run(*changes: Change, name: str = "dev", approvals: str = "", options: tuple[str, ...] = ()) -> Result:
        if approvals:
            (checkout / "environments" / "approvals" / f"{name}.yaml").write_text(approvals)
        compared = Compared("base", fingerprint(checkout), {}, every_environment=True)
        written = write(checkout, Verdict((EnvironmentVerdict(name, changes),), compared=compared))
        return CliRunner().invoke(app, ["gate", "--review", str(written), *options])

    return run


def write(checkout: Path, verdict: Verdict) -> Path:
    """Write what `ops review --json > review.json` writes in the checkout, and return its path."""
    file = checkout / "review.json"
    file.write_text(to_json(verdict))
    return file


def test_gate_is_open_without_dangerous_changes(gate: Gate) -> None:
    result = gate(Change("eks", "Role R", "role R", "tag", Effect.IN_PLACE))
    assert result.exit_code == 0
    assert "the gate is open" in result.stdout


def test_stopped_change_is_named_with_the_entry_that_would_approve_it(gate: Gate) -> None:
    result = gate(LOST)
    assert result.exit_code == 1
    assert "STOPPED   dev: file system: throughput 250 → 500: data lost" in result.stdout
    entry = "\n".join(line.removeprefix("          ") for line in result.stdout.splitlines() if "  " in line[:4])
    written = accepted(entry[entry.index("  - stack") :])
    assert gate(LOST, approvals=f"approvals:\n{written}\n").exit_code == 0


def test_approved_change_passes_and_names_its_approval(gate: Gate) -> None:
    result = gate(LOST, approvals=APPROVAL)
    assert result.exit_code == 0
    assert "approved  dev: file system" in result.stdout
    assert "approvals/dev.yaml:2" in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "code", "message"),
    [
        (SOON, "2020-01-01", 1, "it expired after 2020-01-01"),
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


def test_approvals_of_an_unknown_environment_close_the_gate(gate: Gate, checkout: Path) -> None:
    (checkout / "environments" / "approvals" / "prod.yaml").write_text(APPROVAL)
    result = gate()
    assert result.exit_code == 2
    assert "no environment has this name" in result.stderr


def test_removed_environment_needs_an_approval_in_a_file_of_its_name(gate: Gate) -> None:
    lost = frozenset({Danger.CLUSTER_LOSS})
    gone = Change("", "Environment old", "environment", "gone", Effect.KEPT, dangers=lost, digest=LOST.digest)
    assert gate(gone, name="old").exit_code == 1
    approval = APPROVAL.replace("data-loss", "cluster-loss").replace(LOST.resource, gone.resource)
    approval = approval.replace("stack: storage\n    ", "")
    assert gate(gone, name="old", approvals=approval).exit_code == 0


def test_approval_that_the_pull_request_removes_or_changes_does_not_hold(gate: Gate) -> None:
    assert gate(LOST, approvals=APPROVAL).exit_code == 0
    assert gate(LOST, approvals="approvals: []\n").exit_code == 1
    assert gate(LOST, approvals=APPROVAL.replace("data-loss", "cluster-loss")).exit_code == 1
    used = gate(approvals=APPROVAL)
    assert used.exit_code == 1
    assert "no change of dev needs it. Allowed: approvals of what this pull request changes. Fix: remove it" in (
        used.stderr
    )
    assert gate(approvals="approvals: []\n").exit_code == 0


REFUSED: dict[str, tuple[Callable[[Compared], Compared], str]] = {
    "another head": (lambda made: replace(made, head="other"), "was made from another head"),
    "no head": (lambda made: replace(made, head=""), "was made from another head"),
    "another base": (lambda made: replace(made, base="other"), "was made from another base"),
    "other context": (lambda made: replace(made, context={"charts": "stand-in"}), "was made with other context"),
    "an environment left out": (
        lambda made: replace(made, every_environment=False),
        "leaves environments out. Allowed: a verdict on all environments. Fix: write it without --env",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_verdict_on_something_else_closes_the_gate(name: str, checkout: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "environments").mkdir(parents=True)
    (base / "environments" / "dev.yaml").write_text("project: earlier\n")
    own = Compared(fingerprint(base), fingerprint(checkout), {}, every_environment=True)
    change, message = REFUSED[name]
    for compared, code in ((own, 0), (change(own), 2)):
        file = write(checkout, Verdict((EnvironmentVerdict("dev"),), compared=compared))
        result = CliRunner().invoke(app, ["gate", str(base), "--review", str(file)])
        assert result.exit_code == code, result.output
    assert message in result.stderr


@pytest.mark.parametrize("path", ["environments/dev.yaml", "app.py", "ops/gate/decision.py", "stacks/new.py"])
def test_edit_after_the_review_closes_the_gate_committed_or_not(path: str, checkout: Path) -> None:
    compared = Compared("base", fingerprint(checkout), {}, every_environment=True)
    file = write(checkout, Verdict((EnvironmentVerdict("dev"),), compared=compared))
    assert CliRunner().invoke(app, ["gate", "--review", str(file)]).exit_code == 0
    (checkout / path).parent.mkdir(parents=True, exist_ok=True)
    (checkout / path).write_text("# edited")
    result = CliRunner().invoke(app, ["gate", "--review", str(file)])
    assert result.exit_code == 2
    assert "was made from another head" in result.stderr


def test_data_has_the_documented_shape(gate: Gate) -> None:
    shown = json.loads(gate(LOST, options=("-o", "json")).stdout)
    example = documented("gate")
    assert_same_shape(shown, example)
    assert shown["opens"] is False


def test_base_or_a_verdict_is_needed() -> None:
    result = CliRunner().invoke(app, ["gate"])
    assert result.exit_code == 2
    assert "BASE is missing. Allowed: BASE, --review, or both" in result.stderr


def test_file_that_is_no_verdict_closes_the_gate(gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"environments": []}')
    result = CliRunner().invoke(app, ["gate", "--review", str(file)])
    assert result.exit_code == 2
    assert "is no verdict" in result.stderr
