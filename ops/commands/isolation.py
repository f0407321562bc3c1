"""The command that proves who reaches a RayCluster's head."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from config.facts import versions
from ops.cli import EnvName, app, console, fail, load, say, show

if TYPE_CHECKING:
    from ops.isolation.plan import Connection, Origin


@app.command("isolation-check")
def isolation_check(
    env: EnvName = "dev",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be tried, and whether the cluster would take the pods.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.5, help="Minutes until the pods must have tried.")] = 5,
) -> None:
    """Prove that only who may reaches Ray's heads: start pods that try to connect, compare, remove them.

    Whoever reaches a head runs code there: Ray 2.42.1 has no authentication. Exit codes: 0 all as it must be,
    1 something is not or could not be tried, 2 bad input or no access, 130 interrupted.
    """
    from k8s_charts.helm.images import copy_of  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.isolation import check as checking  # noqa: PLC0415
    from ops.isolation.plan import plan  # noqa: PLC0415

    environment = load(env)
    image = copy_of(versions.PYTHON_IMAGE, environment.image_registry)
    try:
        with connect(environment) as clients:
            origins = plan(environment, checking.heads(environment, clients.kubernetes))
            say(checking.enforcement(clients.kubernetes))
            prober = checking.Prober(clients.kubernetes, image, timeout * 60)
            if dry_run:
                prober.rehearse(origins)
                show(_table(origins, lambda connection: "must be open" if connection.open else "must be closed"))
                say("dry run: the cluster would take these pods; none was made")
                return
            outcomes = prober.try_all(origins, say)
    except checking.ProbeError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted; nothing is proven, and the pods are removed", code=130)
    came = {outcome.connection: outcome for outcome in outcomes}
    show(_table(origins, lambda connection: f"{'✔' if came[connection].expected else '✘'} {came[connection].said}"))
    if wrong := checking.verdict(outcomes):
        fail(f"{env} is not isolated: {'; '.join(wrong)}. Fix: see docs/explain/isolation.md", code=1)
    console.print(f"[bold green]{env} is isolated[/]: {len(outcomes)} connections are as they must be", highlight=False)


def _table(origins: "list[Origin]", state: "Callable[[Connection], str]") -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("from", "namespace", "to", "port", "state"):
        drawn.add_column(column, no_wrap=column != "state")
    for origin in origins:
        for connection in origin.connections:
            drawn.add_row(origin.name, origin.namespace, connection.target, str(connection.port), state(connection))
    return drawn
