"""Check out one folder of a git repository at a commit."""

import os
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from config.facts.charts_lock import GitFolder

TIMEOUT_SECONDS: Final = 60


class GitFolderError(Exception):
    """The folder cannot be checked out; the message says why, and how to fix it."""


def check_out(folder: GitFolder, target: Path, mirror: str | None) -> None:
    """Put the folder at `target`, unverified; the repository is beside it. Raises GitFolderError."""
    url = mirrored(folder.repository, mirror)
    repository = target.with_name("repository")
    git = ["git", "-C", str(repository), "-c", "core.autocrlf=false", "-c", "core.fileMode=true"]
    repository.mkdir()
    try:
        for arguments in (
            ["init", "--quiet"],
            ["fetch", "--quiet", "--depth", "1", url, folder.commit],
            ["checkout", "--quiet", folder.commit, "--", folder.path],
        ):
            subprocess.run(
                [*git, *arguments],
                check=True,
                capture_output=True,
                text=True,
                timeout=10 * TIMEOUT_SECONDS,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            )
    except FileNotFoundError:
        raise GitFolderError("git is not installed, and this download needs it. Fix: install git") from None
    except subprocess.TimeoutExpired:
        raise GitFolderError(not_fetched(url, "no answer in time")) from None
    except subprocess.CalledProcessError as error:
        raise GitFolderError(not_fetched(url, error.stderr.partition("\n")[0])) from None
    (repository / folder.path).rename(target)


def not_fetched(url: str, reason: str) -> str:
    """Return the message about a host that does not give the file."""
    host = urlsplit(url).netloc or url
    return f"cannot fetch it from {host} ({url}): {reason}. Fix: give a mirror with --mirror, or retry with a network"


def mirrored(url: str, mirror: str | None) -> str:
    """Return the URL at the mirror, if there is one."""
    return mirror.rstrip("/") + urlsplit(url).path if mirror else url
