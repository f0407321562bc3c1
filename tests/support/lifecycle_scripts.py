"""Run a lifecycle script with bash, with stand-ins for the programs that change a node."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rehearsal.slurm.stand_ins import recording
from tests.support.waiting import PATIENCE_SECONDS


def run_script(script: Path, *, programs: Path, variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a script with bash, because files from S3 have no mode; both outputs are in `stdout`."""
    return subprocess.run(
        ["/bin/bash", script],
        env={"PATH": f"{programs}:{os.environ['PATH']}", **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def put_program(programs: Path, name: str, body: str) -> None:
    """Put a stand-in for a program that records its words in $ROOT/asked."""
    path = programs / name
    path.write_text(recording(name, body))
    path.chmod(0o755)
