"""Commands of deliveries: the plan of a reviewed deployment, and drift from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from ops.cli import EnvName, app, fail, load_any, say
from ops.output import Format, Output, emit, teller


@app.command()
def plan(
    env: EnvName,
    app_: Annotated[
        Path, typer.Option("--app", metavar="FOLDER", help="The folder with the finished synthesis.")
    ] = Path("cdk.out"),
    expect: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Refuse unless the plan still has this digest.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what a deployment would change and do, and the digest that identifies the plan.

    Its effects are those of `ops review`, compared with what is deployed:
    what happens to jobs, nodes and data, the costs, and who must act. The
    digest covers the deployed and the new templates. With `--expect`, a
    deployment after a review makes sure that both are still those of the
    reviewed plan. The command changes nothing.

    Exit codes:
    - 0: done
    - 1: the plan does not have the expected digest
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops plan --env dev`
    - `ops plan --env prod --app cdk.out --expect 5d41…`

    With `-o json` or `-o yaml`:

    ```json
    {"environment": "dev", "digest": "5d41…", "stacks": [
      {"stack": "rayhp-dev-eks", "exists": true, "changes": [
        {"change": "add", "type": "AWS::EKS::Addon", "logical_id": "Dns"}]}],
     "effects": [{"stack": "eks", "title": "EKS add-on Dns", "what": "new",
       "effect": "created", "reason": "", "action": "", "dangers": []}]}
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.delivery import effects  # noqa: PLC0415
    from ops.delivery import plan as plans  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.review.checkouts.cdk import ReviewError  # noqa: PLC0415

    environment = load_any(env)
    try:
        made = plans.plan(environment, CallerAccount(environment).client("cloudformation"), app_)
        verdict = effects.verdict(environment, made, app_)
    except (plans.AssemblyError, ReviewError, UnreachableError) as error:
        fail(str(error))
    found = plans.digest(made)
    stacks = [
        {"stack": each.name, "exists": each.deployed is not None, "changes": [asdict(c) for c in each.changes()]}
        for each in made
    ]

    def tables() -> Group:
        from ops.review.report import terminal  # noqa: PLC0415

        drawn = Table("stack", "change", "type", "logical id", box=None, pad_edge=False)
        for each in made:
            for change in each.changes():
                drawn.add_row(each.name, change.change, change.type, change.logical_id)
        return Group(terminal.effects(verdict), "", drawn)

    emit({"environment": env, "digest": found, "stacks": stacks, "effects": effects.rows(verdict)}, tables, output)
    teller(output)(f"digest: {found}")
    if expect is not None and expect != found:
        fail(
            f"{env}: the plan has changed since the review, whose digest is {expect}. Fix: review the new plan", code=1
        )


@app.command()
def drift(env: EnvName, output: Output = Format.TABLE) -> None:
    """Compare what runs with what was deployed: resources, HyperPod cluster, Helm releases, Ray pods.

    It changes nothing, but it starts CloudFormation's drift detection, which
    needs rights to read each resource. A part without an answer is an error,
    never "no drift".

    Exit codes:
    - 0: no drift
    - 1: something differs from what was deployed
    - 2: bad input, no access, or nothing is deployed
    - 130: interrupted

    Examples:
    - `ops drift --env dev`
    - `ops drift --env prod -o json`

    With `-o json` or `-o yaml`:

    ```json
    {"environment": "dev",
     "drift": [{"kind": "AWS::Logs::LogGroup", "name": "rayhp-dev-eks/Log",
       "detail": "/RetentionInDays is 7, deployed 30"}],
     "not_compared": ["stack rayhp-dev-ray does not exist"]}
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.drift import show  # noqa: PLC0415
    from ops.drift.search import search  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415

    environment = load_any(env)
    try:
        drifts = search(environment, CallerAccount(environment).client)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted. Fix: rerun `ops drift --env {env}`", code=130)
    if drifts.found or output is not Format.TABLE:
        emit(show.document(env, drifts), lambda: show.table(drifts), output)
    if output is Format.TABLE:
        for line in drifts.not_compared:
            say(f"not compared: {line}")
    if drifts.found:
        differs = f"{len(drifts.found)} differ from what was deployed"
        fail(f"{env}: {differs}. Fix: deploy again, or make the change in the environment file", code=1)
    teller(output)(f"{env}: no drift" + (" in what was compared" if drifts.not_compared else ""))
