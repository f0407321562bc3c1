"""The end of an environment: `ops destroy` and `ops sweep`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text

from ops.cli import EnvName, app, confirmed, fail, load, load_any, say
from ops.options import DryRun, Force, Yes
from ops.output import Format, Output, emit


@app.command()
def destroy(
    env: EnvName,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="With --dry-run: table for people; json or yaml for programs.")
    ] = Format.TABLE,
) -> None:
    """Destroy an environment's stacks: show what goes and what stays, ask, run `cdk destroy`.

    It names the data that is deleted for good before it asks. It synthesises
    nothing, so it needs no charts. Stacks with termination protection stay.
    Rerun the command to resume after an interruption: CloudFormation knows
    what is left.

    Exit codes:
    - 0: destroyed, or there is nothing to destroy
    - 1: refused: not confirmed, a job runs, or a stack is being changed
    - 2: bad input or no access
    - 3: a stack could not be deleted
    - 130: interrupted

    Examples:
    - `ops destroy --env dev --dry-run`
    - `ops destroy --env dev`

    With `--dry-run` and `-o json` or `-o yaml`:

    ```json
    {"going": [{"stack": "rayhp-dev-ray", "status": "CREATE_COMPLETE",
       "resources": {"IAM::Role": 3}, "notable": []}],
     "data": ["file system fs-0123456789abcdef0"],
     "staying": [{"title": "…", "reason": "…", "holds_data": false,
       "usd_per_hour": 0.35}]}
    ```
    """
    from ops.destroy import show, steps  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    environment = load_any(env)
    with _reported(f"CloudFormation finishes what it has begun; rerun `ops destroy --env {env}` to resume"):
        if dry_run:
            made = steps.plan_destroy(environment)
            emit(show.document(made), lambda: Text("\n".join(show.lines(made, environment))), output)
            return
        steps.destroy(environment, say, yes=yes, force=force)
    say(f"`ops sweep --env {env}` lists what no stack owned")


@app.command()
def sweep(
    env: EnvName,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    data: Annotated[
        bool,
        typer.Option("--data", help="Also remove what holds data, such as file systems and snapshots."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """List what an environment left in its account and no stack owns; remove it after a question.

    It offers only what no existing stack of the environment can still use.

    Exit codes:
    - 0: nothing is left, or only listed (--dry-run)
    - 1: something is left: not confirmed, refused by AWS, or it holds data
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops sweep --env dev --dry-run`
    - `ops sweep --env dev --data --yes`

    With `-o json` or `-o yaml` (`usd_per_month` is null without a price):

    ```json
    {"leftovers": [{"kind": "log group", "id": "/aws/…",
       "reason": "…", "holds_data": true, "usd_per_month": 0.5}],
     "not_seen": ["…"]}
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415
    from ops.errors import in_plain_words  # noqa: PLC0415
    from ops.sweep import show  # noqa: PLC0415
    from ops.sweep.leftover import Surface  # noqa: PLC0415
    from ops.sweep.sweep import find, remove  # noqa: PLC0415

    environment = load(env)
    with _reported(f"rerun `ops sweep --env {env}` to resume"), in_plain_words():
        found = find(Surface(environment, CallerAccount(environment).client))
        if found.leftovers or output is not Format.TABLE:
            emit(show.document(found.leftovers, found.not_seen), lambda: show.table(found.leftovers), output)
        else:
            say(f"{env}: nothing is left")
        for line in found.not_seen if output is Format.TABLE else ():
            say(f"warning: {line}")
        if dry_run:
            return
        offered = [each for each in found.leftovers if data or not each.holds_data]
        if offered and not yes and not confirmed(f"Remove {len(offered)} of them?"):
            fail("not confirmed: nothing was removed. Fix: answer y, or give --yes", code=1)
        failed = remove(offered, lambda line: typer.echo(line, err=True))
    if failed:
        fail(f"AWS refused to remove {len(failed)}: {'; '.join(failed)}. Fix: remove what uses it, then rerun", code=1)
    if left := len(found.leftovers) - len(offered):
        fail(f"{left} that hold data are left. Fix: save what you need, then give --data", code=1)


@contextmanager
def _reported(interrupted: str) -> Iterator[None]:
    """Report why a destroy was refused or failed; after Ctrl-C print `interrupted`."""
    from ops.destroy.run import DestroyFailedError  # noqa: PLC0415
    from ops.errors import RefusedError, UnreachableError  # noqa: PLC0415

    try:
        yield
    except RefusedError as error:
        fail(str(error), code=1)
    except DestroyFailedError as error:
        fail(str(error), code=3)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; {interrupted}", code=130)
