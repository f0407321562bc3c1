"""The command that fills a private registry."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli import EnvName, app, confirmed, errors, fail, load, say
from ops.options import DryRun, Yes
from ops.output import Format, Output, emit, teller

if TYPE_CHECKING:
    from config import EksEnvironment


@app.command()
def mirror(
    env: EnvName,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="REGISTRY", help="Host, optionally with a path. Default: image_registry."),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the `crane copy` commands of the images, for another machine.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Copy an environment's images and charts to a private registry.

    Images keep their digests, with all platforms; charts become OCI
    artefacts below `charts/`. What is there with the same digest is skipped,
    so a rerun resumes. Nothing is overwritten. ECR repositories that are
    missing in the environment's account are created after a question.

    It needs the charts (`ops charts fetch`) and Go, which builds crane once.

    Exit codes:
    - 0: every copy is there, or only listed (--dry-run, --print)
    - 1: refused: a tag has moved, or not confirmed
    - 2: bad input, no access to AWS or to a registry, no Go
    - 3: a copy failed or is broken
    - 130: interrupted; rerun to resume

    Examples:
    - `ops mirror --env closed --dry-run`
    - `ops mirror --env dev --to registry.example.com/mirror`
    - `ops mirror --env closed --print > copy.sh`

    With `-o json` or `-o yaml`:

    ```json
    {"registry": "registry.example.com/mirror", "dry_run": false,
     "repositories": [],
     "copies": [{"kind": "image",
       "source": "quay.io/kuberay/operator:v1.2.0",
       "copy": "registry.example.com/mirror/kuberay/operator:v1.2.0",
       "digest": "sha256:…", "state": "copied"}]}
    ```
    """
    from ops.mirror import plan, show  # noqa: PLC0415 - only this command needs them

    environment = load(env)
    registry = _registry(environment, to)
    images = plan.images(environment, registry)
    if print_only:
        for line in show.commands(images):
            typer.echo(line)
        return
    from ops.errors import UnreachableError, in_plain_words  # noqa: PLC0415 - the AWS SDK doubles the start-up time
    from ops.mirror import crane, ecr  # noqa: PLC0415
    from ops.mirror.errors import MirrorError  # noqa: PLC0415
    from ops.mirror.run import run  # noqa: PLC0415
    from ops.render.charts import ChartError  # noqa: PLC0415

    tell = teller(output)
    try:
        with ExitStack() as stack, in_plain_words():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ops-mirror-")))
            wanted = [*images, *plan.charts(registry, scratch)]
            program = crane.ensure()
            registries = ecr.of(environment, wanted)
            lacking = registries.missing_repositories()
            with registries.logged_in() as variables:
                copier = crane.Crane(program, variables)
                copies = plan.compare(copier, wanted)
                if not dry_run:
                    if lacking and not yes and not confirmed(f"Create {len(lacking)} ECR repositories?"):
                        fail("not confirmed: nothing was copied. Fix: answer y, or give --yes", code=1)
                    for name in lacking:
                        registries.create(name)
                        tell(f"repository {name}: created")
                    copies = run(copier, copies, tell, errors)
    except MirrorError as error:
        fail(str(error), error.code)
    except (ChartError, UnreachableError) as error:
        fail(str(error))
    found = show.data(registry, copies, lacking, planned=dry_run)
    emit(found, (lambda: show.table(copies, lacking)) if dry_run else None, output)
    if not dry_run and output is Format.TABLE:
        say(f"{registry} holds the {len(copies)} images and charts of {env}")


def _registry(environment: "EksEnvironment", to: str | None) -> str:
    """Return where the copies go; exit with 2 if nothing says it, or if `to` is no registry."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from config.model.environment import Registry  # noqa: PLC0415

    if to is None:
        if environment.image_registry is None:
            fail(f"{environment.name} has no image_registry. Fix: set image_registry, or give --to REGISTRY")
        return environment.image_registry
    try:
        return TypeAdapter(Registry).validate_python(to)
    except ValidationError:
        fail(f"--to: {to} is invalid: it is no registry. Allowed: HOST, HOST:PORT or HOST/PATH, without https://")
