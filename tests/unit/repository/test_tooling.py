"""Files that other tools read: pre-commit hooks, dependency updates, the development container."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from rehearsal.paths import REPOSITORY

# The files that each Dependabot ecosystem reads in a listed directory.
MANIFESTS = {
    "pip": re.compile(r"pyproject\.toml|requirements[\w-]*\.in"),
    "npm": re.compile(r"package\.json"),
    "gomod": re.compile(r"go\.mod"),
    "github-actions": re.compile(r"action\.ya?ml"),
}


def read(name: str) -> Any:
    return yaml.safe_load((REPOSITORY / name).read_text())


def programs_of_make_check() -> list[str]:
    """Return the program or module that each line of the target `check` and of its check of the locks starts."""
    makefile = (REPOSITORY / "Makefile").read_text()
    recipe = "".join(
        makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0] for target in (".venv/.locks", "check")
    )
    lines = re.findall(r"^\t@\$\(RUN\) (?:\$\(VENV\)/python -m )?(.*)$", recipe, re.MULTILINE)
    return [" ".join(line.split()[:2]) if line.startswith(("ruff", "rehearsal")) else line.split()[0] for line in lines]


def test_hooks_are_the_parts_of_make_check() -> None:
    [repository] = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    entries = [
        re.sub(r"^\.venv/bin/(python -m )?|^env \S+ ", "", hook["entry"]).split(" --")[0]
        for hook in repository["hooks"]
    ]
    assert entries == programs_of_make_check()
    assert len(entries) > 5


def test_hooks_of_locks_shell_scripts_and_workflows_match_what_make_check_reads() -> None:
    [repository] = read(".pre-commit-config.yaml")["repos"]
    patterns = {hook["id"]: re.compile(hook["files"]) for hook in repository["hooks"] if "files" in hook}
    read_by = {
        "shellcheck": [
            "setup.sh",
            *map(str, relative("requirements/*.sh")),
            ".ci/run",
            *map(str, relative("lifecycle_scripts/eks/*.sh")),
            *map(str, relative("lifecycle_scripts/slurm/*.sh")),
        ],
        "actionlint": [*map(str, relative(".github/workflows/*.yml"))],
        "lock-files": [
            "pyproject.toml",
            "requirements.txt",
            *map(str, relative("packages/*/pyproject.toml")),
            *map(str, relative("requirements/*")),
            *map(str, relative("ray_image/requirements.*")),
        ],
    }
    for hook, paths in read_by.items():
        assert [path for path in tracked() if patterns[hook].search(path)] == sorted(paths)


def test_dependency_updates_look_into_every_directory_with_dependencies() -> None:
    updates = read(".github/dependabot.yml")
    assert updates["version"] == 2
    listed = {
        (update["package-ecosystem"], directory.strip("/"))
        for update in updates["updates"]
        for directory in update.get("directories", [update.get("directory")])
    }
    # "/" also means .github/workflows.
    needed = {("github-actions", "")} | {
        (ecosystem, "" if parent == "." else parent)
        for path in tracked()
        for ecosystem, name in MANIFESTS.items()
        for parent in [str(Path(path).parent)]
        if name.fullmatch(Path(path).name)
    }
    assert listed == needed
    assert all(update["schedule"]["interval"] for update in updates["updates"])


def test_the_development_container_is_set_up_by_a_target_of_make() -> None:
    container = json.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_text())
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert f"\n{target}:" in (REPOSITORY / "Makefile").read_text()
    [minor] = re.findall(r"^python:3\.(\d+)-", container["image"])
    oldest = re.search(
        r"Python 3\.(\d+) or newer with venv is needed", (REPOSITORY / "requirements" / "python.sh").read_text()
    )
    assert oldest
    assert int(minor) >= int(oldest[1])


def relative(pattern: str) -> list[Path]:
    return [path.relative_to(REPOSITORY) for path in REPOSITORY.glob(pattern)]


def tracked() -> list[str]:
    listing = ["git", "-C", str(REPOSITORY), "ls-files"]
    return sorted(subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines())
