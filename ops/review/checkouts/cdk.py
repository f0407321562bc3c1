"""Run each checkout's own CDK CLI for a review, on the locked Node and without credentials."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.load import DIRECTORY_VARIABLE

SOURCES_NOT_READ: Final = frozenset(
    {
        *(".ci", ".github", "bench", "docs", "manifests", "ops", "ray_jobs", "rehearsal", "tests"),
        *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
        # Where the documentation writes reports.
        *("review.html", "review.json", "review.md"),
    }
)
"""Files and folders at the top of a checkout that a synthesis of a review cannot open."""
_START: Final = Path(__file__).with_name("python_start")


class ReviewError(Exception):
    """A checkout could not be synthesised or read; the message contains the program's last lines."""


def cli(checkout: Path) -> Path:
    """Return the path of the CLI in a checkout."""
    return checkout / "node_modules" / "aws-cdk" / "bin" / "cdk"


def synthesise(checkout: Path, name: str, out: Path, context: Mapping[str, str]) -> Path:
    """Synthesise an environment of the checkout into the folder `out`; return `out`."""
    arguments = [part for key, value in context.items() for part in ("--context", f"{key}={value}")]
    _cdk(checkout, "synth", "--quiet", "--output", str(out), "--context", f"environment={name}", *arguments)
    return out


def _cdk(checkout: Path, *arguments: str) -> None:
    from ops.cdk import NODE  # noqa: PLC0415 - what reads an assembly needs no Node, and says so without it

    path = os.pathsep.join([str(checkout / ".venv" / "bin"), str(Path(sys.prefix, "bin")), str(NODE.parent)])
    # The tests validate templates; here it would take most of a synthesis' time. A review compares the checkouts' own
    # environments, so it ignores the variable that names another folder.
    inherited = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
    env = inherited | {
        "CDK_VALIDATION": "false",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_START), os.environ.get("PYTHONPATH")])),
        "REVIEWED_CHECKOUT": str(checkout),
        "REVIEW_NOT_READ": os.pathsep.join(sorted(SOURCES_NOT_READ)),
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    argv = [str(NODE), str(cli(checkout)), *arguments, "--no-color", "--no-notices"]
    result = subprocess.run(argv, cwd=checkout, env=env, text=True, capture_output=True, check=False)
    if result.returncode:
        output = (result.stdout + result.stderr)[-3000:]
        raise ReviewError(f"`cdk {arguments[0]}` in {checkout} failed. Fix: the cause that it names last:\n{output}")
