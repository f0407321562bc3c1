"""Prepare a job: its command line, and the folder that is uploaded as its working directory."""

import hashlib
import io
import shlex
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from config.suggest import did_you_mean

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOBS: Final = _REPOSITORY / "ray_jobs"
"""The folder of the project's own jobs."""

LIBRARY: Final = _REPOSITORY / "packages" / "ray-resume" / "ray_resume"
"""The training library. Each package carries it: jobs run with the checkout's version in any image."""

LARGEST_BYTES: Final = 1_000_000
"""Most bytes of a package. A ConfigMap, limited to 1 MiB by Kubernetes, carries it so that it outlives the head."""

# No code compresses that well: a larger file is not even read.
_HOPELESS: Final = 50 * LARGEST_BYTES
# A file of ray_jobs with this text is a job; the others are modules that jobs import.
_STARTS: Final = 'if __name__ == "__main__":'
_NEVER: Final = (".git", "__pycache__", "*.pyc", ".venv", "node_modules", ".ipynb_checkpoints", ".mypy_cache")
# The earliest time in a zip file: the package's name must depend on its content, not on the time.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


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
class Entrypoint:
    """What a job starts: `command` is a shell command, `title` the first part of the run's default name."""

    command: str
    title: str
    package: Package | None


def own_jobs() -> list[str]:
    """Return the names of the project's own jobs, sorted."""
    return sorted(path.stem for path in JOBS.glob("*.py") if _STARTS in path.read_text())


def entry(
    job: str | None, words: Sequence[str], folder: Path | None, exclude: Sequence[str], launcher: str = "python"
) -> Entrypoint:
    """Return what `ops job submit JOB -- WORDS` starts.

    Args:
        job: A Python file of `ray_jobs/` (.py is optional) or a local one.
        words: The arguments of the file; without `job`, the whole command.
        folder: The working directory. Default: the file's folder; for a command, none.
        exclude: Patterns of names or paths in `folder` that are not uploaded.
        launcher: The program that starts the file.

    Raises:
        EntryError: The file or the folder does not exist, or the package is too large.
    """
    if folder is not None and not folder.is_dir():
        raise EntryError(
            f"--working-dir: {str(folder)!r} is invalid: there is no such folder. Fix: name an existing folder"
        )
    if job is None:
        return _of_command(words, folder, exclude)
    script = _script(job)
    inside = (folder or script.parent).resolve()
    if not script.is_relative_to(inside):
        raise EntryError(f"{job} is not in --working-dir {folder}. Fix: choose a --working-dir that contains it")
    command = shlex.join([launcher, script.relative_to(inside).as_posix(), *words])
    return Entrypoint(command, script.stem, pack(inside, exclude, wanted=script))


def pack(folder: Path, exclude: Sequence[str], wanted: Path | None = None) -> Package:
    """Zip a folder without the files that `exclude` matches (patterns of names or paths), and the training library.

    A folder's own `ray_resume` replaces the library.

    Raises EntryError if the package is too large, or without the file `wanted`.
    """
    buffer, largest = io.BytesIO(), (0, "")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in _content(folder, exclude):
            before, status = buffer.tell(), path.stat()
            if status.st_size > _HOPELESS:
                raise _too_large(folder, name)
            info = zipfile.ZipInfo(name, _NO_TIME)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (status.st_mode & 0o777) << 16
            archive.writestr(info, path.read_bytes())
            largest = max(largest, (buffer.tell() - before, name))
            if path.resolve() == wanted:
                wanted = None
            if buffer.tell() > LARGEST_BYTES:
                raise _too_large(folder, largest[1])
    if wanted:
        raise EntryError(f"--exclude matches {wanted.name} itself. Fix: narrow the pattern")
    content = buffer.getvalue()
    return Package(f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:16]}.zip", content)


def _too_large(folder: Path, largest: str) -> EntryError:
    return EntryError(
        f"{folder} is larger than {LARGEST_BYTES / 1e6:g} MB when packed (largest: {largest}). Fix: leave data out "
        "with --exclude, choose another --working-dir, or start code from the shared file system"
    )


def _of_command(words: Sequence[str], folder: Path | None, exclude: Sequence[str]) -> Entrypoint:
    if not words:
        raise EntryError("nothing to submit. Allowed: a Python file, or a command after `--`")
    for word in words:
        path = Path(word)
        if path.suffix == ".py" and not path.is_absolute() and not (folder and (folder / path).is_file()):
            where = f"in {folder}" if folder else "in a job without --working-dir"
            raise EntryError(
                f"{word}: there is no such file {where}. Fix: give --working-dir, or an absolute path on the nodes"
            )
    package = pack(folder.resolve(), exclude) if folder else None
    return Entrypoint(shlex.join(words), Path(words[0]).name, package)


def _script(job: str) -> Path:
    for path in (Path(job), JOBS / job, JOBS / f"{job}.py"):
        if path.suffix == ".py" and path.is_file():
            return path.resolve()
    own = own_jobs()
    fix = did_you_mean(Path(job).stem, own, "name one of them, or a file of your own")
    raise EntryError(
        f"job {job!r} is invalid: there is no such Python file, here or in ray_jobs. "
        f"Allowed: {', '.join(own) or 'a file of your own'}. Fix: {fix}"
    )


def _content(folder: Path, exclude: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield each file of a package by its name there."""
    for path in _files(folder, folder, (*_NEVER, *exclude)):
        yield path.relative_to(folder).as_posix(), path
    if not (folder / LIBRARY.name).exists() and not (folder / f"{LIBRARY.name}.py").exists():
        for path in _files(LIBRARY, LIBRARY, _NEVER):
            yield f"{LIBRARY.name}/{path.relative_to(LIBRARY).as_posix()}", path


def _files(root: Path, folder: Path, exclude: Sequence[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        name = path.relative_to(root).as_posix()
        if any(fnmatch(path.name, pattern) or fnmatch(name, pattern) for pattern in exclude):
            continue
        if path.is_dir():
            yield from _files(root, path, exclude)
        elif path.is_file():
            yield path
