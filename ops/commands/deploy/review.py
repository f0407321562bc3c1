"""Commands of reviews: what a deployment of a pull request will do, and whether it may."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops import completion, files
from ops.cli import app, aside, console, errors, fail, report, say, show
from ops.options import Context
from ops.output import Format, Output, emit

if TYPE_CHECKING:
    from ops.gate.decision import Decision
    from ops.review.model import Verdict


class ReportFormat(StrEnum):
    """A format of the report."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


_SUFFIXES = {".md": ReportFormat.MARKDOWN, ".html": ReportFormat.HTML, ".json": ReportFormat.JSON}


@app.command()
def review(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", exists=True, file_okay=False, help="Checkout to compare this one with.")
    ],
    *,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            envvar="OPS_ENV",
            metavar="NAME",
            autocompletion=completion.environments,
            help="Only this environment; repeatable. Default: all.",
        ),
    ] = None,
    context: Context = None,
    format_: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of the output: terminal, markdown, html or json. Default: terminal; markdown if piped.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    comment: Annotated[
        bool, typer.Option("--comment", help="Print Markdown that fits into a GitHub comment, its table complete.")
    ] = False,
    full_report: Annotated[
        str, typer.Option("--full-report", metavar="URL", help="Address of the whole report, for --comment.")
    ] = "",
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", metavar="FILE", help="Also write the whole report to a .html, .md or .json file."),
    ] = None,
) -> None:
    """Show what a deployment of this checkout will do, compared with BASE: effects, costs, who must act.

    It needs no credentials. Both checkouts must be set up
    (`./setup.sh runtime`). `ops gate` decides whether the change may be
    deployed.

    Exit codes:
    - 0: compared, whatever the verdict
    - 2: bad input, or a checkout does not synthesise
    - 130: interrupted

    Examples:
    - `ops review ../main`
    - `ops review ../main --env dev --env prod`
    - `ops review ../main --out review.html --out review.json --comment`
    - `ops review ../main --json`
    """
    from ops.review.checkouts.cdk import ReviewError  # noqa: PLC0415 - it would slow the start of `ops check`
    from ops.review.review import review as compare  # noqa: PLC0415

    chosen = _format(format_, as_json=as_json, comment=comment)
    pairs = context_pairs(context or [])
    if unknown := [file for file in out or [] if file.suffix not in _SUFFIXES]:
        fail(f"--out: {unknown[0]} is invalid. Allowed: a file that ends with {', '.join(_SUFFIXES)}")
    names = {name.removesuffix(".yaml") for name in env} if env else None
    try:
        verdict = compare(base.resolve(), context=pairs, environments=names, console=errors)
    except ReviewError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted: no verdict. Fix: rerun `ops review`", code=130)
    for file in out or []:
        _write(file, _text(verdict, _SUFFIXES[file.suffix]))
    if comment:
        from ops.review.report import markdown  # noqa: PLC0415

        page = next((str(file) for file in out or [] if file.suffix == ".html"), "")
        typer.echo(markdown.comment(verdict, full_report or page), nl=False)
    elif chosen is ReportFormat.TERMINAL:
        from ops.review.report import terminal  # noqa: PLC0415

        show(terminal.draw(verdict))
    else:
        # A program reads it: it is neither wrapped nor styled.
        typer.echo(_text(verdict, chosen), nl=False)


def _format(given: ReportFormat | None, *, as_json: bool, comment: bool) -> ReportFormat:
    short = {"--json": ReportFormat.JSON} if as_json else {}
    short |= {"--comment": ReportFormat.MARKDOWN} if comment else {}
    asked = {*short.values(), *({given} if given else ())}
    if len(asked) > 1:
        both = " and ".join([*short, *([f"--format {given}"] if given else [])])
        fail(f"{both} exclude each other. Fix: give one of them")
    default = ReportFormat.TERMINAL if console.is_terminal else ReportFormat.MARKDOWN
    return next(iter(asked), default)


def context_pairs(given: list[str]) -> dict[str, str]:
    """Return CDK context given as KEY=VALUE; exit with 2 if it has another form."""
    pairs = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            fail(f"--context: {pair!r} is invalid. Allowed: KEY=VALUE")
        pairs[key] = value
    return pairs


def _text(verdict: "Verdict", format_: ReportFormat) -> str:
    from ops.review import data  # noqa: PLC0415
    from ops.review.report import markdown, page  # noqa: PLC0415

    drawings = {ReportFormat.JSON: data.to_json, ReportFormat.HTML: page.page}
    return drawings.get(format_, markdown.report)(verdict)


def _write(file: Path, text: str) -> None:
    try:
        files.write(file, text)
    except OSError as error:
        fail(f"--out: {file} cannot be written: {error.strerror}. Fix: name a file in a folder that you may write to")


@app.command()
def gate(
    base: Annotated[
        Path | None,
        typer.Argument(metavar="BASE", exists=True, file_okay=False, help="Checkout to compare with."),
    ] = None,
    *,
    head: Annotated[
        Path | None,
        typer.Option(metavar="DIR", exists=True, file_okay=False, help="Checkout to review. Default: this one."),
    ] = None,
    context: Context = None,
    verdict_file: Annotated[
        Path | None,
        typer.Option("--review", help="Decide on the output of `ops review --json` on this checkout."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Stop changes that lose data or clusters, widen access or lower protection, unless a reviewed file approves them.

    Approvals are entries in environments/approvals/ENVIRONMENT.yaml, each for
    one change, which its digest identifies. What is unknown, unreadable,
    expired or unused stops as well.

    A pull request may change `ops` itself: to review it by the rules of its
    base, run the base's `ops` with `--head`.

    Exit codes:
    - 0: nothing needs an approval, or everything has one
    - 1: stopped
    - 2: bad input, or a checkout does not synthesise

    Examples:
    - `ops gate ../main`
    - `ops gate . --head ../pull-request`
    - `ops gate --review review.json`

    With `-o json` or `-o yaml`:

    ```json
    {"opens": false,
     "stopped": [{"environment": "dev", "stack": "hyperpod",
       "resource": "InstanceGroup gpu", "title": "instance group gpu",
       "what": "removed with 4 nodes", "effect": "nodes removed",
       "reason": "…", "dangers": ["group-removed"], "digest": "9f86…"}],
     "approved": [{"environment": "prod", "resource": "…", "by": ["…"]}],
     "errors": ["…"]}
    ```
    """
    from ops.gate.show import document, lines  # noqa: PLC0415

    if verdict_file and head:
        fail("--head and --review exclude each other. Fix: give one of them")
    decision = _decision(base, head, verdict_file, context_pairs(context or []))
    if output is Format.TABLE:
        for line in lines(decision):
            say(line)
    else:
        emit(document(decision), str, output)
    report(decision.errors)
    if not decision.opens:
        raise typer.Exit(1)


def _decision(base: Path | None, head: Path | None, verdict_file: Path | None, context: dict[str, str]) -> "Decision":
    """Return the gate's decision; exit with 2 if there is none."""
    from ops.gate import gate as gates  # noqa: PLC0415
    from ops.gate.approvals import ApprovalsError  # noqa: PLC0415
    from ops.review.checkouts.cdk import ReviewError  # noqa: PLC0415

    base, head = (side and side.resolve() for side in (base, head))
    try:
        if verdict_file:
            return gates.of_file(verdict_file, base, context)
        if base:
            return gates.of_checkouts(base, head, context, console=errors)
        fail("BASE is missing. Allowed: BASE, --review, or both")
    except (ApprovalsError, ReviewError) as error:
        if head:
            aside("The gate stays closed. If only newer rules can read the head, a maintainer decides.")
        if isinstance(error, ReviewError):
            fail(str(error))
        report(error.findings)
        raise typer.Exit(2) from error
