"""CODEOWNERS demands an owner's review of exactly what the review calls content."""

import re
import subprocess
from pathlib import Path

import pytest

from ops.review.checkouts import owners, tracked
from ops.review.checkouts.content import owner_of
from rehearsal.paths import REPOSITORY
from tests.unit.ops.review.test_content import CONTENT, HARMLESS

COMMITTED = REPOSITORY / owners.FILE


def owner(codeowners: str, path: str) -> str:
    """Return the owner of a file as GitHub's page "About code owners" describes it; empty if it has none."""
    found = ""
    for line in codeowners.splitlines():
        pattern, _, team = line.partition(" ")
        if not line.startswith("#") and matches(pattern, path):
            found = team
    return found


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern of CODEOWNERS matches: a leading slash anchors, a trailing one means all below."""
    if pattern == "*":
        return True
    assert pattern.startswith("/"), f"{pattern}: not read by this test"
    assert not set("!?[]\\") & set(pattern), f"{pattern}: GitHub does not read it"
    wanted, parts = pattern.strip("/").split("/"), path.split("/")
    if len(parts) < len(wanted) or (len(parts) == len(wanted) and pattern.endswith("/")):
        return False
    # A name without a trailing slash may be a folder, too.
    return all(re.fullmatch(re.escape(w).replace(r"\*", ".*"), p) for w, p in zip(wanted, parts, strict=False))


def test_committed_file_is_what_the_command_writes(tmp_path: Path) -> None:
    """Scripts that environments name come last: the users' environments are not read here."""
    (tmp_path / "environments").mkdir()
    team = owners.team(REPOSITORY)
    table, rest = owners.text(tmp_path, team), COMMITTED.read_text()
    assert rest.startswith(table), "run `make owners`"
    assert all(line.startswith("/") and line.endswith(f"/ {team}") for line in rest.removeprefix(table).splitlines())


@pytest.mark.parametrize("path", [*(path for paths in CONTENT.values() for path in paths), *HARMLESS])
def test_owners_are_of_what_the_review_names(path: str) -> None:
    assert bool(owner(COMMITTED.read_text(), path)) is bool(owner_of(path))


def test_owners_are_of_all_tracked_files_that_the_review_names() -> None:
    text = COMMITTED.read_text()
    paths = tracked.files(REPOSITORY) or []
    assert len(paths) > 1000
    assert {path for path in paths if owner(text, path)} == {path for path in paths if owner_of(path)}


def test_file_is_where_github_looks_first_and_small_enough() -> None:
    """GitHub reads .github/, then the root, then docs/, and no file above 3 MB."""
    assert owners.FILE == ".github/CODEOWNERS"
    assert COMMITTED.stat().st_size < 3_000_000
    assert owner(COMMITTED.read_text(), owners.FILE)


def make_owners(tmp_path: Path, *team: str) -> subprocess.CompletedProcess[str]:
    line = next(line for line in (REPOSITORY / "Makefile").read_text().splitlines() if ".checkouts.owners" in line)
    assert line == "\t@$(RUN) $(VENV)/python -m ops.review.checkouts.owners '$(TEAM)'"
    argv = [str(REPOSITORY / ".venv" / "bin" / "python"), "-m", "ops.review.checkouts.owners", *team]
    env = {"PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(argv, cwd=tmp_path, env=env, text=True, capture_output=True, check=False)


def test_team_is_kept_and_a_placeholder_is_named(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    first = make_owners(tmp_path, "")
    assert first.returncode == 0
    assert first.stderr == "owners: .github/CODEOWNERS names no real team. Fix: run `make owners TEAM=@OWNER/TEAM`\n"
    assert owners.note(tmp_path).startswith(
        ".github/CODEOWNERS of the base names no real team, so GitHub asks no owner."
    )
    assert make_owners(tmp_path, "@acme/ml-platform").stderr == ""
    assert owners.note(tmp_path) == ""
    assert make_owners(tmp_path, "").stderr == ""
    assert owners.team(tmp_path) == "@acme/ml-platform"
    wrong = make_owners(tmp_path, "acme")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("owners: TEAM: 'acme' is invalid. Allowed: @OWNER/TEAM")


def test_scripts_that_an_environment_names_have_owners(tmp_path: Path) -> None:
    (tmp_path / "docs" / "scripts").mkdir(parents=True)
    (tmp_path / "environments").mkdir()
    named = "hyperpod:\n  instance_groups:\n    - name: workers\n      lifecycle_scripts: docs/scripts\n"
    (tmp_path / "environments" / "dev.yaml").write_text(named)
    text = owners.text(tmp_path, "@acme/platform")
    assert owner(text, "docs/scripts/on_create.sh") == "@acme/platform"
    assert owner(text, "docs/page.md") == ""
