"""Review a pull request and decide whether it may be deployed."""

import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from config import available
from ops.gate import approvals
from ops.gate.approvals import Approval, ApprovalsError
from ops.gate.decision import Decision, decide
from ops.review.checkouts import handover
from ops.review.checkouts.cdk import ReviewError
from ops.review.checkouts.inputs import ENVIRONMENTS, fingerprint
from ops.review.checkouts.tracked import require_links_inside
from ops.review.data import from_file
from ops.review.model import Verdict
from ops.review.review import REPOSITORY, review


def of_checkouts(base: Path, head: Path | None, context: Mapping[str, str], *, console: Console) -> Decision:
    """Return the decision on `head`, by default this checkout, against `base`.

    Raises ApprovalsError for an approvals file with errors, ReviewError if both are one checkout or one does not
    synthesise.
    """
    head = head or REPOSITORY
    if base.samefile(head):
        raise ReviewError(
            f"{base} is both sides: nothing would be compared. Fix: give BASE, or --head, another checkout"
        )
    # Before the syntheses, which take a while.
    given = _approvals(head)
    return _decided(review(base, head, context, console=console), given, head)


def of_pull_request(head: Path, folder: Path, *, console: Console) -> tuple[Verdict, Decision]:
    """Return the verdict and the decision on `head` against this checkout. No line of `head` runs.

    Args:
        head: The changed checkout: its files are read as data.
        folder: What was downloaded of the job that synthesised `head`.
        console: Where progress is printed.

    Raises ApprovalsError for an approvals file with errors, ReviewError if the rules of this checkout cannot read
    `head`, or refuse what was handed over.
    """
    # Before a file is read: a link may lead to any file of this machine.
    require_links_inside(head)
    given = _approvals(head)
    with tempfile.TemporaryDirectory() as scratch:
        assemblies = handover.read(folder, Path(scratch), given.keys())
        verdict = review(REPOSITORY, head, handed_over=assemblies, console=console)
        return verdict, _decided(verdict, given, head)


def of_file(file: Path, base: Path | None, context: Mapping[str, str]) -> Decision:
    """Return the decision on a verdict in a file, which must be on this checkout, and on `base` if it is given.

    Raises ApprovalsError for an approvals file with errors, ReviewError if the file is no verdict on this.
    """
    verdict = from_file(file)
    _require_same(verdict, file, base, context)
    return _decided(verdict, _approvals(REPOSITORY), REPOSITORY)


def _approvals(head: Path) -> dict[str, list[Approval]]:
    """Return the approvals of each environment."""
    return {name: approvals.read(head, name) for name in available(head / ENVIRONMENTS)}


def _decided(verdict: Verdict, given: Mapping[str, list[Approval]], head: Path) -> Decision:
    removed = {each.name for each in verdict.environments} - given.keys()
    if wrong := approvals.misplaced(head, sorted(given.keys() | removed)):
        raise ApprovalsError(wrong)
    of_removed = {name: approvals.read(head, name) for name in removed}
    return decide(verdict, {**given, **of_removed}, datetime.now(UTC).date())


def _require_same(verdict: Verdict, file: Path, base: Path | None, context: Mapping[str, str]) -> None:
    """Raise ReviewError if the verdict was made from something else: it says nothing about this checkout."""
    compared = verdict.compared
    again = "Fix: run `ops review BASE --json` again"
    if compared.head != fingerprint(REPOSITORY):
        allowed = f"a verdict on {REPOSITORY} as it is now, with edits that are not committed"
        raise ReviewError(f"{file} was made from another head. Allowed: {allowed}. {again}")
    if base and compared.base != fingerprint(base):
        raise ReviewError(f"{file} was made from another base. Allowed: a verdict against {base} as it is now. {again}")
    if compared.context != context:
        given = ", ".join(f"{key}={value}" for key, value in compared.context.items()) or "none"
        raise ReviewError(f"{file} was made with other context. Allowed: {given}. Fix: give the same --context")
    if not compared.every_environment:
        raise ReviewError(
            f"{file} leaves environments out. Allowed: a verdict on all environments. Fix: write it without --env"
        )
