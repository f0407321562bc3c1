"""Ask a checkout whether its committed files in manifests/ are what its code renders."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from config.load import DIRECTORY_VARIABLE

FOLDER: Final = "manifests"
_STALE: Final = " is stale"
_NAMED: Final = 5


def note(checkout: Path, environments: Collection[str]) -> str:
    """Return a sentence on the stale files of these environments; empty if none is stale or none is committed."""
    if not (checkout / FOLDER).is_dir():
        return ""
    own = checkout / ".venv" / "bin" / "python"
    argv = [str(own if own.is_file() else sys.executable), "-m", "ops", "manifests", "--check"]
    # A review compares the checkouts' own environments.
    env = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
    result = subprocess.run(argv, cwd=checkout, env=env, text=True, capture_output=True, check=False)
    found = [line.removesuffix(_STALE) for line in result.stdout.splitlines() if line.endswith(_STALE)]
    if result.returncode and not found:
        last = (result.stderr.strip() or "no output").splitlines()[-1]
        return f"{FOLDER}/ was not compared with what the code renders: `ops manifests --check` failed: {last}"
    root = checkout.resolve() / FOLDER
    paths = [Path(path).resolve() for path in found]
    files = [str(path.relative_to(root)) for path in paths if path.is_relative_to(root)]
    stale = [file for file in files if file.partition("/")[0] in environments]
    if not stale:
        return ""
    more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
    named = ", ".join(stale[:_NAMED])
    return f"{FOLDER}/ is stale, this review ignores it: {named}{more}. Fix: run `make manifests` and commit the files"
