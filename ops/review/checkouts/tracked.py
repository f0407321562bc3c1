"""Ask git which files a checkout tracks, and refuse those that a program made: they run, and nobody reads them.

`make check` runs this module.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from ops.review.checkouts.cdk import ReviewError

_FOLDERS: Final = frozenset(
    {
        *("__pycache__", "cdk.out", "node_modules", ".rehearsal", ".hypothesis", ".import_linter_cache"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
    }
)
_ENVIRONMENT: Final = ".venv"
# Python prefers a compiled extension to the source beside it, and takes bytecode where there is no source.
_SUFFIXES: Final = (".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll", ".egg-info", ".egg")
# They would name another repository, as in a hook of git.
_OF_A_HOOK: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
_NAMED: Final = 5


def files(checkout: Path) -> list[str] | None:
    """Return the paths that git tracks in a checkout; None if it is no checkout of git.

    Raises ReviewError if git cannot read it.
    """
    # The setting would name a program to start.
    argv = ["git", "-c", "core.fsmonitor=false", "-C", str(checkout), "ls-files", "-z"]
    env = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        result = subprocess.run(argv, env=env, capture_output=True, check=False)
        error = "" if result.returncode == 0 else os.fsdecode(result.stderr).strip()
    except FileNotFoundError:
        result, error = None, "git is not installed"
    if result is None or result.returncode:
        if (checkout / ".git").exists():
            raise ReviewError(f"{checkout}: git cannot list its files: {error}. Fix: the cause that git names")
        return None
    # A copy inside another repository is no checkout of it.
    return [os.fsdecode(name) for name in result.stdout.split(b"\0") if name] or None


def build_outputs(checkout: Path) -> list[str]:
    """Return the tracked files that a program made: bytecode, compiled code, outputs of a synthesis, caches.

    Raises ReviewError if git cannot read the checkout.
    """
    return [path for path in files(checkout) or () if any(map(_is_made, PurePosixPath(path.casefold()).parts))]


def require_links_inside(checkout: Path) -> None:
    """Raise ReviewError if git tracks links out of the checkout: who reads them reads this machine's files."""
    top = checkout.resolve()
    if found := [name for name in files(checkout) or () if not _leads_inside(checkout / name, top)]:
        raise ReviewError(
            f"{checkout}: git tracks links that lead out of the checkout: {_named(found)}. Allowed: links to files of "
            f"the checkout. Fix: run `git rm --cached {shlex.join(map(_printable, found[:_NAMED]))}`"
        )


def require_sources(checkout: Path) -> None:
    """Raise ReviewError if git tracks files in the checkout that a program made."""
    if found := build_outputs(checkout):
        raise ReviewError(
            f"{checkout}: git tracks files that a program made: {_named(found)}. Programs may run them "
            "instead of the sources that people review. Allowed: sources. "
            f"Fix: run `git rm --cached {shlex.join(map(_printable, found[:_NAMED]))}`"
        )


def _named(found: list[str]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{', '.join(map(_printable, found[:_NAMED]))}{more}"


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _leads_inside(path: Path, top: Path) -> bool:
    if not path.is_symlink():
        return True
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return target.is_relative_to(top) and target.relative_to(top).parts[:1] != (".git",)


def _is_made(name: str) -> bool:
    return name in _FOLDERS or name.startswith(_ENVIRONMENT) or name.endswith(_SUFFIXES)


if __name__ == "__main__":
    try:
        require_sources(Path.cwd())
    except ReviewError as stopped:
        sys.exit(f"check: {stopped}")
