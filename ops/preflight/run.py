"""Run the checks in parallel, and turn what keeps one from looking into its result."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

from botocore.exceptions import ClientError
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from config import Environment
from ops.errors import UnreachableError, in_plain_words
from ops.preflight.check import Check, CheckFinding, CheckResult, CheckStatus, failed, warned
from ops.preflight.here import Here

# Few enough that no service throttles an account that others use, too.
AT_ONCE: Final = 8
_REFUSED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "403"}
)
_ACTION: Final = re.compile(r"perform:? `?([a-z0-9-]+:[A-Za-z0-9*]+)")


def run(here: Here[Environment], checks: Sequence[Check], console: Console) -> list[CheckResult]:
    """Return the results in the order of the checks; a terminal shows the progress."""
    columns = (SpinnerColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    results: dict[Check, list[CheckResult]] = {}
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        task = progress.add_task("checks", total=len(checks))
        futures = {pool.submit(_results, check, here): check for check in checks}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                waiting = [check.title for check in checks if check not in results]
                progress.update(task, advance=1, description=", ".join(waiting[:2]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for check in checks for result in results[check]]


def _results(check: Check, here: Here[Environment]) -> list[CheckResult]:
    return [
        CheckResult(check.title, found.about, found.verdict, found.text, found.fix) for found in _findings(check, here)
    ]


def _findings(check: Check, here: Here[Environment]) -> Iterator[CheckFinding]:
    """Yield what the check finds. If it cannot look, end with a warning (no right) or a failure (no answer)."""
    try:
        with in_plain_words():
            yield from check.inspect(here)
    except UnreachableError as error:
        cause = error.__cause__
        if isinstance(cause, ClientError) and cause.response["Error"]["Code"] in _REFUSED:
            action = _action(cause)
            yield warned(f"no permission to read ({action})", f"let your role call {action}, and run the command again")
        else:
            text, _, fix = str(error).partition(". Fix: ")
            yield failed(f"not checked: {text}", fix or "run the command again")


def _action(refusal: ClientError) -> str:
    """Return the IAM action that AWS's message names, else the operation."""
    named = _ACTION.search(refusal.response["Error"].get("Message", ""))
    return named[1] if named else refusal.operation_name


def worst(results: Sequence[CheckResult]) -> CheckStatus:
    """Return the worst verdict of the table."""
    verdicts = {result.verdict for result in results}
    return next((each for each in (CheckStatus.FAIL, CheckStatus.WARN) if each in verdicts), CheckStatus.PASS)
