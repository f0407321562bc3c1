"""Command that gives kubectl access to an environment."""

from pathlib import Path
from typing import Annotated

import typer

from ops.cli import EnvName, app, fail, load, say


@app.command()
def kubeconfig(
    env: EnvName,
    file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Merge the entry into this kubeconfig instead of printing it.")
    ] = None,
) -> None:
    """Print a kubeconfig for the environment's EKS cluster, or merge it into a file.

    kubectl then gets its tokens from `aws eks get-token`, with your own AWS
    credentials. Other contexts of the file, and its current context, stay.

    Exit codes:
    - 0: printed or merged
    - 2: bad input or no access; the file was not changed

    Examples:
    - `ops kubeconfig --env dev`
    - `ops kubeconfig --env dev --file ~/.kube/config`
    """
    import yaml  # noqa: PLC0415

    from config import naming  # noqa: PLC0415
    from ops import kubeconfig as kubeconfigs  # noqa: PLC0415
    from ops.clients import CallerAccount, described_cluster  # noqa: PLC0415 - the AWS SDK would double the start-up time
    from ops.errors import UnreachableError  # noqa: PLC0415

    environment = load(env)
    try:
        entry = kubeconfigs.entry(environment, described_cluster(environment, CallerAccount(environment)))
        if file is None:
            typer.echo(yaml.safe_dump(entry, sort_keys=False), nl=False)
            return
        changed = kubeconfigs.merge(file.expanduser(), entry)
    except (UnreachableError, kubeconfigs.KubeconfigError) as error:
        fail(str(error))
    context = naming.eks_cluster(environment)
    what = "has the context" if changed else "already had the context"
    say(f"{file} {what} {context}: `kubectl --context {context} get nodes`")
