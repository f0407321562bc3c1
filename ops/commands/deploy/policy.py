"""The command of IAM policies for people: `ops policy`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ops import files
from ops.cli import EnvName, app, load_any, say
from ops.output import Format, Output, emit
from ops.policy.role import PersonRole


@app.command()
def policy(
    role: Annotated[PersonRole, typer.Argument(metavar="ROLE", help="deployer, operator, scientist, viewer or admin.")],
    env: EnvName,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", file_okay=False, help="Write each policy to a file there.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print the least-privilege IAM policies of a person: who deploys, operates, submits jobs, watches or administers.

    They name the environment's own resources. What exceeds the size of one
    managed policy is split into several: attach all of them to the role. With
    `--out` the files are ready for `aws iam create-policy`. On a cluster of
    Slurm, a scientist reaches nodes by SSH only: other sessions are of root.

    Exit codes:
    - 0: printed or written
    - 2: bad input

    Examples:
    - `ops policy operator --env dev`
    - `ops policy deployer --env prod --out policies`
    - `ops policy scientist --env dev -o json`

    With `-o json` or `-o yaml`:

    ```json
    {"role": "scientist", "access": "submitters", "commands": ["logs"],
     "policies": [{"name": "rayhp-dev-scientist", "characters": 601,
       "document": {"Version": "2012-10-17", "Statement": []}}]}
    ```
    """
    from ops.policy.documents import MOST_CHARACTERS, documents  # noqa: PLC0415 - it imports the AWS SDK
    from ops.policy.roles import rights  # noqa: PLC0415

    environment = load_any(env)
    made = documents(role, environment)
    policies = [{"name": each.name, "characters": each.characters, "document": each.document} for each in made]
    _, commands, access = rights(role, environment)

    def table() -> Table:
        drawn = Table("policy", "characters", "statements", box=None, pad_edge=False)
        for each in made:
            drawn.add_row(each.name, f"{each.characters:,}", str(len(each.document["Statement"])))
        return drawn

    if out:
        out.mkdir(parents=True, exist_ok=True)
        for each in made:
            files.write(out / f"{each.name}.json", json.dumps(each.document, indent=2) + "\n")
    emit({"role": role.value, "access": access, "commands": commands, "policies": policies}, table, output)
    if output is not Format.TABLE:
        return
    if len(made) > 1:
        say(f"{len(made)} policies, because IAM takes {MOST_CHARACTERS:,} characters in one: attach all of them")
    for each in made if out else ():
        say(f"aws iam create-policy --policy-name {each.name} --policy-document file://{out}/{each.name}.json")
    if not out:
        say("the documents: -o json, or --out FOLDER")
    if access:
        say(f"Kubernetes: list the role's ARN under access.{access} of the environment, then deploy the eks stack")
    say(f"for: ops {', ops '.join(commands)}")
