"""List the local files of an upload, and find a safe local path for a download."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ops.data.errors import BadPathError


def files(source: Path) -> dict[str, Path]:
    """Return the files of a folder by their path in it, or the one file by its name.

    Raises BadPathError for what no object can represent, and for a symbolic link that leads out of the folder.
    """
    if source.is_file():
        return {source.name: source}
    if not source.is_dir():
        raise BadPathError(f"{source} is invalid: there is no such file or folder. Fix: name an existing one")
    root = source.resolve()
    found = {path.relative_to(root).as_posix(): path for path in _walk(root, root)}
    if not found:
        raise BadPathError(f"{source} has no files. Allowed: a file, or a folder with files")
    for name in found:
        if not _is_text(name):
            raise BadPathError(f"{os.fsencode(name)!r} is invalid: its name is not UTF-8. Fix: rename it")
    return found


def below(folder: Path, name: str) -> Path:
    """Return the local path of an object's name in the folder. Raises BadPathError if it would leave the folder."""
    parts = name.split("/")
    path = folder.joinpath(*parts)
    if {"", ".", ".."} & set(parts) or not path.parent.resolve().is_relative_to(folder.resolve()):
        raise BadPathError(f"object {name!r} cannot be downloaded: its path leaves {folder}. Fix: rename the object")
    return path


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _walk(root: Path, folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            target = path.resolve()
            if not target.is_relative_to(root):
                raise BadPathError(f"{path} is a symbolic link to {target}, outside of {root}. Fix: copy the file")
            if not target.is_file():
                raise BadPathError(f"{path} is a symbolic link to {target}. Allowed: links to files. Fix: remove it")
            yield path
        elif path.is_dir():
            yield from _walk(root, path)
        elif path.is_file():
            yield path
        else:
            raise BadPathError(f"{path} is no file. Allowed: files and folders. Fix: remove it")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
