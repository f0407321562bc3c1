"""Record green tiers: a tier need not run again while every file that it reads has the same content."""

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tiers import Tier


@dataclass(frozen=True)
class Green:
    """When a tier was last green, and with which inputs."""

    inputs: str
    """The hash of the files that it reads."""
    commit: str
    at: str

    def __str__(self) -> str:
        return f"{self.commit[:12]}, {self.at[:10]}"


class Record:
    """The last green state of each tier, in a folder that a clean clone does not have."""

    def __init__(self, directory: Path, repository: Path) -> None:
        self._directory = directory
        self._repository = repository
        self._files = _files(repository)

    def unchanged_since(self, tier: Tier) -> Green | None:
        """Return the last green state of a tier if its inputs are the same now, else None."""
        file = self._file(tier)
        if not file.exists():
            return None
        green = Green(**json.loads(file.read_text()))
        return green if green.inputs == self.inputs(tier) else None

    def write(self, tier: Tier) -> None:
        """Record that a tier is green with the inputs that this record was made with."""
        commit = _git(self._repository, "rev-parse", "HEAD").strip()
        green = Green(self.inputs(tier), commit, datetime.now(UTC).isoformat(timespec="seconds"))
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file(tier).write_text(json.dumps(asdict(green)) + "\n")

    def inputs(self, tier: Tier) -> str:
        """Hash the names, contents and modes of the files that a tier reads."""
        read = [f"{path} {content}\n" for path, content in self._files.items() if tier.reads(path)]
        return hashlib.sha256("".join(read).encode()).hexdigest()

    def _file(self, tier: Tier) -> Path:
        return self._directory / f"{tier.name}.json"


def _files(repository: Path) -> dict[str, str]:
    """Map each file that git tracks or would add to the hash of its content."""
    listed = _git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {path: _content(repository / path) for path in sorted({*listed} - {""})}


def _content(file: Path) -> str:
    if file.is_symlink():
        return f"link {file.readlink()}"
    if not file.is_file():
        return "missing"
    executable = "x" if file.stat().st_mode & 0o100 else "-"
    return f"{executable} {hashlib.sha256(file.read_bytes()).hexdigest()}"


def _git(repository: Path, *words: str) -> str:
    argv = ["git", *words]
    return subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=True).stdout
