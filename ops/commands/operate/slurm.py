"""Commands on the nodes of a Slurm cluster; `ops node` calls them for an environment with `slurm`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from config import SlurmEnvironment
from ops.cli import EnvName, agreed, app, fail, load_any, say
from ops.output import Format, emit

if TYPE_CHECKING:
    from ops.slurm.nodes import SlurmInstance


@app.command("ssh-config")
def ssh_config(
    env: EnvName,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Account on the nodes.")] = "ubuntu",
) -> None:
    """Print a configuration of SSH that reaches each node of a Slurm cluster through Session Manager.

    No port of a node is open to the internet. Visual Studio Code and PyCharm
    connect with the same names. Run it again after a node was replaced.

    Exit codes:
    - 0: printed
    - 1: refused, such as no running node
    - 2: bad input or no access

    Examples:
    - `ops ssh-config --env dev`
    - `ops ssh-config --env dev --user ada > ~/.ssh/dev.conf`
    """
    from ops.errors import RefusedError  # noqa: PLC0415 - the AWS SDK would double the start-up time
    from ops.slurm.nodes import slurm_nodes  # noqa: PLC0415
    from ops.slurm.ssh_config import ssh_config as lines_of  # noqa: PLC0415

    environment = load_any(env)
    if not isinstance(environment, SlurmEnvironment):
        fail(
            f"--env: {env!r} is invalid here: EKS orchestrates its cluster, whose nodes take no SSH. "
            "Allowed: environments with slurm. Fix: use `ops node shell`"
        )
    with connected(environment) as sagemaker:
        cluster = sagemaker.describe_cluster(ClusterName=environment.hyperpod.cluster_name)
        found = [node for node in slurm_nodes(environment, sagemaker) if node.status == "Running"]
        if not found:
            raise RefusedError(f"no node of {env} runs. Fix: `ops wait --env {env}`")
        # Not wrapped: a program reads it.
        typer.echo("\n".join(lines_of(environment, cluster, found, user)))


def show_nodes(environment: SlurmEnvironment, output: Format) -> None:
    """List the nodes with their names in Slurm and their addresses."""
    from ops.slurm.nodes import slurm_nodes  # noqa: PLC0415

    with connected(environment) as sagemaker:
        found = slurm_nodes(environment, sagemaker)
    emit([node.as_data() for node in found], lambda: _table(found), output)


def shell(environment: SlurmEnvironment, node: str) -> tuple[list[str], str, str]:
    """Return the command that opens a shell on the node, its instance group, and no name in Kubernetes."""
    from ops.nodes import shell as session  # noqa: PLC0415
    from ops.slurm.nodes import find  # noqa: PLC0415

    with connected(environment) as sagemaker:
        found = find(environment, sagemaker, node)
        cluster = sagemaker.describe_cluster(ClusterName=environment.hyperpod.cluster_name)
    return session.command(environment, session.target_of(cluster, found.group, found.instance)), found.group, ""


def change(name: str, node: str, environment: SlurmEnvironment, *, yes: bool, dry_run: bool, force: bool) -> None:
    """Request a replacement or a reboot from Slurm's controller."""
    from ops.errors import RefusedError  # noqa: PLC0415
    from ops.nodes.shell import missing_programs, target_of  # noqa: PLC0415
    from ops.slurm import change as changes  # noqa: PLC0415
    from ops.slurm.nodes import controller, find  # noqa: PLC0415
    from ops.slurm.session import remote, run  # noqa: PLC0415

    if name not in set(changes.SlurmNodeAction):
        fail(
            f"`ops node {name}` is invalid here: it works on nodes of Kubernetes. "
            f"Allowed: {', '.join(changes.SlurmNodeAction)}. "
            "Fix: `scontrol update` on the controller (docs/operate/slurm.md)"
        )
    action = changes.SlurmNodeAction(name)
    with connected(environment) as sagemaker:
        cluster_name = environment.hyperpod.cluster_name
        found = find(environment, sagemaker, node)
        changes.require_compute(action, found, cluster_name)
        asked = controller(environment, sagemaker)
        target = target_of(sagemaker.describe_cluster(ClusterName=cluster_name), asked.group, asked.instance)
        for line in changes.describe(action, found, now=force):
            say(f"  {line}")
        if dry_run:
            say("dry run: nothing was changed")
            return
        if missing := missing_programs():
            raise RefusedError(f"no session can be opened: {', '.join(missing)} is not installed. Fix: install it")
        if not yes and not agreed("Continue?"):
            raise RefusedError("not confirmed: nothing was changed. Fix: answer y, or give --yes")
        name = changes.name_in_slurm(found, run(remote(target, environment.region, changes.NAMES)))
        for line in run(remote(target, environment.region, changes.words(action, name, now=force))):
            say(f"  {line}")
    say(f"requested: {action} {name}; until it is idle in `sinfo`, change nothing and keep the controller running")


@contextmanager
def connected(environment: SlurmEnvironment) -> Iterator[Any]:
    """Yield a client of SageMaker; report refusals and errors of AWS."""
    from ops.clients import CallerAccount  # noqa: PLC0415
    from ops.errors import RefusedError, UnreachableError, in_plain_words  # noqa: PLC0415

    try:
        with in_plain_words():
            yield CallerAccount(environment).client("sagemaker")
    except RefusedError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))


def _table(nodes: "list[SlurmInstance]") -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Slurm name", "instance", "address", "group", "role", "partition", "type", "status"):
        drawn.add_column(column, overflow="fold")
    for node in nodes:
        status = f"{node.status}: {node.message}" if node.message else node.status
        cells = (node.name, node.instance, node.address, node.group, node.role, node.partition, node.type, status)
        drawn.add_row(*cells)
    return drawn
