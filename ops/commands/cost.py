"""What an environment costs: `ops cost`."""

from typing import Annotated

import typer

from ops.cli import EnvName, app, fail, load
from ops.output import Format, Output, emit


@app.command()
def cost(
    env: EnvName,
    live: Annotated[
        bool, typer.Option("--live", help="Also count what exists now. Needs credentials of the account.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what an environment costs per hour and month, from a dated table of prices. It is no bill.

    It names what has no price in the table. With `--live` it shows beside
    the plan what exists: HyperPod's current counts, system nodes, EKS, NAT
    gateways and file systems.

    Exit codes:
    - 0: shown
    - 2: bad input or no access

    Examples:
    - `ops cost --env dev`
    - `ops cost --env dev --live -o json`

    With `-o json` or `-o yaml` (`live` is null without `--live`, and
    `usd_per_hour` of an item without a price):

    ```json
    {"environment": "dev",
     "prices": {"date": "2026-11-01", "region": "us-west-2"},
     "planned": {"usd_per_hour": 0.5, "usd_per_month": 365.0,
       "items": [{"item": "EKS control plane", "amount": "",
         "usd_per_hour": 0.1}]},
     "live": null, "unpriced": ["traffic"]}
    ```
    """
    from config.estimates import costs  # noqa: PLC0415 - other commands read no prices
    from ops.cost import show  # noqa: PLC0415

    environment = load(env)
    found = None
    if live:
        from ops.cost.live import live as count_live  # noqa: PLC0415 - the AWS SDK needs half a second
        from ops.errors import UnreachableError  # noqa: PLC0415

        try:
            found = costs.priced(count_live(environment))
        except UnreachableError as error:
            fail(str(error))
    bill = show.Bill(environment, costs.estimate(environment), found)
    emit(show.document(bill), lambda: show.table(bill), output)
