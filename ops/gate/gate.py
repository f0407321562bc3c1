"""Judge a pull request and decide whether it may be deployed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from config import available
from ops.gate import approvals
from ops.gate.approvals import ApprovalsError
from ops.gate.decision import Decision, decide
from ops.review.checkouts.inputs import ENVIRONMENTS
from ops.review.data import from_file
from ops.review.review import REPOSITORY, review


def gate(base: Path | None, verdict_file: Path | None, context: Mapping[str, str], *, console: Console) -> Decision:
    """Return the decision on this checkout against `base`, or on a verdict in a file.

    Raises ApprovalsError for an approvals file with errors, ReviewError if a side does not synthesise or a file cannot
    be read.
    """
    names = set(available(REPOSITORY / ENVIRONMENTS))
    given = {name: approvals.read(REPOSITORY, name) for name in names}
    verdict = from_file(verdict_file) if verdict_file else review(base or REPOSITORY, context=context, console=console)
    removed = {each.name for each in verdict.environments} - names
    if wrong := approvals.misplaced(REPOSITORY, sorted(names | removed)):
        raise ApprovalsError(wrong)
    given |= {name: approvals.read(REPOSITORY, name) for name in removed}
    return decide(verdict, given, datetime.now(UTC).date())
