"""The Pythons of HyperPod's Slurm images that this machine has, beside its own: Ubuntu 20.04's and 22.04's."""

import sys
from pathlib import Path
from typing import Final

PYTHONS: Final = [
    sys.executable,
    *(
        str(path)
        for version in ("3.8", "3.10")
        for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))[-1:]
    ),
]
