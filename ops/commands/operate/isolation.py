"""The command that verifies network isolation."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from config.facts import versions
from ops.cli import EnvName, app, console, fail, load
from ops.durations import Duration, at_least
from ops.output import Format, Output, emit, teller

if TYPE_CHECKING:
    from ops.isolation.check import ProbeOutcome
    from ops.isolation.plan import Connection, Origin


@app.command("isolation-check")
def isolation_check(
    env: EnvName,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the connections to try, and whether the API server accepts the pods."),
    ] = False,
    timeout: Annotated[
        Duration, typer.Option(parser=at_least(Duration(30)), metavar="DURATION", help="Give up after this time.")
    ] = Duration(300),
    output: Output = Format.TABLE,
) -> None:
    """Verify network isolation with probe pods: only authorised clients can reach the Ray heads.

    The probe pods try to connect and are removed afterwards. Every client
    that reaches a head can run code there, unless the head wants a token:
    then one of the pods also asks without one, and must be refused.

    Exit codes:
    - 0: every connection is open or closed as expected
    - 1: a connection is not as expected, or could not be tried
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops isolation-check --env prod --dry-run`
    - `ops isolation-check --env prod --timeout 10m`

    With `-o json` or `-o yaml`, progress goes to standard error. `open` is null
    for a connection that was not tried:

    ```json
    {"environment": "prod", "isolated": true, "connections": [
      {"from": "pod-elsewhere", "namespace": "default",
       "to": "rayml", "port": 8265,
       "must_be_open": false, "open": false}]}
    ```
    """
    from k8s_charts.helm.images import pulled  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.isolation import check as checking  # noqa: PLC0415
    from ops.isolation.plan import plan  # noqa: PLC0415

    environment, say = load(env), teller(output)
    image = pulled(versions.PYTHON_IMAGE, environment)
    try:
        with connect(environment) as clients:
            enforced = checking.enforcement(clients.kubernetes)
            if enforced == checking.REHEARSED and not dry_run:
                fail(f"{enforced}: nothing was tried. Fix: run this command against AWS, or add --dry-run", code=1)
            origins = plan(environment, checking.heads(environment, clients.kubernetes))
            say(enforced)
            prober = checking.Prober(clients.kubernetes, image, timeout.seconds)
            if dry_run:
                prober.rehearse(origins)
                emit(
                    {"environment": env, "isolated": None, "connections": _data(origins, {})},
                    lambda: _table(origins, lambda each: "must be open" if each.open else "must be closed"),
                    output,
                )
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
    wrong = checking.verdict(outcomes)
    emit(
        {"environment": env, "isolated": not wrong, "connections": _data(origins, came)},
        lambda: _table(origins, lambda each: f"{'✔' if came[each].expected else '✘'} {came[each].text}"),
        output,
    )
    if wrong:
        fail(f"{env} is not isolated: {'; '.join(wrong)}. Fix: see docs/explain/isolation.md", code=1)
    if output is Format.TABLE:
        console.print(f"[bold green]{env} is isolated[/]: {len(outcomes)} connections are as expected", highlight=False)


def _data(origins: "list[Origin]", came: "Mapping[Connection, ProbeOutcome]") -> list[dict[str, Any]]:
    """Return the connections as data for programs; `open` is None for a connection that was not tried."""
    return [
        {
            "from": origin.name,
            "namespace": origin.namespace,
            "to": each.target,
            "port": each.port,
            "must_be_open": each.open,
            "open": came[each].open if each in came else None,
        }
        for origin in origins
        for each in origin.connections
    ]


def _table(origins: "list[Origin]", state: "Callable[[Connection], str]") -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("from", "namespace", "to", "port", "state"):
        drawn.add_column(column, no_wrap=column != "state")
    for origin in origins:
        for connection in origin.connections:
            drawn.add_row(origin.name, origin.namespace, connection.target, str(connection.port), state(connection))
    return drawn
