"""Fetch the publishers' lifecycle scripts for Slurm, pinned as charts are. They are never part of this repository."""

import tempfile
from pathlib import Path

from config.facts import scripts_lock
from config.facts.charts_lock import git_tree
from config.facts.scripts_lock import ScriptsError
from ops.render.git_folder import GitFolderError, check_out


def fetch(into: Path, mirror: str | None = None) -> str:
    """Put the pinned scripts at `into` and return what was done. Raises ScriptsError.

    A folder that exists must be the pinned one: it may hold somebody's changes.
    """
    locked = scripts_lock.locked()
    if into.exists():
        if into.is_dir() and git_tree(into) == locked.tree:
            return f"{into}: exists, verified (commit {locked.commit[:12]})"
        message = f"{into} differs from the pinned tree. Allowed: {locked.tree}. Fix: remove it, or give another --into"
        raise ScriptsError(message)
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        fetched = Path(scratch) / "folder"
        try:
            check_out(locked, fetched, mirror)
        except GitFolderError as error:
            raise ScriptsError(str(error)) from None
        if (found := git_tree(fetched)) != locked.tree:
            message = f"the fetched tree is {found}. Allowed: {locked.tree}. Fix: fetch it elsewhere (--mirror)"
            raise ScriptsError(message)
        fetched.rename(into)
    return f"{into}: fetched and verified (commit {locked.commit[:12]})"
