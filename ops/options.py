"""Options that several commands share, so that each has one name, one default and one sentence of help.

Those that take a duration are in `ops.durations`.
"""

from typing import Annotated

import typer

from ops import completion

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Proceed even if a Ray job is running or its state is unknown.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="KEY=VALUE", help="CDK context for both syntheses. Repeatable."),
]
Checkpoint = Annotated[bool, typer.Option("--checkpoint", help="Let running jobs save first, then proceed.")]
Watch = Annotated[bool, typer.Option("--watch", help="Redraw until Ctrl-C; needs a terminal.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        autocompletion=completion.ray_clusters,
        help="RayCluster. Needed only if there are several.",
    ),
]
