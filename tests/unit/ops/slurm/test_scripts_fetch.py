"""`ops scripts fetch` against a git repository on this machine."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from config.facts import scripts_lock
from config.facts.charts_lock import GitFolder, git_tree
from ops.commands.whole import app


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publish scripts and put them into the lock; return the mirror."""
    repository = tmp_path / "git" / "aws" / "scripts.git"
    (repository / "scripts" / "base-config").mkdir(parents=True)
    (repository / "scripts" / "base-config" / "on_create.sh").write_text("#!/bin/bash\n")

    def git(*arguments: str) -> str:
        author = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
        argv = ["git", "-C", str(repository), *author, *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "--quiet", "--message", "scripts")
    folder = GitFolder(
        name="base-config",
        version="1",
        repository="https://example.com/aws/scripts.git",
        commit=git("rev-parse", "HEAD"),
        path="scripts/base-config",
        tree=git("rev-parse", "HEAD:scripts/base-config"),
    )
    monkeypatch.setattr(scripts_lock, "locked", lambda: folder)
    return tmp_path / "git"


def fetch(mirror: Path, into: Path) -> Result:
    return CliRunner().invoke(app, ["scripts", "fetch", "--into", str(into), "--mirror", f"file://{mirror}"])


def test_scripts_are_fetched_and_verified(published: Path, tmp_path: Path) -> None:
    result = fetch(published, tmp_path / "new" / "base-config")
    assert result.exit_code == 0, result.output
    assert "fetched and verified" in result.output
    assert git_tree(tmp_path / "new" / "base-config") == scripts_lock.locked().tree
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["base-config"]
    assert "exists, verified" in fetch(published, tmp_path / "new" / "base-config").output


def test_changed_folder_is_refused_and_kept(published: Path, tmp_path: Path) -> None:
    into = tmp_path / "base-config"
    fetch(published, into)
    (into / "mine.sh").write_text("kept")
    result = fetch(published, into)
    assert result.exit_code == 2
    assert "differs from the pinned tree. Allowed: " in result.stderr
    assert (into / "mine.sh").read_text() == "kept"


def test_tree_that_differs_from_the_lock_is_not_kept(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = scripts_lock.locked().model_copy(update={"tree": "0" * 40})
    monkeypatch.setattr(scripts_lock, "locked", lambda: other)
    result = fetch(published, tmp_path / "base-config")
    assert result.exit_code == 2
    assert "the fetched tree is" in result.stderr
    assert not (tmp_path / "base-config").exists()


def test_host_without_the_repository_is_an_error_with_advice(published: Path, tmp_path: Path) -> None:
    result = fetch(tmp_path / "nothing", tmp_path / "base-config")
    assert result.exit_code == 2
    assert "Fix: give a mirror with --mirror" in result.stderr


def test_lock_pins_a_commit_and_a_tree() -> None:
    locked = scripts_lock.locked()
    assert len(locked.commit) == len(locked.tree) == 40
