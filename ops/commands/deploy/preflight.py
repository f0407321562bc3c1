"""The command before a first deployment: `ops preflight`."""

from ops.cli import EnvName, app, errors, fail, load_any, say
from ops.output import Format, Output, emit


@app.command()
def preflight(env: EnvName, output: Output = Format.TABLE) -> None:
    """Check before a deployment that the account has what the environment needs; print what mends the rest.

    It checks the CDK bootstrap, quotas, roles, zones, an existing network and
    cluster, training plans, charts and names. It changes nothing. A check that
    your role may not make is a warning.

    Exit codes:
    - 0: every check passes, or warns
    - 1: a check fails
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops preflight --env dev`
    - `ops preflight --env prod -o json`

    With `-o json` or `-o yaml`:

    ```json
    {"environment": "dev", "account": "111122223333",
     "region": "us-west-2", "checks": [
      {"check": "CDK bootstrap", "verdict": "pass",
       "found": "version 28", "fix": ""}]}
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.preflight import table  # noqa: PLC0415
    from ops.preflight.check import CheckStatus  # noqa: PLC0415
    from ops.preflight.checks import checks_of  # noqa: PLC0415
    from ops.preflight.here import Here  # noqa: PLC0415
    from ops.preflight.run import run, worst  # noqa: PLC0415

    environment = load_any(env)
    try:
        results = run(Here(environment, CallerAccount(environment).client), checks_of(environment), errors)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted. Fix: rerun `ops preflight --env {env}`", code=130)
    emit(table.data(environment, results), lambda: table.table(results), output)
    ready = worst(results) is not CheckStatus.FAIL
    if output is Format.TABLE:
        for line in table.fixes(results):
            say(line)
        if ready:
            say(f"{env} is ready to deploy: {table.summary(results)}")
    if not ready:
        fail(f"{env} is not ready to deploy: {table.summary(results)}. Fix: mend what fails, then rerun", code=1)
