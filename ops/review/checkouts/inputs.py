"""Find the environments whose inputs differ between two checkouts: only their templates can differ.

Every file of the checkout is an input, except names in NOT_READ, which no synthesis reads, and files of other
environments. A file in a new folder is an input until NOT_READ lists the folder; tests/synth/test_review_inputs.py
compares NOT_READ with the files that a synthesis opens. What programs make counts wherever they do not make it.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeGuard

from config import available
from config.reading import strict_yaml
from ops.review.checkouts import tracked
from ops.review.checkouts.cdk import SOURCES_NOT_READ

ENVIRONMENTS: Final = "environments"
APPROVALS: Final = "approvals"
"""The folder of `environments/` that only `ops gate` reads."""
REMOVABLE: Final = "removable_nodes"
"""The key there of how many nodes or worker pods a change may remove without an approval."""
NOT_READ: Final = SOURCES_NOT_READ | {
    ".git",
    # Made at the top. `ops.review.checkouts.tracked` refuses them if git tracks them.
    *("cdk.out", ".rehearsal", ".hypothesis", ".import_linter_cache"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
    # Installed from the lock files, which are inputs.
    *(".venv", ".venv-jobs", ".venv-policies", "node_modules"),
}
"""Files and folders at the top of a checkout that are no inputs."""
_BYTECODE: Final = "__pycache__"
"""Python makes it everywhere. A synthesis of a review reads none, and no upload takes it along."""
_CACHES: Final = "packages/*/.*_cache"
"""What linters and tests of a package make."""


def changed(base: Path, head: Path) -> list[str]:
    """Return the environments of `head` that `base` lacks or that have an input with other content in `base`."""
    names = available(head / ENVIRONMENTS)
    if _shared(base) != _shared(head):
        return names
    return [name for name in names if own(base, name) != own(head, name)]


def fingerprint(checkout: Path) -> str:
    """Return the hash of the files that a verdict depends on: all that git tracks, and inputs not tracked yet.

    Files count as they are, committed or not. Approvals do not count: the gate reads them itself.
    """
    environments = {name: own(checkout, name) for name in available(checkout / ENVIRONMENTS)}
    approvals = f"{ENVIRONMENTS}/{APPROVALS}/"
    names = [name for name in tracked.files(checkout) or () if not name.startswith(approvals)]
    # A file that somebody deleted is tracked until the deletion is committed.
    known = [file for name in names if os.path.lexists(file := checkout / name)]
    parts = [_shared(checkout, NOT_READ - {"ops"}), environments, _hash(checkout, known)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _shared(checkout: Path, not_read: frozenset[str] = NOT_READ) -> str:
    """Return the hash of the inputs that all environments share."""
    own = {checkout / ENVIRONMENTS / f"{name}.yaml" for name in available(checkout / ENVIRONMENTS)}
    parts = [path for path in checkout.iterdir() if path.name not in not_read]
    left_out = {checkout / ENVIRONMENTS / APPROVALS, *own, *checkout.glob(_CACHES)}
    read = _files(parts, left_out=frozenset(left_out))
    return _hash(checkout, read)


def own(checkout: Path, name: str) -> str | None:
    """Return the hash of one environment's own inputs; None if the checkout lacks the environment."""
    file = checkout / ENVIRONMENTS / f"{name}.yaml"
    if not file.is_file():
        return None
    return _hash(checkout, [file, *_files(_folders(checkout, file))])


def removable_nodes(checkout: Path, name: str) -> int:
    """Return the limit beside an environment's approvals; 0 if there is none that can be read."""
    try:
        value = strict_yaml.read(checkout / ENVIRONMENTS / APPROVALS / f"{name}.yaml").values.get(REMOVABLE)
    except (OSError, strict_yaml.UnreadableFileError):
        return 0
    return value if is_removable(value) else 0


def is_removable(value: object) -> TypeGuard[int]:
    """Return whether a file's value is a number of nodes."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def own_folders(checkout: Path, name: str) -> Iterator[Path]:
    """Yield the folders that an environment names."""
    return _folders(checkout, checkout / ENVIRONMENTS / f"{name}.yaml")


def walk(checkout: Path) -> Iterator[Path]:
    """Yield all files of a checkout but those that programs install or make."""
    parts = [path for path in checkout.iterdir() if path.name not in NOT_READ - SOURCES_NOT_READ]
    return _files(parts, left_out=frozenset(checkout.glob(_CACHES)))


def _folders(checkout: Path, file: Path) -> Iterator[Path]:
    """Yield the folders that an environment names: lifecycle scripts may be anywhere, even below NOT_READ."""
    try:
        texts = set(_texts(strict_yaml.read(file).values))
    except strict_yaml.UnreadableFileError:
        return
    project = checkout.resolve()
    for text in sorted(texts):
        try:
            folder = (project / text).resolve()
            inside = folder != project and folder.is_relative_to(project) and folder.is_dir()
        except (OSError, ValueError):
            # Not every text is a valid file name.
            continue
        if inside:
            yield checkout / folder.relative_to(project)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _files(
    paths: Iterator[Path] | list[Path],
    within: frozenset[Path] = frozenset(),
    *,
    left_out: frozenset[Path] = frozenset(),
) -> Iterator[Path]:
    """Yield the files of these paths, of their folders and of linked folders, and the links themselves."""
    for path in sorted(paths):
        if path.name == _BYTECODE or path in left_out:
            continue
        if path.is_symlink() or not path.is_dir():
            yield path
        if path.is_dir() and (real := path.resolve()) not in within:
            yield from _files(path.iterdir(), within | {real}, left_out=left_out)


def _hash(checkout: Path, files: Iterator[Path] | list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        link = str(file.readlink()) if file.is_symlink() else ""
        executable = bool(file.lstat().st_mode & 0o111)
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        digest.update(repr((file.relative_to(checkout).as_posix(), link, executable, content)).encode())
    return digest.hexdigest()
