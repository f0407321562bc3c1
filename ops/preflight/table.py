"""Show the results: a table for people, plain data for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from config import Environment
from ops.preflight.check import CheckResult, CheckStatus

_SIGN: Final = {
    CheckStatus.PASS: "[green]✔ pass[/]",
    CheckStatus.WARN: "[yellow]! warn[/]",
    CheckStatus.FAIL: "[bold red]✘ fail[/]",
}

_TITLE: Final = 18
"""Width of the titles: names of resources must fit beside them in 80 columns."""


def table(results: Sequence[CheckResult]) -> Table:
    """Return the table of all checks."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("", no_wrap=True)
    drawn.add_column("check", max_width=_TITLE)
    drawn.add_column("found")
    title = ""
    for result in results:
        # A check's title stands once, at the first of its rows.
        shown, title = "" if result.title == title else result.title, result.title
        found = f"{result.about}: {result.found}" if result.about else result.found
        drawn.add_row(_SIGN[result.verdict], escape(shown), escape(found))
    return drawn


def fixes(results: Sequence[CheckResult]) -> Iterator[str]:
    """Yield what mends each row, below the table: a command in a cell would be wrapped, and could not be copied."""
    mended = [result for result in results if result.fix]
    yield ""
    if mended:
        yield "To mend:"
        for result in mended:
            yield f"  {result.check}:"
            yield f"    {result.fix}"
        yield ""


def summary(results: Sequence[CheckResult]) -> str:
    """Return the number of rows by verdict, such as `12 pass, 1 warn, 2 fail`."""
    counted = Counter(result.verdict for result in results)
    return ", ".join(f"{counted[verdict]} {verdict}" for verdict in CheckStatus)


def data(environment: Environment, results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the results as plain data."""
    return {
        "environment": environment.name,
        "account": environment.account,
        "region": environment.region,
        "checks": [
            {"check": each.check, "verdict": each.verdict.value, "found": each.found, "fix": each.fix}
            for each in results
        ],
    }
