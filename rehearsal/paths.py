"""Name the folders of rehearsals: all files that a rehearsal creates are below `.rehearsal/` of the repository."""

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
ROOT: Final = REPOSITORY / ".rehearsal"
CACHE: Final = ROOT / "cache"
BINARIES: Final = CACHE / "bin"
RAY_ENVIRONMENT: Final = REPOSITORY / ".venv-jobs"
NODE_MODULES: Final = REPOSITORY / "node_modules"

DRILLS_IN_AN_ACCOUNT: Final = ROOT / "drills" / "account"
DRILLS_ON_KUBERNETES: Final = ROOT / "drills" / "kubernetes"
JOB: Final = ROOT / "job"
SHELL_FILE: Final = "look.sh"
"""In the folder of a kept rehearsal: what a shell sources to use the rehearsal."""
RUN_PATTERNS: Final = ("runs/*", "drills/*", "job")
"""The folders of runs, below ROOT."""


def run_directory(environment: str) -> Path:
    """Return the directory of an environment's rehearsal; only one rehearsal of it runs at a time."""
    return ROOT / "runs" / environment
