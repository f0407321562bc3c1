"""Prepare a job: its command line, and the folder that is uploaded as its working directory."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.suggest import did_you_mean
from ops.jobs.packing import LIBRARY, EntryError, LargePackage, Package, library, pack

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOBS: Final = _REPOSITORY / "ray_jobs"
"""The folder of the project's own jobs."""

# A file of ray_jobs with this text is a job; the others are modules that jobs import.
_STARTS: Final = 'if __name__ == "__main__":'


@dataclass(frozen=True)
class Entrypoint:
    """What a job starts: `command` is a shell command, `title` the first part of the run's default name."""

    command: str
    title: str
    package: Package | LargePackage | None


def own_jobs() -> list[str]:
    """Return the names of the project's own jobs, sorted."""
    return sorted(path.stem for path in JOBS.glob("*.py") if _STARTS in path.read_text())


Pack = Callable[..., Package | LargePackage]
"""`ops.jobs.packing.pack`, perhaps with places that show its progress."""


def entry(
    job: str | None,
    words: Sequence[str],
    folder: Path | None,
    exclude: Sequence[str],
    launcher: str = "python",
    *,
    pack: Pack = pack,
) -> Entrypoint:
    """Return what `ops job submit JOB -- WORDS` starts.

    Args:
        job: A Python file of `ray_jobs/` (.py is optional) or a local one.
        words: The arguments of the file; without `job`, the whole command.
        folder: The working directory. Default: the file's folder; for a command, none, or the training library if the
            command runs it (`python -m ray_resume`).
        exclude: Patterns of names or paths in `folder` that are not uploaded.
        launcher: The program that starts the file.
        pack: Zips the working directory.

    Raises:
        EntryError: The file or the folder does not exist, or the folder cannot be packed.
    """
    if folder is not None and not folder.is_dir():
        raise EntryError(
            f"--working-dir: {str(folder)!r} is invalid: there is no such folder. Fix: name an existing folder"
        )
    if job is None:
        return _of_command(words, folder, exclude, pack)
    script = _script(job)
    inside = (folder or script.parent).resolve()
    if not script.is_relative_to(inside):
        raise EntryError(f"{job} is not in --working-dir {folder}. Fix: choose a --working-dir that contains it")
    command = shlex.join([launcher, script.relative_to(inside).as_posix(), *words])
    return Entrypoint(command, script.stem, pack(inside, exclude, wanted=script))


def _of_command(words: Sequence[str], folder: Path | None, exclude: Sequence[str], pack: Pack) -> Entrypoint:
    if not words:
        raise EntryError("nothing to submit. Allowed: a Python file, or a command after `--`")
    for word in words:
        path = Path(word)
        if path.suffix == ".py" and not path.is_absolute() and not (folder and (folder / path).is_file()):
            where = f"in {folder}" if folder else "in a job without --working-dir"
            raise EntryError(
                f"{word}: there is no such file {where}. Fix: give --working-dir, or an absolute path on the nodes"
            )
    package: Package | LargePackage | None = None
    if folder:
        package = pack(folder.resolve(), exclude)
    elif LIBRARY.name in words:
        package = library()
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
