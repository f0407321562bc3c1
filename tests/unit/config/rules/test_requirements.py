"""The rules of `ray_image/requirements.txt`: every line is pinned and has hashes."""

from pathlib import Path

import pytest

from config import load
from config.rules import image
from tests.unit.support.findings import assert_whole

HASH = f"--hash=sha256:{'0' * 64}"
DEV = load("dev")


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a temporary file that replaces the project's."""
    file = tmp_path / "requirements.txt"
    monkeypatch.setattr(image, "RAY_IMAGE", tmp_path)
    return file


def test_the_project_s_own_file_gives_no_finding() -> None:
    assert list(image.locked_requirements.check(DEV)) == []


def test_the_output_of_a_lock_tool_gives_no_finding(requirements: Path) -> None:
    requirements.write_text(
        f"# a comment\ntorch==2.6.0 \\\n    {HASH} \\\n    {HASH}\n    # via ray\n\n"
        f"ray[default,train]==2.42.1 {HASH}\n"
        f"tomli==2.0.1 ; python_version < '3.11' \\\n    {HASH}\n"
    )
    assert list(image.locked_requirements.check(DEV)) == []


@pytest.mark.parametrize(
    ("line", "name", "reason"),
    [
        (f"torch>=2.0 \\\n    {HASH}", "torch", "it is not pinned"),
        ("torch", "torch", "it is not pinned"),
        ("git+https://example.com/torch", "git", "it is not pinned"),
        ("-r other.txt", "-r", "it is not pinned"),
        ("--extra-index-url=other", "", "it is not pinned"),
        ("torch==2.6.0", "torch", "its sha256 hashes are missing or incomplete"),
        ("torch==2.6.0 \\\n    --hash=sha256:0123", "torch", "its sha256 hashes are missing or incomplete"),
        (
            f"torch==2.6.0 \\\n    {HASH} \\\n    --hash=md5:0123",
            "torch",
            "its sha256 hashes are missing or incomplete",
        ),
    ],
)
def test_a_line_that_is_not_locked_is_named_with_its_own_file_and_line(
    requirements: Path, line: str, name: str, reason: str
) -> None:
    requirements.write_text(f"numpy==1.26.4 \\\n    {HASH}\n{line}\nclick==8.1.7 {HASH}\n")
    rule = image.locked_requirements
    [finding] = [rule.finding(each, DEV) for each in rule.check(DEV)]
    assert_whole(finding)
    assert (finding.file, finding.line, finding.key, finding.reason) == (requirements, 3, name, reason)


def test_an_existing_image_needs_no_requirements(requirements: Path) -> None:
    requirements.write_text("torch\n")
    existing = DEV.image.model_copy(update={"uri": "example.com/ray:2.42.1", "repository": None})
    assert list(image.locked_requirements.check(DEV.model_copy(update={"image": existing}))) == []
