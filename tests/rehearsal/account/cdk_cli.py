"""Run the project's CDK CLI against a test's account."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from config import Environment
from embedded_account.context import Account
from embedded_account.machine import isolation
from embedded_account.paths import CDK_PRELOAD
from embedded_account.testing.clients import NODE_MODULES


def run(directory: Path, *words: str, env: Mapping[str, str], code: int = 0) -> str:
    """Run a command in a folder, without the CLI's pauses between polls; return its output."""
    command = [
        "node",
        f"--require={CDK_PRELOAD}",
        str(NODE_MODULES / "aws-cdk" / "bin" / "cdk"),
        *words,
        "--no-notices",
    ]
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def bootstrap(
    account: Account, environment: Environment, keys: Mapping[str, str], directory: Path, *more: str, code: int = 0
) -> str:
    """Run `cdk bootstrap` with credentials, in a folder without an app; return its output."""
    env = isolation.child_environment(
        directory,
        endpoint=account.endpoint,
        region=environment.region,
        account_id=environment.account,
        extra=dict(keys),
    )
    return run(directory, "bootstrap", f"aws://{environment.account}/{environment.region}", *more, env=env, code=code)
