"""`ops gate BASE --head HEAD`: the base's rules judge a pull request, which may change its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from tests.support.approving import accepted
from tests.unit.ops.review.checkouts import Checkout

RESOURCE = "AWS::S3::Bucket Thing"
APPROVALS = "environments/approvals/dev.yaml"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """Return the checkout whose `ops` runs."""
    made = Checkout(tmp_path / "base")
    monkeypatch.setattr("ops.gate.gate.REPOSITORY", made.root)
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def head(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "head")


def gate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments])


def judged() -> Result:
    """Run what the workflow runs, in the base."""
    return gate(".", "--head", "../head")


def renamed(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", "AWS::S3::Bucket", storage={"BucketName": checkout.root.name})
    head.write("environments/dev.yaml", "# another")


def approvals(result: Result) -> str:
    """Return the approvals file that the gate prints."""
    lines = [line.strip() for line in result.stdout.splitlines()]
    entry = lines[lines.index('- stack: "storage"') :][:6]
    text = "\n".join(["approvals:", *(f"  {line}" if line[0] == "-" else f"    {line}" for line in entry)])
    return accepted(text)


def test_head_is_judged_against_the_base_whose_ops_runs(base: Checkout, head: Checkout) -> None:
    renamed(base, head)
    stopped = judged()
    assert stopped.exit_code == 1, stopped.output
    assert f'resource: "{RESOURCE}"' in stopped.stdout
    assert head.synthesised().keys() == base.synthesised().keys() == {"dev"}


def test_approvals_are_the_heads(base: Checkout, head: Checkout) -> None:
    renamed(base, head)
    approved = approvals(judged())
    base.write(APPROVALS, approved)
    assert judged().exit_code == 1
    head.write(APPROVALS, approved)
    assert judged().exit_code == 0


def test_merged_approval_does_not_cover_the_next_change(base: Checkout, head: Checkout) -> None:
    renamed(base, head)
    approved = approvals(judged())
    # The base after the merge, and the next pull request.
    base.environment("dev", "AWS::S3::Bucket", storage={"BucketName": "head"})
    head.environment("dev", "AWS::S3::Bucket", storage={"BucketName": "next"})
    head.write("environments/dev.yaml", "# another")
    for checkout in (base, head):
        checkout.write(APPROVALS, approved)
    result = judged()
    assert result.exit_code == 1
    assert "STOPPED   dev: " in result.stdout
    assert "it approves another change of this resource. Allowed: the digest " in result.stderr


def newer_approvals(head: Checkout) -> None:
    head.write(APPROVALS, "approvals: []\nversion: 2\n")


def newer_templates(head: Checkout) -> None:
    head.write("templates/dev/manifest.json", '{"artifacts": {"stage": {"type": "cdk:cloud-assembly"}}}')


def newer_syntheses(head: Checkout) -> None:
    head.write("templates/dev/broken", "")


@pytest.mark.parametrize("newer", [newer_approvals, newer_templates, newer_syntheses])
def test_head_that_the_bases_rules_cannot_read_stays_closed(
    newer: Callable[[Checkout], None], base: Checkout, head: Checkout
) -> None:
    renamed(base, head)
    newer(head)
    result = judged()
    assert result.exit_code == 2, result.output
    said = "The gate stays closed. If only newer rules can read the head, a maintainer decides.\nerror: "
    assert said in result.stderr, "the cause comes last: it may have many lines"
    assert "the gate is open" not in result.stdout


def test_one_checkout_is_not_compared_with_itself(base: Checkout) -> None:
    base.environment("dev", storage={})
    for arguments in ((".",), (".", "--head", "."), (".", "--head", "../base")):
        result = gate(*arguments)
        assert result.exit_code == 2
        assert "is both sides: nothing would be compared" in result.stderr


def test_verdict_in_a_file_is_on_this_checkout_alone(base: Checkout, head: Checkout) -> None:
    result = gate("--review", "review.json", "--head", str(base.root))
    assert result.exit_code == 2
    assert "--head and --review exclude each other" in result.stderr
