"""Run each checkout's own CDK CLI for a review, on the locked Node and without credentials."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from config.load import DIRECTORY_VARIABLE
from ops.cdk import NODE


class ReviewError(Exception):
    """A checkout could not be synthesised or compared; the message contains the program's last lines."""


def cli(checkout: Path) -> Path:
    """Return the path of the CLI in a checkout."""
    return checkout / "node_modules" / "aws-cdk" / "bin" / "cdk"


def synthesise(checkout: Path, name: str, out: Path, context: Mapping[str, str]) -> Path:
    """Synthesise an environment of the checkout into the folder `out`; return `out`."""
    arguments = [part for key, value in context.items() for part in ("--context", f"{key}={value}")]
    _cdk(checkout, "synth", "--quiet", "--output", str(out), "--context", f"environment={name}", *arguments)
    return out


def difference(checkout: Path, template: Path, before: Path) -> str:
    """Return the output of the checkout's `cdk diff` for a synthesised template and the template `before`."""
    stack = template.name.removesuffix(".template.json")
    printed = _cdk(checkout, "diff", stack, "--exclusively", "--app", str(template.parent), "--template", str(before))
    return "\n".join(line for line in printed.splitlines() if line.strip() and "Number of stacks" not in line) + "\n"


def _cdk(checkout: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(checkout / ".venv" / "bin"), str(Path(sys.prefix, "bin")), str(NODE.parent)])
    # The tests validate templates; here it would take most of a synthesis' time. A review compares the checkouts' own
    # environments, so it ignores the variable that names another folder.
    inherited = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
    env = inherited | {
        "CDK_VALIDATION": "false",
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    argv = [str(NODE), str(cli(checkout)), *arguments, "--no-color", "--no-notices"]
    result = subprocess.run(argv, cwd=checkout, env=env, text=True, capture_output=True, check=False)
    if result.returncode:
        output = (result.stdout + result.stderr)[-3000:]
        raise ReviewError(f"`cdk {arguments[0]}` in {checkout} failed. Fix: the cause that it names last:\n{output}")
    return result.stdout + (result.stderr if arguments[0] == "diff" else "")
