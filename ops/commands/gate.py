"""`ops gate`: stop a pull request whose changes nobody approved."""

from pathlib import Path
from typing import Annotated

import typer

from ops.cli import app, errors, fail, report, say
from ops.commands.review import context_pairs
from ops.output import Format, Output, emit


@app.command()
def gate(
    base: Annotated[
        Path | None,
        typer.Argument(metavar="BASE", exists=True, file_okay=False, help="Checkout to compare this one with."),
    ] = None,
    *,
    context: Annotated[
        list[str] | None, typer.Option("--context", "-c", help="CDK context for both syntheses, as KEY=VALUE.")
    ] = None,
    verdict_file: Annotated[
        Path | None,
        typer.Option("--review", help="Decide on the output of `ops review --json` instead of comparing again."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Stop changes that lose data or clusters, widen access or lower protection, unless a reviewed file approves them.

    Approvals are entries in environments/approvals/ENVIRONMENT.yaml. What is
    unknown, unreadable, expired or unused stops as well.

    Exit codes:
    - 0: nothing needs an approval, or everything has one
    - 1: stopped
    - 2: bad input, or a checkout does not synthesise

    Examples:
    - `ops gate ../main`
    - `ops gate --review review.json`

    With `-o json` or `-o yaml`:

    ```json
    {"opens": false,
     "stopped": [{"environment": "dev", "resource": "InstanceGroup gpu",
       "title": "instance group gpu", "what": "removed with 4 nodes",
       "effect": "nodes removed", "reason": "…",
       "dangers": ["group-removed"]}],
     "approved": [{"environment": "prod", "resource": "…", "by": ["…"]}],
     "errors": ["…"]}
    ```
    """
    from ops.gate import gate as gates  # noqa: PLC0415
    from ops.gate.approvals import ApprovalsError  # noqa: PLC0415
    from ops.gate.show import document, lines  # noqa: PLC0415
    from ops.review.checkouts.cdk import ReviewError  # noqa: PLC0415

    if (base is None) == (verdict_file is None):
        fail("BASE or --review is missing, or both are given. Allowed: exactly one of them")
    try:
        decision = gates.gate(base and base.resolve(), verdict_file, context_pairs(context or []), console=errors)
    except ApprovalsError as error:
        report(error.findings)
        raise typer.Exit(2) from error
    except ReviewError as error:
        fail(str(error))
    if output is Format.TABLE:
        for line in lines(decision):
            say(line)
    else:
        emit(document(decision), str, output)
    report(decision.errors)
    if not decision.opens:
        raise typer.Exit(1)
