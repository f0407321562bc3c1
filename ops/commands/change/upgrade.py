"""The command that brings a deployed environment to other versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text

from config.facts.versions import SetName
from ops.cli import EnvName, app, fail, load, report, say
from ops.commands.change.running import changing, require_one
from ops.durations import Duration, Timeout
from ops.options import Checkpoint, DryRun, Force, Yes
from ops.output import Format, emit


@app.command()
def upgrade(
    env: EnvName,
    to: Annotated[
        SetName | None,
        typer.Option(help="Set of versions to write into the environment's file. Default: what the file says."),
    ] = None,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    checkpoint: Checkpoint = False,
    timeout: Timeout = Duration(3 * 3600),
    output: Annotated[
        Format, typer.Option("-o", "--output", help="With --dry-run: table for people; json or yaml for programs.")
    ] = Format.TABLE,
) -> None:
    """Bring a deployed environment to other versions of KubeRay and Ray, or to the next Kubernetes.

    It compares what is deployed with the file, shows each step and what it
    does to jobs, data and the bill, asks, and carries the steps out: KubeRay's
    CRDs before its operator, the Ray image before the pods. To an older
    KubeRay it goes the other way round. Rerun the command to resume after an
    interruption; an older set is the way back.

    Before it changes anything, it refuses what would lose objects or their
    values, more than one minor version of Kubernetes, and running jobs whose
    pods would be replaced (`--checkpoint` lets them save first).

    Exit codes:
    - 0: done, or nothing was left to do
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 3: a deployment or the image's build failed
    - 130: interrupted

    Examples:
    - `ops upgrade --env dev --to fixed --dry-run`
    - `ops upgrade --env dev --to fixed --checkpoint`
    - `ops upgrade --env dev`

    With `--dry-run` and `-o json` or `-o yaml`:

    ```json
    {"environment": "dev",
     "file": {"name": "dev.yaml", "changes": ["-  version: 2.42.1"]},
     "deployed": {"kubernetes": "1.35", "kuberay": "1.2.0", "ray": ["2.42.1"]},
     "wanted": {"kubernetes": "1.35", "kuberay": "1.2.0", "ray": ["2.56.1"]},
     "steps": [{"step": "pods", "what": "…", "command": "…", "jobs": "…",
       "data": "…", "bill": "…"}],
     "others": ["rayhp-dev-hyperpod"]}
    ```
    """
    from ops.upgrade import steps  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    require_one(checkpoint=checkpoint, force=force)
    environment = load(env)
    with _reported(f"rerun `ops upgrade --env {env}` to resume"):
        if dry_run:
            with steps.planned(environment, to) as made:
                emit(steps.document(made), lambda: Text("\n".join(steps.describe(made))), output)
            if output is Format.TABLE:
                say("dry run: nothing was changed")
            return
        steps.upgrade(environment, to, say, yes=yes, force=force, checkpoint=checkpoint, timeout=timeout.seconds)


@contextmanager
def _reported(again: str) -> Iterator[None]:
    """Report why an upgrade was refused or failed, as `changing` does."""
    from config.findings import ConfigError, InvalidEnvironmentError  # noqa: PLC0415
    from ops.review.checkouts.cdk import ReviewError  # noqa: PLC0415
    from ops.upgrade.steps import UpgradeFailedError  # noqa: PLC0415

    try:
        with changing(again):
            yield
    except UpgradeFailedError as error:
        fail(str(error), code=3)
    except InvalidEnvironmentError as error:
        report(error.findings)
        raise typer.Exit(2) from None
    except (ConfigError, ReviewError) as error:
        fail(str(error))
