"""What runs, compared with what was deployed: `ops drift`."""

from ops.cli import EnvName, app, fail, load, say
from ops.output import Format, Output, emit, teller


@app.command()
def drift(env: EnvName, output: Output = Format.TABLE) -> None:
    """Compare what runs with what was deployed: resources, HyperPod cluster, Helm releases, Ray pods.

    It changes nothing, but it starts CloudFormation's drift detection, which
    needs rights to read each resource. A part without an answer is an error,
    never "no drift".

    Exit codes:
    - 0: no drift
    - 1: something differs from what was deployed
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops drift --env dev`
    - `ops drift --env prod -o json`

    With `-o json` or `-o yaml`:

    ```json
    {"environment": "dev",
     "drift": [{"kind": "AWS::Logs::LogGroup", "name": "rayhp-dev-eks/Log",
       "detail": "/RetentionInDays is 7, deployed 30"}],
     "not_compared": ["stack rayhp-dev-ray does not exist"]}
    ```
    """
    from ops.clients import Account  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.drift import show  # noqa: PLC0415
    from ops.drift.search import search  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415

    environment = load(env)
    try:
        drifts = search(environment, Account(environment).client)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted. Fix: rerun `ops drift --env {env}`", code=130)
    if drifts.found or output is not Format.TABLE:
        emit(show.document(env, drifts), lambda: show.table(drifts), output)
    if output is Format.TABLE:
        for line in drifts.not_compared:
            say(f"not compared: {line}")
    if drifts.found:
        differs = f"{len(drifts.found)} differ from what was deployed"
        fail(f"{env}: {differs}. Fix: deploy again, or make the change in the environment file", code=1)
    teller(output)(f"{env}: no drift" + (" in what was compared" if drifts.not_compared else ""))
