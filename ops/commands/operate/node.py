"""Commands on HyperPod's nodes: list, shell, drain, reboot, replace, check."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from config import EksEnvironment, Environment, SlurmEnvironment
from ops.cli import Application, EnvName, agreed, app, fail, load_any, say
from ops.commands.change.running import require_one
from ops.commands.operate import slurm
from ops.durations import Duration, duration
from ops.options import Checkpoint, DryRun, Force, Yes
from ops.output import Format, Output, emit

if TYPE_CHECKING:
    from ops.clients import Clients
    from ops.nodes.listing import ClusterNode

node_app = Application(help="HyperPod's nodes.")
app.add_typer(node_app, name="node")

Described = Callable[[], None]
"""A function of which only the name and the docstring are used."""

NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="Instance id, or the node's name in Kubernetes or Slurm.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return as soon as HyperPod has accepted the request.")]
Timeout = Annotated[
    Duration, typer.Option(parser=duration, metavar="DURATION", help="Stop following after this time, such as 90m.")
]


@node_app.command("list")
def list_nodes(env: EnvName, output: Output = Format.TABLE) -> None:
    """List the nodes with their health labels and Ray pods, or with their names in Slurm and addresses.

    In an environment with `slurm`, a node's data are `instance`, `name`,
    `address`, `group`, `role`, `partition`, `type`, `status`, `software` and
    `message`.

    Exit codes:
    - 0: listed
    - 2: bad input or no access

    Examples:
    - `ops node list --env dev`
    - `ops node list --env dev -o json`

    With `-o json` or `-o yaml`:

    ```json
    [{"instance": "i-0123456789abcdef0",
     "group": "worker-group-1", "type": "ml.p5.48xlarge",
     "status": "Running", "health": "Schedulable",
     "deep_check": "", "hindrance": "", "software": "UpToDate",
     "pods": ["ray/rayml-workers-worker-x7k2p"]}]
    ```
    """
    _show(load_any(env), output)


@singledispatch
def _show(environment: Environment, output: Format) -> None:
    raise NotImplementedError(type(environment), output)


_show.register(slurm.show_nodes)


@_show.register
def _(environment: EksEnvironment, output: Format) -> None:
    from ops.errors import as_viewer  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.nodes.listing import nodes  # noqa: PLC0415

    with _connected(environment) as clients, as_viewer():
        found = nodes(environment, clients)
    emit([node.as_data() for node in found], lambda: _table(found), output)


@node_app.command()
def shell(
    node: NodeName,
    env: EnvName,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command, and do not run it.")] = False,
) -> None:
    """Open a shell on NODE through Session Manager.

    It needs the programs `aws` and `session-manager-plugin`. HyperPod's nodes
    are no EC2 instances of the account: only this form of target reaches them.
    A group that sleeps stays awake while the shell is open.

    Exit codes:
    - 0: the session ended; with `--print`, the command was printed
    - 1: refused, such as an unknown node
    - 2: bad input or no access, or a program is missing

    Examples:
    - `ops node shell i-0123456789abcdef0 --env dev`
    - `ops node shell i-0123456789abcdef0 --env dev --print`
    """
    import shlex  # noqa: PLC0415

    from ops.nodes import shell as session  # noqa: PLC0415

    environment = load_any(env)
    command, group, name = _shell(environment, node)
    say(shlex.join(command))
    if print_only:
        return
    if missing := session.missing_programs():
        fail(f"no session can be opened: {', '.join(missing)} is not installed. Fix: install it, or use --print")
    _open(environment, command, group, name)


@singledispatch
def _open(_environment: Environment, command: list[str], _group: str, _name: str) -> None:
    """Open a shell with the command on a node of an instance group, which has this name in Kubernetes."""
    # The session replaces this process: it gets the terminal and every Ctrl-C.
    os.execvp(command[0], command)  # noqa: S606 - a list of words, no shell


@_open.register
def _(environment: EksEnvironment, command: list[str], group: str, name: str) -> None:
    from ops.nodes import shell as session  # noqa: PLC0415
    from ops.nodes.shell_mark import marked  # noqa: PLC0415

    if group not in environment.hyperpod.sleeping_groups:
        os.execvp(command[0], command)  # noqa: S606
    with _connected(environment) as clients, marked(clients.kubernetes, name) as problem:
        if problem:
            say(f"{group} sleeps while nothing uses it, and this shell does not count as use: {problem}")
        code = session.run(command)
    raise typer.Exit(code)


@singledispatch
def _shell(environment: Environment, node: str) -> tuple[list[str], str, str]:
    """Return the command that opens a shell on the node, the node's instance group, and its name in Kubernetes."""
    raise NotImplementedError(type(environment), node)


_shell.register(slurm.shell)


@_shell.register
def _(environment: EksEnvironment, node: str) -> tuple[list[str], str, str]:
    from ops.nodes import change  # noqa: PLC0415
    from ops.nodes import shell as session  # noqa: PLC0415

    with _connected(environment) as clients:
        found = change.find(environment, clients, node)
        cluster = clients.sagemaker.describe_cluster(ClusterName=environment.hyperpod.cluster_name)
    command = session.command(environment, session.target_of(cluster, found.group, found.instance))
    return command, found.group, found.name


@node_app.command()
def drain(
    node: NodeName,
    *,
    env: EnvName,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    checkpoint: Checkpoint = False,
    timeout: Timeout = "30m",  # type: ignore[assignment]  # the parser gets the text
) -> None:
    """Cordon NODE and evict its pods; the node keeps running.

    Pods of DaemonSets stay. Rerun the command to resume after an
    interruption.

    Exit codes:
    - 0: done
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops node drain i-0123456789abcdef0 --env dev --dry-run`
    - `ops node drain i-0123456789abcdef0 --env dev`
    - `ops node drain i-0123456789abcdef0 --env dev --checkpoint`
    """
    _act("drain", node, env, yes=yes, dry_run=dry_run, force=force, checkpoint=checkpoint, timeout=timeout)


def _followed(patience: str) -> Callable[[Described], Described]:
    """Register a command that changes NODE and follows it, for `patience` by default.

    The decorated function gives the command its name and its help.
    """

    def register(described: Described) -> Described:
        def command(
            node: NodeName,
            *,
            env: EnvName,
            yes: Yes = False,
            dry_run: DryRun = False,
            force: Force = False,
            checkpoint: Checkpoint = False,
            no_wait: NoWait = False,
            timeout: Timeout = patience,  # type: ignore[assignment]  # the parser gets the text
        ) -> None:
            _act(
                described.__name__,
                node,
                env,
                yes=yes,
                dry_run=dry_run,
                force=force,
                checkpoint=checkpoint,
                timeout=timeout,
                wait=not no_wait,
            )

        node_app.command(described.__name__, help=inspect.getdoc(described))(command)
        return described

    return register


@_followed("60m")
def reboot() -> None:
    """Reboot NODE, and follow until the Ray pods are back; the instance stays the same.

    In an environment with `slurm`, Slurm's controller requests it: NODE's
    running jobs end first, and the command does not follow. With `--force`
    its jobs are killed at once.

    With `--checkpoint`, running jobs save first and then wait for five
    minutes. If HyperPod begins later, the steps after that are lost.

    Exit codes:
    - 0: back; with `--no-wait`, requested
    - 1: refused, or not back in time
    - 2: bad input or no access
    - 130: interrupted; HyperPod continues

    Examples:
    - `ops node reboot i-0123456789abcdef0 --env dev --dry-run`
    - `ops node reboot i-0123456789abcdef0 --env dev --timeout 30m`
    """


@_followed("90m")
def replace() -> None:
    """Replace NODE by another instance, and follow until the Ray pods are back; NODE's disks are lost.

    In an environment with `slurm`, Slurm's controller requests it: NODE's
    running jobs end first, and the command does not follow. With `--force`
    its jobs are killed at once.

    With `--checkpoint`, running jobs save first; NODE is then drained before
    HyperPod replaces it.

    Exit codes:
    - 0: back; with `--no-wait`, requested
    - 1: refused, or not back in time
    - 2: bad input or no access
    - 130: interrupted; HyperPod continues

    Examples:
    - `ops node replace i-0123456789abcdef0 --env dev --dry-run`
    - `ops node replace hyperpod-i-0123456789abcdef0 --env dev --checkpoint`
    """


@node_app.command()
def check(
    node: NodeName,
    *,
    env: EnvName,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    no_wait: NoWait = False,
    timeout: Timeout = "4h",  # type: ignore[assignment]  # the parser gets the text
) -> None:
    """Start deep health checks on NODE, and follow them; they take minutes to hours.

    The checks are those of the group's `deep_health_checks`; without any,
    InstanceStress. They use the accelerators, as a running job does.

    Exit codes:
    - 0: passed; with `--no-wait`, requested
    - 1: refused, or not finished in time
    - 2: bad input or no access
    - 3: the node failed its checks
    - 130: interrupted; HyperPod continues

    Examples:
    - `ops node check i-0123456789abcdef0 --env dev --dry-run`
    - `ops node check i-0123456789abcdef0 --env dev --no-wait`
    """
    _act("check", node, env, yes=yes, dry_run=dry_run, force=force, timeout=timeout, wait=not no_wait)


def _act(
    name: str,
    node: str,
    env: str,
    *,
    yes: bool,
    dry_run: bool,
    force: bool,
    timeout: Duration,
    checkpoint: bool | None = None,
    wait: bool = True,
) -> None:
    require_one(checkpoint=bool(checkpoint), force=force)
    asked = _Asked(name, node, yes=yes, dry_run=dry_run, force=force, timeout=timeout, checkpoint=checkpoint, wait=wait)
    _change(load_any(env), asked)


@dataclass(frozen=True)
class _Asked:
    """What a person asks of a node."""

    name: str
    node: str
    _: KW_ONLY
    yes: bool
    dry_run: bool
    force: bool
    timeout: Duration
    checkpoint: bool | None
    wait: bool


@singledispatch
def _change(environment: Environment, asked: _Asked) -> None:
    raise NotImplementedError(type(environment), asked)


@_change.register
def _(environment: SlurmEnvironment, asked: _Asked) -> None:
    if asked.checkpoint:
        reason = "--checkpoint: true is invalid: Slurm's jobs save by themselves"
        fail(f"{reason}. Allowed: environments with eks. Fix: omit it")
    slurm.change(asked.name, asked.node, environment, yes=asked.yes, dry_run=asked.dry_run, force=asked.force)


@_change.register
def _change_of_eks(environment: EksEnvironment, asked: _Asked) -> None:
    from ops.change.saving import jobs_to_save, save  # noqa: PLC0415
    from ops.errors import RefusedError  # noqa: PLC0415
    from ops.nodes import change  # noqa: PLC0415

    action = change.NodeAction(asked.name)
    try:
        with _connected(environment) as clients:
            before = change.describe_node(environment, clients, action, asked.node)
            for line in change.describe(action, before, change.checks_of(environment, before.node)):
                say(f"  {line}")
            jobs = jobs_to_save(clients, set(before.ready), say, force=asked.force, checkpoint=asked.checkpoint)
            if asked.dry_run:
                say("dry run: nothing was changed")
                return
            if not asked.yes and not agreed("Continue?"):
                raise RefusedError("not confirmed: nothing was changed. Fix: answer y, or give --yes")
            save(jobs, say)
            change.carry_out(
                environment,
                clients,
                action,
                before,
                say,
                saved=bool(jobs),
                wait=asked.wait,
                timeout=asked.timeout.seconds,
            )
    except change.FailedCheckError as error:
        fail(str(error), code=3)
    except KeyboardInterrupt:
        fail(
            f"interrupted; a request that HyperPod has accepted continues: `ops node list --env {environment.name}`",
            code=130,
        )


@contextmanager
def _connected(environment: EksEnvironment) -> Iterator["Clients"]:
    """Yield clients; report refusals and errors of both APIs."""
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import RefusedError, UnreachableError, in_plain_words  # noqa: PLC0415

    try:
        with connect(environment) as clients, in_plain_words():
            yield clients
    except RefusedError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))


def _table(nodes: list["ClusterNode"]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("instance", "group", "type", "status", "health", "deep check", "Ray pods"):
        drawn.add_column(column, overflow="fold")
    for node in nodes:
        health = node.hindrance or node.health
        cells = (node.instance, node.group, node.type, node.status, health, node.deep_check, "\n".join(node.pods))
        drawn.add_row(*cells)
    return drawn
