"""Name the folders of rehearsals: all files that a rehearsal creates are below `.rehearsal/` of the repository."""

from pathlib import Path
from typing import Final

from config.facts.versions import SET_DEFAULT

REPOSITORY: Final = Path(__file__).resolve().parent.parent
ROOT: Final = REPOSITORY / ".rehearsal"
CACHE: Final = ROOT / "cache"
BINARIES: Final = CACHE / "bin"
NODE_MODULES: Final = REPOSITORY / "node_modules"

DRILLS_IN_AN_ACCOUNT: Final = ROOT / "drills" / "account"
DRILLS_ON_KUBERNETES: Final = ROOT / "drills" / "kubernetes"
JOB: Final = ROOT / "job"
SHELL_FILE: Final = "look.sh"
"""In the folder of a kept rehearsal: what a shell sources to use the rehearsal."""
RUN_PATTERNS: Final = ("runs/*", "drills/*", "job")
"""The folders of runs, below ROOT."""


def ray_environment(versions: str) -> Path:
    """Return the Python environment that stands for the Ray image of a set of versions (`make setup-jobs ROW=…`)."""
    return REPOSITORY / (".venv-jobs" if versions == SET_DEFAULT else f".venv-jobs-{versions}")


RAY_ENVIRONMENT: Final = ray_environment(SET_DEFAULT)


def run_directory(environment: str) -> Path:
    """Return the directory of an environment's rehearsal; only one rehearsal of it runs at a time."""
    return ROOT / "runs" / environment
