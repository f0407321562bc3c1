"""The rehearsal's copy of the project, and the edit that it makes there as a user would."""

import difflib
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

import config
from rehearsal.paths import REPOSITORY
from rehearsal.run.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.mark.parametrize("name", config.available())
def test_growing_changes_the_counts_and_nothing_else(project: Project, name: str) -> None:
    file = project.directory / "environments" / f"{name}.yaml"
    before = file.read_text().splitlines()
    group, count, grown = project.grow_workers(name, by=1)
    changed = [line for line in difflib.ndiff(before, file.read_text().splitlines()) if line[0] in "+-"]
    assert (group, grown) == ("worker-group-1", count + 1)
    keys = {line[1:].strip().partition(":")[0] for line in changed}
    assert {"count", "replicas"} <= keys <= {"count", "replicas", "max_replicas"}


@pytest.mark.parametrize("name", config.available())
def test_a_grown_environment_is_valid_and_bigger_by_a_node_and_a_ray_worker(project: Project, name: str) -> None:
    before = config.load(name)
    project.grow_workers(name, by=1)
    after = config.load(name, project.directory / "environments")
    for environment, more in ((before, 0), (after, 1)):
        assert environment.hyperpod.instance_groups[-1].count == before.hyperpod.instance_groups[-1].count + more
        workers = environment.ray.clusters[0].workers[0]
        assert workers.replicas == before.ray.clusters[0].workers[0].replicas + more
        assert workers.replicas <= workers.max_replicas


@pytest.mark.parametrize("name", config.examples())
def test_an_example_is_edited_as_an_environment_of_the_copy(project: Project, name: str) -> None:
    directory = project.directory / "environments"
    own = directory / f"{name}.yaml"
    own.unlink(missing_ok=True)
    count = config.load_any(name, directory).hyperpod.instance_groups[-1].count
    project.grow_workers(name, by=1)
    assert config.load_any(name, directory).hyperpod.instance_groups[-1].count == count + 1
    assert set(config.available(directory)) == {*config.available(), name}


def test_the_user_s_own_files_stay_as_they_are(project: Project) -> None:
    original = config.load("dev")
    project.grow_workers("dev", by=3)
    assert config.load("dev") == original


def test_the_copy_has_what_synth_needs_and_no_leftover_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "leftover.py").write_text("")
    directory = Project(tmp_path / "project").directory
    names = {path.name for path in directory.iterdir()}
    assert {"app.py", "cdk.json", "environments", "stacks", "handlers", "node_modules"} <= names
    assert not {"leftover.py", "tests", "rehearsal", ".git", ".venv"} & names


def test_a_python_in_the_copy_compiles_no_module_that_is_compiled_already(tmp_path: Path) -> None:
    source = REPOSITORY / "config" / "__init__.py"
    py_compile.compile(str(source), doraise=True)
    copy = Project(tmp_path / "project").directory / "config" / "__init__.py"
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('config').loader.get_code('config') is None)"
    report = subprocess.run(
        [sys.executable, "-v", "-c", code], cwd=copy.parents[1], env={}, capture_output=True, text=True, check=True
    ).stderr
    assert f"matches {copy}" in report
