"""The command that verifies network isolation."""

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
        bool,
        typer.Option("--dry-run", help="Show the connections to try, and whether the API server accepts the pods."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.5, help="Give up after this many minutes.")] = 5,
) -> None:
    """Verify network isolation with probe pods: only authorised clients can reach the Ray heads.

    The probe pods try to connect and are removed afterwards. Ray 2.42.1 has no
    authentication: every client that reaches a head can run code there.

    Exit codes:
    - 0: every connection is open or closed as expected
    - 1: a connection is not as expected, or could not be tried
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops isolation-check --env prod --dry-run`
    - `ops isolation-check --env prod`
    """
    from k8s_charts.helm.images import copy_of  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
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
                say("dry run: the API server accepts these pods; none was created")
                return
            outcomes = prober.try_all(origins, say)
    except checking.ProbeError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted: no verdict; probe pods removed", code=130)
    came = {outcome.connection: outcome for outcome in outcomes}
    show(_table(origins, lambda connection: f"{'✔' if came[connection].expected else '✘'} {came[connection].said}"))
    if wrong := checking.verdict(outcomes):
        fail(f"{env} is not isolated: {'; '.join(wrong)}. Fix: see docs/explain/isolation.md", code=1)
    console.print(f"[bold green]{env} is isolated[/]: {len(outcomes)} connections are as expected", highlight=False)


def _table(origins: "list[Origin]", state: "Callable[[Connection], str]") -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("from", "namespace", "to", "port", "state"):
        drawn.add_column(column, no_wrap=column != "state")
    for origin in origins:
        for connection in origin.connections:
            drawn.add_row(origin.name, origin.namespace, connection.target, str(connection.port), state(connection))
    return drawn
