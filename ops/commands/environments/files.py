"""Commands on files, before a deployment: environments, files generated from them, charts."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

import config
from config import Environment
from config.facts.versions import SETS, SetName
from config.findings import Finding, Severity, shown
from config.load import Examined
from config.rules import ALL_RULES, findings_beside
from ops import completion
from ops.cli import (
    EnvName,
    OptionalEnv,
    app,
    charts_app,
    confirmed,
    console,
    errors,
    fail,
    is_interactive,
    load,
    load_all,
    of_eks,
    report,
    say,
    scripts_app,
    show,
)
from ops.environment import check as checked
from ops.options import Yes
from ops.output import Format, Output, emit

NewAccount = Annotated[str | None, typer.Option("--account", help="AWS account id, twelve digits.")]
NewRegion = Annotated[str | None, typer.Option("--region", help="AWS region.")]
NewZones = Annotated[
    list[str] | None, typer.Option("--zone", help="Zone id, such as usw2-az2. Repeat it for two or three zones.")
]
NewAdmins = Annotated[
    list[str] | None,
    typer.Option("--admin", help="ARN of an IAM role that administers Kubernetes. Repeat it for several."),
]
NewCidrs = Annotated[
    list[str] | None,
    typer.Option(
        "--cidr", help="Addresses that may reach the Kubernetes API, such as 203.0.113.0/24. Repeat it for several."
    ),
]


@app.command()
def check(
    env: OptionalEnv = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also query the existing EKS cluster (eks.existing) with your AWS credentials."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Validate environments; show the planned resources, their cost per hour, and warnings.

    Exit codes:
    - 0: no errors
    - 2: errors, or no access to the cluster (with --live)

    Examples:
    - `ops check`
    - `ops check --env prod`
    - `ops check -o json | jq '.[].findings'`

    With `-o json` or `-o yaml`, one item for each environment (`plan` is null
    if the file has errors):

    ```json
    [{"environment": "dev", "valid": true,
      "plan": {"account": "111122223333", "region": "us-west-2",
        "instance_groups": [{"name": "worker-group-1",
          "type": "ml.p5.48xlarge", "nodes": 4, "zone": "usw2-az2"}],
        "ray_clusters": [{"name": "rayml", "workers": {"gpu-group": 4}}],
        "cost": [{"what": "EKS control plane", "usd_per_hour": 0.1}],
        "asleep": [{"group": "worker-group-1", "usd_per_hour": 0.0}]},
      "findings": [{"rule": "V56", "kind": "warning",
        "file": "environments/dev.yaml", "line": 12, "key": "region",
        "reason": "…", "allowed": "…", "fix": "…", "accepted": ""}]}]
    ```
    """
    wrong = [] if env else config.misnamed()
    report(wrong)
    others, pairs, data = config.neighbours(of=env), set[tuple[str, ...]](), list[dict[str, Any]]()
    for name in [env] if env else config.available():
        examined = config.examine(name)
        environment = None if examined.errors else examined.environment
        found = list(examined.findings)
        if environment:
            found += _beside(examined, environment, others, pairs)
            found += examined.located(_live_findings(environment)) if live else []
        mistakes = [finding for finding in found if finding.severity is Severity.ERROR]
        if output is not Format.TABLE:
            data.append(checked.data(name, environment, found))
        elif environment:
            _shown(environment, [finding for finding in found if finding not in mistakes])
        report(mistakes)
        wrong += mistakes
    emit(data, None, output)
    if pairs:
        overlaps = "; ".join(" and ".join(pair) for pair in sorted(pairs))
        fail(f"two environments in one account and region use the same name: {overlaps}. Fix: rename one of each pair")
    if wrong:
        raise typer.Exit(2)


def _beside(
    examined: Examined, environment: Environment, others: list[Environment], pairs: set[tuple[str, ...]]
) -> Iterator[Finding]:
    """Yield what the other environments forbid, and add the pairs of environments that exclude each other."""
    for other in others:
        beside = examined.located(findings_beside(environment, [other]))
        if any(finding.severity is Severity.ERROR for finding in beside):
            pairs.add(tuple(sorted((environment.name, other.name))))
        yield from beside


def _live_findings(environment: Environment) -> list[Finding]:
    if environment.existing_eks is None:
        return []
    from ops.clients import connect  # noqa: PLC0415 - the AWS SDK would double the time to check files
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.kubeflow import findings  # noqa: PLC0415

    try:
        with connect(environment) as clients:
            return list(findings(environment, clients.kubernetes))
    except UnreachableError as error:
        fail(f"{environment.name}: {error}")


def _shown(environment: Environment, warnings: list[Finding]) -> None:
    console.print(f"[bold]{environment.name}: account {environment.account}, {environment.region}[/]\n", soft_wrap=True)
    show(checked.plan(environment))
    for line in checked.warning_lines(warnings):
        console.print(line, soft_wrap=True)
    console.print()


@app.command()
def explain(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE", autocompletion=completion.rules, help="Rule id, such as V55. Default: list all rules."
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Explain a rule: what it demands, why, its source and an example. Each finding ends with its rule's id.

    Exit codes:
    - 0: explained
    - 2: unknown rule

    Examples:
    - `ops explain`
    - `ops explain V55`

    With `-o json` or `-o yaml` (without RULE, a list of these):

    ```json
    {"rule": "V55", "kind": "warning", "what": "…", "why": "…",
     "source": "…", "example": "…"}
    ```
    """
    from ops.environment.explain import UnknownRuleError, data, explained, find, listed  # noqa: PLC0415

    if rule is None:
        emit([data(each) for each in ALL_RULES.values()], listed, output)
        return
    try:
        found = find(rule)
        emit(data(found), lambda: Group(*(Text(line, overflow="fold") for line in explained(found))), output)
    except UnknownRuleError as error:
        fail(str(error))


@app.command("new")
def new_environment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment and of its file.")],
    *,
    account: NewAccount = None,
    region: NewRegion = None,
    zone: NewZones = None,
    admin: NewAdmins = None,
    cidr: NewCidrs = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.examples,
            help=f"Copy an example: {', '.join(config.examples())}.",
        ),
    ] = None,
) -> None:
    """Write environments/NAME.yaml: a small, commented file with physical names that no other environment uses.

    In a terminal it asks for the values that no option gives. Otherwise the file has placeholders for them.

    Exit codes:
    - 0: written
    - 2: bad input, or the file exists

    Examples:
    - `ops new team-a`
    - `ops new team-b --like closed --account 111122223333 --region us-west-2
      --zone usw2-az2 --zone usw2-az1 --cidr 203.0.113.0/24
      --admin arn:aws:iam::111122223333:role/PlatformAdmin`
    """
    from ops.environment import new  # noqa: PLC0415

    title = f"Environment {name}, copied from the example {like}." if like else f"Environment {name}."
    try:
        target = new.target(name)
        given = _accepted(like, name, (account, region, zone, admin, cidr))
        if is_interactive():
            from ops.environment.questions import answered  # noqa: PLC0415

            given = answered(like, name, given)
        document = new.document_of(like, name, given)
        left = new.write(document, target, title)
    except new.NewError as error:
        fail(str(error))
    _written(target, left)
    _explain_versions(document.get("versions"))


def _accepted(like: str | None, name: str, options: tuple[str | list[str] | None, ...]) -> dict[str, Any]:
    """Return the given options by their keys in the file; report what `ops check` would refuse, and exit with 2."""
    from ops.environment import new  # noqa: PLC0415

    given = {key: value for key, value in zip(new.INPUTS, options, strict=False) if value is not None}
    if found := new.refused(like, name, given):
        report(found)
        raise typer.Exit(2)
    return given


@app.command("migrate")
def migrate(
    env: OptionalEnv = None,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the differences and write nothing.")] = False,
) -> None:
    """Rewrite environment files of an earlier schema: show the difference, ask, write. Comments and order stay.

    It writes no file that `ops check` would refuse.

    Exit codes:
    - 0: done, or nothing to do
    - 1: not confirmed
    - 2: a file has other errors, and was not changed

    Examples:
    - `ops migrate --dry-run`
    - `ops migrate --env dev --yes`
    """
    from ops.environment.migrate import plan as planned  # noqa: PLC0415

    for name in [env] if env else config.available():
        examined = config.examine(name)
        if examined.document is None:
            report(examined.errors)
            raise typer.Exit(2)
        migration = planned(examined.file, examined.document)
        if migration is None:
            say(f"{shown(examined.file)}: nothing to migrate")
            continue
        for line in migration.described():
            say(line)
        if migration.errors:
            report(migration.errors)
            fail(f"{shown(examined.file)} was not changed: it has other errors. Fix: correct them, then rerun")
        if dry_run:
            continue
        if not yes and not confirmed(f"Write {shown(examined.file)}?"):
            fail(f"{shown(examined.file)} was not changed: not confirmed. Fix: answer y, or give --yes", code=1)
        migration.write()
        say(f"{shown(examined.file)} written")


@app.command("import")
def import_cluster(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON file that was given to `aws sagemaker create-cluster`.")
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the environment and of its file.")],
    parameters: Annotated[
        Path | None,
        typer.Option(
            "--parameters",
            metavar="FILE",
            help="The provisioning_parameters.json of a cluster that Slurm orchestrates.",
        ),
    ] = None,
    account: NewAccount = None,
    region: NewRegion = None,
    zone: NewZones = None,
) -> None:
    """Write environments/NAME.yaml with the instance groups of a cluster-config.json; warn about what is left out.

    Exit codes:
    - 0: written
    - 2: bad input, or the file exists

    Examples:
    - `ops import cluster-config.json --name team-a`
    - `ops import cluster-config.json --name team-b
      --parameters provisioning_parameters.json`
    """
    from ops.environment import cluster_config, new, provisioning_parameters  # noqa: PLC0415

    try:
        target = new.target(name)
        imported = cluster_config.read(file)
        read = provisioning_parameters.read(parameters) if parameters else None
        given = _accepted("slurm" if read or imported.of_slurm else None, name, (account, region, zone))
        if read or imported.of_slurm:
            document = new.copy_of("slurm", name, given)
            if account is None:
                new.forget_account(document)
            cluster_config.put_into_slurm(document, imported, read)
        else:
            document = new.template(name, given)
            cluster_config.put_into(document, imported)
        left = new.write(document, target, f"Imported from {file.name}.")
    except new.NewError as error:
        fail(str(error))
    messages = [f"{file}: {note}" for note in imported.notes]
    messages += [f"{parameters}: {note}" for note in (read.notes if read else ())]
    for note in messages:
        errors.print(f"[yellow]warning:[/] {escape(note)}", soft_wrap=True, highlight=False)
    _written(target, left)


@app.command()
def schema(
    check_only: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file is stale.")] = False,
) -> None:
    """Write the files generated from models and rules: environments/schema.json and pages of docs/reference/.

    Exit codes:
    - 0: up to date
    - 1: a file is stale (with --check)

    Examples:
    - `ops schema`
    - `ops schema --check`
    """
    from ops.environment import schema as files  # noqa: PLC0415

    stale = files.stale() if check_only else files.write()
    for path in stale:
        say(f"{path} {'is stale' if check_only else 'written'}")
    if check_only and stale:
        fail("these files are stale. Fix: run `ops schema` and commit what it writes", code=1)


@app.command("manifests")
def write_manifests(
    env: OptionalEnv = None,
    check_only: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file is stale.")] = False,
) -> None:
    """Render every Kubernetes object and Helm values file of environments/ to `manifests/<environment>/`.

    Exit codes:
    - 0: up to date
    - 1: a file is stale (with --check)
    - 2: bad input

    Examples:
    - `ops manifests`
    - `ops manifests --env dev --check`
    """
    if env and env not in config.available() and env in config.examples():
        fail(f"{env} is an example: manifests/ holds environments/ only. Fix: `ops new NAME --like {env}`")
    if env:
        load(env)
    from ops.cdk import NODE  # noqa: PLC0415

    os.environ.setdefault("JSII_NODE", str(NODE))
    from ops.render import manifests  # noqa: PLC0415 - jsii starts a Node process, the locked one

    stale: list[Path] = []
    # Nodes of Slurm run no Kubernetes objects.
    for environment in of_eks(load_all([env] if env else config.available())):
        stale += manifests.stale(environment) if check_only else manifests.write(environment)
    if env is None:
        abandoned = manifests.abandoned(config.available())
        for path in abandoned if not check_only else ():
            path.unlink()
        stale += abandoned
    for path in stale:
        verb = "is stale" if check_only else "written" if path.exists() else "removed"
        say(f"{path} {verb}")
    if check_only and stale:
        fail("manifests/ is stale. Fix: run `make manifests` and commit what it writes", code=1)


@app.command("images")
def list_images(
    env: EnvName,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print source and copy in two columns, as input for `crane copy`.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """List the images from public registries, and their copies in the environment's `image_registry`.

    Exit codes:
    - 0: listed
    - 2: bad input, or --plain without an `image_registry`

    Examples:
    - `ops images --env closed`
    - `ops images --env closed --plain`

    With `-o json` or `-o yaml` (`copy` is null if the image is pulled from its
    publisher):

    ```json
    [{"image": "quay.io/kuberay/operator:v1.2.0",
      "used_by": "KubeRay operator",
      "copy": "registry.example.com/kuberay/operator:v1.2.0"}]
    ```
    """
    from ops.mirror import images  # noqa: PLC0415
    from ops.mirror.errors import MirrorError  # noqa: PLC0415

    environment = load(env)
    if not plain:
        emit(images.data(environment), lambda: images.table(environment), output)
        return
    try:
        copies = images.copies(environment)
    except MirrorError as error:
        fail(str(error))
    for source, target in copies:
        typer.echo(f"{source}\t{target}")


@charts_app.command("fetch")
def fetch_charts(
    mirror: Annotated[
        str | None,
        typer.Option(
            help="Base URL of a mirror, used instead of the publishers' hosts; oci://REGISTRY after `ops mirror`."
        ),
    ] = None,
) -> None:
    """Download the charts of config/facts/charts.lock.yaml into the cache and verify their digests.

    Exit codes:
    - 0: all charts are in the cache
    - 2: a host does not answer, or a digest differs

    Examples:
    - `ops charts fetch`
    - `ops charts fetch --mirror https://mirror.example.com`
    - `ops charts fetch --mirror oci://registry.example.com/mirror`
    """
    from ops.render import charts  # noqa: PLC0415

    try:
        for line in charts.fetch(mirror=mirror):
            console.print(line, soft_wrap=True, highlight=False)
    except charts.ChartError as error:
        fail(str(error))


@scripts_app.command("fetch")
def fetch_scripts(
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", file_okay=False, help="Folder of the project to make.")
    ] = Path("lifecycle_scripts/base-config"),
    mirror: Annotated[
        str | None, typer.Option(help="Base URL of a mirror, used instead of the publisher's host.")
    ] = None,
) -> None:
    """Download the publishers' lifecycle scripts of config/facts/scripts.lock.yaml and verify their tree.

    To use them, name the folder in `lifecycle_scripts` of each instance
    group, with `slurm.configuration: provisioning_parameters`.

    Exit codes:
    - 0: the folder is there, as pinned
    - 2: the host does not answer, or the tree differs

    Examples:
    - `ops scripts fetch`
    - `ops scripts fetch --mirror https://mirror.example.com`
    """
    from config.facts.scripts_lock import ScriptsError  # noqa: PLC0415
    from ops.slurm import scripts  # noqa: PLC0415

    try:
        say(scripts.fetch(into, mirror))
    except ScriptsError as error:
        fail(str(error))


def _explain_versions(chosen: SetName | None) -> None:
    """Say what the set of versions of a new environment means, and which others there are; none on Slurm."""
    for name, each in SETS.items() if chosen else ():
        state = "chosen" if name == chosen else "to choose instead"
        say(f"{state}: versions: {name}, Ray {each.ray}. {each.gains}")


def _written(file: Path, placeholders: list[str]) -> None:
    say(f"{file} written")
    if placeholders:
        say(f"fill in: {', '.join(placeholders)}")
    console.print(f"next: `ops check --env {file.stem}`", markup=False, highlight=False)
