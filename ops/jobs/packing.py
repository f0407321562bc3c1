"""Zip the folder that becomes a job's working directory."""

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Final, TypeVar

from rich.console import Console

from ops.progress import Bytes, Say, size

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
LIBRARY: Final = _REPOSITORY / "packages" / "ray-resume" / "ray_resume"
"""The training library. Each package carries it: jobs run with the checkout's version in any image."""

FETCHER: Final = _REPOSITORY / "ray_jobs" / "working_dir" / "fetch_working_dir.py"
"""The program that starts in front of the command of a job whose working directory is in the data bucket."""

LARGEST_BYTES: Final = 1_000_000
"""Most bytes of a package. A ConfigMap, limited to 1 MiB by Kubernetes, carries it so that it outlives the head."""

LARGEST_FOLDER_BYTES: Final = 500_000_000
"""Most bytes of a working directory's files; what is larger than a package goes through the data bucket."""

_T = TypeVar("_T")
_LISTED: Final = 10
_BLOCK_BYTES: Final = 1 << 20
_NEVER: Final = (".git", "__pycache__", "*.pyc", ".venv", "node_modules", ".ipynb_checkpoints", ".mypy_cache")
# The earliest time in a zip file: the package's name must depend on its content, not on the time.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
# Of a zip file with one folder only, Ray strips this folder if it fetches the file from elsewhere than its own head.
_BESIDE_THE_FOLDER: Final = ".ray-on-hyperpod"


class EntryError(Exception):
    """The job cannot be submitted; the message says why."""


@dataclass(frozen=True)
class Package:
    """A zip file under Ray's own name for it, a hash of its content."""

    name: str
    content: bytes

    @property
    def uri(self) -> str:
        """The package's address in a runtime environment."""
        return f"gcs://{self.name}"


@dataclass(frozen=True)
class LargePackage:
    """A zip file that is too large for a ConfigMap; `digest` is the SHA-256 of its content."""

    digest: str
    size: int
    file: IO[bytes] = field(compare=False)


def pack(
    folder: Path,
    exclude: Sequence[str],
    wanted: Path | None = None,
    *,
    console: Console | None = None,
    say: Say = lambda _: None,
) -> Package | LargePackage:
    """Zip a folder without the files that `exclude` matches (patterns of names or paths), and the training library.

    A folder's own `ray_resume` replaces the library. A large folder's progress is shown on `console`.

    Raises EntryError if the folder is too large, cannot be read, or is without the file `wanted`.
    """
    others: list[str] = []
    own = dict(_content(folder, exclude, others))
    if wanted and not any(path.resolve() == wanted for path in own.values()):
        raise EntryError(f"--exclude matches {wanted.name} itself. Fix: narrow the pattern")
    sizes = {name: _reading(path, Path.stat).st_size for name, path in own.items()}
    if sum(sizes.values()) > LARGEST_FOLDER_BYTES:
        raise _too_large(folder, sizes)
    replaced = (folder / LIBRARY.name).exists() or (folder / f"{LIBRARY.name}.py").exists()
    content = own | ({} if replaced else dict(_library()))
    if others:
        say(f"left out: {len(others)} of {folder} that are neither files nor folders, such as {others[0]!r}")
    # Without a name: whatever ends the program, the file goes with it.
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is read long after this function
    shown = Bytes(f"packing {len(sizes)} files", sum(sizes.values()), console, say)
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, shown:
            for name, path in content.items():
                _add(archive, name, path, shown.add)
            large = file.tell() > LARGEST_BYTES
            if large and len({name.partition("/")[0] for name in content}) == 1:
                archive.writestr(zipfile.ZipInfo(_BESIDE_THE_FOLDER, _NO_TIME), b"")
    except OSError as error:
        raise EntryError(
            f"{tempfile.gettempdir()} cannot hold the package of {folder}: {error.strerror}. "
            "Fix: free space there, or set TMPDIR to another folder"
        ) from error
    if not large:
        with file:
            file.seek(0)
            return _package(file.read())
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    length = file.tell()
    file.seek(0)
    return LargePackage(digest, length, file)


def library() -> Package:
    """Return the package with the training library, and the program that fetches a working directory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in (*_library(), (FETCHER.name, FETCHER)):
            _add(archive, name, path, lambda _: None)
    return _package(buffer.getvalue())


def _package(content: bytes) -> Package:
    return Package(f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:16]}.zip", content)


def _add(archive: zipfile.ZipFile, name: str, path: Path, add: Callable[[int], None]) -> None:
    """Add a file to the archive, and call `add` with the bytes that were read. Raises EntryError."""
    before = _reading(path, Path.stat)
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (before.st_mode & 0o777) << 16
    length = 0
    with _reading(path, lambda path: path.open("rb")) as source, archive.open(info, "w") as target:
        while block := _reading(path, lambda _: source.read(_BLOCK_BYTES)):
            target.write(block)
            length += len(block)
            add(len(block))
    after = _reading(path, Path.stat)
    if (length, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise EntryError(
            f"{path} changed while it was packed. Fix: run the command again once nothing writes to it, "
            "or leave it out with --exclude"
        )


def _reading(path: Path, read: Callable[[Path], _T]) -> _T:
    """Return what `read` reads of a path. Raises EntryError."""
    try:
        return read(path)
    except OSError as error:
        raise EntryError(
            f"{path} cannot be read: {error.strerror}. Fix: allow it, or leave it out with --exclude"
        ) from error


def _too_large(folder: Path, sizes: Mapping[str, int]) -> EntryError:
    largest = sorted(sizes.items(), key=lambda each: (-each[1], each[0]))[:_LISTED]
    return EntryError(
        f"{folder} has {sum(sizes.values()):,} bytes of files. Allowed: {LARGEST_FOLDER_BYTES:,}. "
        f"Largest: {', '.join(f'{name} ({size(count)})' for name, count in largest)}. "
        "Fix: leave data out with --exclude, choose another --working-dir, or start code from the shared file system"
    )


def _content(folder: Path, exclude: Sequence[str], others: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield each file of a folder by its name there; add what is neither a file nor a folder to `others`."""
    for path in _files(folder, folder, (*_NEVER, *exclude), others):
        name = path.relative_to(folder).as_posix()
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise EntryError(f"{str(path)!r} is invalid: its name is not UTF-8. Fix: rename it") from error
        yield name, path


def _library() -> Iterator[tuple[str, Path]]:
    for path in _files(LIBRARY, LIBRARY, _NEVER, []):
        yield f"{LIBRARY.name}/{path.relative_to(LIBRARY).as_posix()}", path


def _files(
    root: Path, folder: Path, exclude: Sequence[str], others: list[str], above: frozenset[Path] = frozenset()
) -> Iterator[Path]:
    above |= {folder.resolve()}
    for path in _sorted(folder):
        name = path.relative_to(root).as_posix()
        if any(fnmatch(path.name, pattern) or fnmatch(name, pattern) for pattern in exclude):
            continue
        if _reading(path, Path.is_dir):
            if path.resolve() in above:
                raise EntryError(
                    f"{path} is a symbolic link to a folder that contains it. Fix: leave it out with --exclude"
                )
            yield from _files(root, path, exclude, others, above)
        elif _reading(path, Path.is_file):
            yield path
        else:
            others.append(name)


def _sorted(folder: Path) -> Iterable[Path]:
    return _reading(folder, lambda folder: sorted(folder.iterdir()))
