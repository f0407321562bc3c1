"""The rules of a folder of lifecycle scripts."""

from pathlib import Path

import pytest

from config import load
from config.rules import lifecycle_scripts

START = "#!/bin/bash\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that dev's groups name, in a temporary project; its entry point calls `main.sh`."""
    monkeypatch.setattr(lifecycle_scripts, "PROJECT", tmp_path)
    folder = tmp_path / "lifecycle_scripts" / "eks"
    folder.mkdir(parents=True)
    (folder / "on_create.sh").write_text(f'{START}main=$(cd "$(dirname "$0")" && pwd)/main.sh\nbash "$main"\n')
    (folder / "main.sh").write_text(START)
    return folder


DEV = load("dev")


def said() -> list[str]:
    return [finding.reason for finding in lifecycle_scripts.lifecycle_scripts.check(DEV)]


def test_a_complete_folder_gives_no_finding(folder: Path) -> None:
    assert said() == []


def test_the_entry_point_must_be_there(folder: Path) -> None:
    (folder / "on_create.sh").unlink()
    assert said() == ["it has no on_create.sh"]


@pytest.mark.parametrize(
    "call", ['"$(pwd)/other.sh"', "./other.sh", "bash other.sh", 'source "${script_dir}/other.sh"']
)
def test_a_script_that_is_called_must_be_there(folder: Path, call: str) -> None:
    (folder / "main.sh").write_text(f"{START}{call}\n")
    assert said() == ["main.sh calls other.sh, which does not exist"]
    (folder / "other.sh").write_text(START)
    assert said() == []


def test_a_script_named_in_a_comment_or_elsewhere_is_not_called(folder: Path) -> None:
    (folder / "main.sh").write_text(f"{START}# ./other.sh\n[[ -f /opt/other/setup.sh ]] && echo found\n")
    assert said() == []


def test_line_endings_must_be_unix_ones(folder: Path) -> None:
    (folder / "main.sh").write_bytes(b"#!/bin/bash\r\n")
    assert said() == ["main.sh has Windows line endings"]


def test_a_script_must_name_its_interpreter(folder: Path) -> None:
    (folder / "main.sh").write_text("echo\n")
    assert said() == ["main.sh names no interpreter"]


def test_a_link_out_of_the_project_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for script in folder.iterdir():
        script.rename(elsewhere / script.name)
    folder.rmdir()
    folder.symlink_to(elsewhere)
    assert said() == ["it is not a folder of the project"]
