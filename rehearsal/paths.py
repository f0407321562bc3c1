"""Where a rehearsal keeps what it makes: everything below `.rehearsal/` of the repository."""

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
ROOT: Final = REPOSITORY / ".rehearsal"
CACHE: Final = ROOT / "cache"
BINARIES: Final = CACHE / "bin"
NODE_MODULES: Final = REPOSITORY / "node_modules"

DRILLS_IN_AN_ACCOUNT: Final = ROOT / "drills" / "account"
DRILLS_ON_KUBERNETES: Final = ROOT / "drills" / "kubernetes"
JOB: Final = ROOT / "job"
RUN_PATTERNS: Final = ("runs/*", "drills/*", "job")
"""Below ROOT, the folders of runs."""


def run_directory(environment: str) -> Path:
    """Directory of the rehearsal of one environment; there is one at a time."""
    return ROOT / "runs" / environment
