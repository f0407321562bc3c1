"""The command that rebuilds the Ray image."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from ops.cli import EnvName, app, errors, fail, load, say

image_app = typer.Typer(no_args_is_help=True, help="The Ray image that the cluster builds.")
app.add_typer(image_app, name="image")


class Output(StrEnum):
    """How the result is printed."""

    TEXT = "text"
    JSON = "json"


@image_app.command()
def build(
    env: EnvName = "dev",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and whether the API server accepts the Job.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="Follow the build for this many minutes; it continues afterwards.")
    ] = 130,
    output: Annotated[
        Output,
        typer.Option("--output", "-o", help="json: print one object to stdout at the end, everything else to stderr."),
    ] = Output.TEXT,
) -> None:
    """Rebuild the Ray image after a failed build: repeat the deployed Job and follow its log.

    It builds what is deployed. After a change of the Dockerfile or of the
    requirements, deploy the ray stack instead. Ctrl-C detaches; the build
    continues.

    Exit codes:
    - 0: the registry has the image
    - 1: not built in time, or refused (a build is running, or the local files
      produce another image)
    - 2: bad input or no access
    - 3: the build failed
    - 130: detached

    Examples:
    - `ops image build --env dev --dry-run`
    - `ops image build --env dev -o json | jq .tag`
    """
    from ops.change import image_build  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.change.image_build_log import Follower, elapsed  # noqa: PLC0415
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.item import State  # noqa: PLC0415

    environment = load(env)
    if not environment.image.built:
        fail(
            f"image.uri of {env} is {environment.image.uri}: there is nothing to build. Fix: remove image.uri to build"
        )
    tell = say if output is Output.TEXT else _aside
    try:
        with connect(environment) as clients:
            plan = image_build.plan(environment, clients)
            tell(plan.said)
            if plan.job is None:
                _end(output, tag=plan.tag, state=State.READY, detail=plan.said)
                return
            image_build.create(clients, plan.job, dry_run=dry_run)
            job = plan.job["metadata"]["name"]
            if dry_run:
                tell("dry run: the API server accepts the Job; none was created")
                _end(output, job=job, tag=plan.tag, state=State.WAITING, detail="dry run")
                return
            ended = Follower(environment, clients, tell, timeout * 60).follow(job)
    except image_build.BuildError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"detached; a started build continues: `ops wait --env {env}` shows its progress", code=130)
    _end(output, job=job, tag=plan.tag, state=ended.state, detail=ended.detail, seconds=round(ended.seconds))
    if ended.state is State.FAILED:
        fail(f"the build of tag {plan.tag} failed: {ended.detail}. Fix: see the log above", code=3)
    tell(f"{ended.detail}, after {elapsed(ended.seconds)}")


def _end(output: Output, **result: object) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(result))


def _aside(line: str) -> None:
    errors.print(line, soft_wrap=True, markup=False, highlight=False)
