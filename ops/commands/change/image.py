"""The command that rebuilds the Ray image."""

from typing import Annotated

import typer

from ops.cli import Application, EnvName, app, fail, load
from ops.durations import Duration, duration, elapsed
from ops.output import Format, Output, emit, teller

image_app = Application(help="The Ray image that the cluster builds.")
app.add_typer(image_app, name="image")


@image_app.command()
def build(
    env: EnvName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and whether the API server accepts the Job.")
    ] = False,
    timeout: Annotated[
        Duration,
        typer.Option(
            parser=duration, metavar="DURATION", help="Follow the build for this time; it continues afterwards."
        ),
    ] = Duration(130 * 60),
    output: Output = Format.TABLE,
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

    With `-o json` or `-o yaml`, the log goes to standard error:

    ```json
    {"tag": "1f0c2d9a51e3", "job": "aws-ray-custom-x7k2p",
     "state": "ready", "detail": "image pushed", "seconds": 840}
    ```
    """
    from ops.change import image_build  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.change.image_build_log import BuildFollower  # noqa: PLC0415
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.item import ReadinessState  # noqa: PLC0415

    environment = load(env)
    if not environment.image.built:
        fail(
            f"image.uri of {env} is {environment.image.uri}: there is nothing to build. Fix: remove image.uri to build"
        )
    tell = teller(output)
    try:
        with connect(environment) as clients:
            plan = image_build.plan(environment, clients)
            tell(plan.summary)
            if plan.job is None:
                emit(_data(plan.tag, "", ReadinessState.READY.value, plan.summary), None, output)
                return
            image_build.create(clients, plan.job, dry_run=dry_run)
            job = plan.job["metadata"]["name"]
            if dry_run:
                tell("dry run: the API server accepts the Job; none was created")
                emit(_data(plan.tag, job, ReadinessState.WAITING.value, "dry run"), None, output)
                return
            ended = BuildFollower(environment, clients, tell, timeout.seconds).follow(job)
    except image_build.BuildError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"detached; a started build continues: `ops wait --env {env}` shows its progress", code=130)
    emit(_data(plan.tag, job, ended.state.value, ended.detail, ended.seconds), None, output)
    if ended.state is ReadinessState.FAILED:
        fail(f"the build of tag {plan.tag} failed: {ended.detail}. Fix: see the log above", code=3)
    tell(f"{ended.detail}, after {elapsed(ended.seconds)}")


def _data(tag: str, job: str, state: str, detail: str, seconds: float = 0) -> dict[str, str | int]:
    """Return the result as data for programs; `job` is empty if no Job was needed."""
    return {"tag": tag, "job": job, "state": state, "detail": detail, "seconds": round(seconds)}
