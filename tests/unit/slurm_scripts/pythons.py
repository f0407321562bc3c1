"""The Pythons of HyperPod's Slurm images, Ubuntu 20.04's and 22.04's, where this machine has them."""

import sys
from pathlib import Path
from typing import Final

import pytest

VERSIONS: Final = ("3.8", "3.10", "own")


def python(version: str) -> str:
    """Return the path of a CPython that pyenv has built, or of this one; skip the test without it."""
    if version == "own":
        return sys.executable
    built = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    if not built:
        pytest.skip(f"no CPython {version} of pyenv's")
    return str(built[-1])
