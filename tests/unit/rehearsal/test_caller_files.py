"""What a rehearsal's own process loads reads none of its caller's AWS files; the tier `isolation` tries whole runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY

LOADS = """
import importlib, os, sys
own = {os.environ["AWS_CONFIG_FILE"], os.environ["AWS_SHARED_CREDENTIALS_FILE"]}
sys.addaudithook(lambda event, args: sys.exit(f"{args[0]} is read") if event == "open" and args[0] in own else None)
importlib.import_module(sys.argv[1])
"""


@pytest.mark.parametrize("module", ["rehearsal.__main__", "rehearsal.run.rehearse", "rehearsal.drills.perform"])
def test_loading_a_command_reads_no_aws_file(tmp_path: Path, module: str) -> None:
    files = {name: str(tmp_path / name) for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")}
    for file in files.values():
        Path(file).touch()
    done = subprocess.run(
        [sys.executable, "-c", LOADS, module],
        cwd=REPOSITORY,
        env={**os.environ, **files},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
