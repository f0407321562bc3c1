"""The controllers' code is complete, in its pods' namespace, and one changed line changes one hash."""

import ast
import difflib
import sys
from pathlib import Path
from typing import Any

import pytest

from config import EksEnvironment
from k8s_charts.controllers.code import PACKAGE
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.shared import names
from k8s_charts.shared.chart import ProjectChart
from ops.render import manifests
from tests.charts.support.facts import RAY_FACTS
from tests.support.sleeping_environment import with_sleep

Object = dict[str, Any]
MODULES = sorted(PACKAGE.glob("*.py"), key=lambda file: file.name)


@pytest.fixture(scope="module")
def environment(dev: EksEnvironment) -> EksEnvironment:
    """Return an environment with all controllers."""
    return with_sleep(dev)


@pytest.fixture(scope="module")
def ray(environment: EksEnvironment) -> RayObjects:
    return ray_objects(environment, RAY_FACTS)


@pytest.fixture(scope="module")
def code(ray: RayObjects) -> dict[str, Object]:
    """Return the ConfigMaps by name."""
    return {item["metadata"]["name"]: item for item in ray.controller_code.to_json()}


@pytest.fixture(scope="module")
def shown(environment: EksEnvironment) -> dict[Path, str]:
    """Return the rendered files of manifests/ by path."""
    return manifests.render(environment)


def of_kind(kind: str, chart: ProjectChart) -> Object:
    [found] = [item for item in chart.to_json() if item["kind"] == kind]
    return dict(found)


def change(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each read of a file return one more line."""
    read = Path.read_text

    def changed(self: Path, *arguments: Any, **options: Any) -> str:
        return read(self, *arguments, **options) + ("# another line\n" if self == file else "")

    monkeypatch.setattr(Path, "read_text", changed)


def test_each_controller_mounts_its_code_from_its_own_namespace(ray: RayObjects, code: dict[str, Object]) -> None:
    """Therefore, users of Ray's namespace cannot change the reaper's code."""
    deployment = of_kind("Deployment", ray.reaper)
    mounting = {names.REAPER_CODE: (deployment, deployment["spec"])}
    assert ray.sleeper is not None
    sleeper = of_kind("Deployment", ray.sleeper)
    mounting[names.SLEEPER_CODE] = (sleeper, sleeper["spec"])
    for template in ray.job_supervisor.to_json():
        if template["kind"] == "CronJob":
            mounting[f"{template['metadata']['name']}-code"] = (template, template["spec"]["jobTemplate"]["spec"])
    assert mounting.keys() == {
        names.REAPER_CODE,
        names.SLEEPER_CODE,
        names.JOB_SUPERVISOR_CODE,
        names.RAYJOB_SUBMITTER_CODE,
    }
    assert code.keys() == mounting.keys()
    for name, (owner, spec) in mounting.items():
        [volume] = spec["template"]["spec"]["volumes"]
        assert volume["configMap"] == {"name": name}
        assert code[name]["metadata"]["namespace"] == owner["metadata"]["namespace"]
    assert {each["metadata"]["namespace"] for each in (deployment, sleeper)} == {"kuberay"}


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        (names.REAPER_CODE, {"__init__.py", "reaper.py"}, "job_supervisor.py"),
        (names.SLEEPER_CODE, {"__init__.py", "sleeper.py", "sleep_decision.py", "aws_api.py"}, "reaper.py"),
        (names.JOB_SUPERVISOR_CODE, {"__init__.py", "job_supervisor.py", "supervision.py"}, "reaper.py"),
        (names.RAYJOB_SUBMITTER_CODE, {"__init__.py", "rayjob_submitter.py", "ray_jobs_api.py"}, "supervision.py"),
    ],
)
def test_the_code_is_complete_and_needs_only_the_standard_library(
    code: dict[str, Object], name: str, own: set[str], other: str
) -> None:
    files = code[name]["data"]
    assert own <= files.keys()
    assert other not in files, "a change of another controller must not change this one"
    for file, text in files.items():
        for node in ast.walk(ast.parse(text, file, feature_version=(3, 12))):
            imported = [node.module] if isinstance(node, ast.ImportFrom) else []
            imported += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module_name in imported:
                top, _, rest = str(module_name).partition(".")
                assert top in sys.stdlib_module_names or (top == "controllers" and f"{rest}.py" in files), module_name


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.stem)
def test_one_changed_line_changes_a_hash_of_each_controller_that_runs_it_and_nothing_else(
    environment: EksEnvironment,
    shown: dict[Path, str],
    code: dict[str, Object],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(file, monkeypatch)
    after = manifests.render(environment)
    assert shown.keys() == after.keys()
    differences = [
        line
        for path in shown
        for line in difflib.ndiff(shown[path].splitlines(), after[path].splitlines())
        if line.startswith(("+", "-"))
    ]
    running = sum(file.name in item["data"] for item in code.values())
    assert running in (1, 2, 3, 4), "no controller runs this module"
    assert len(differences) == 2 * running
    assert all("ray-on-hyperpod/code: " in line for line in differences)


def test_manifests_hold_no_program_and_name_the_file_of_each(shown: dict[Path, str]) -> None:
    text = "".join(shown.values())
    charts = Path(PACKAGE.parent, "k8s_charts")
    for file in (*MODULES, *charts.glob("*/scripts/*"), charts / "storage" / "own_directory.py"):
        assert f"${{{file.relative_to(PACKAGE.parent)}}}" in text
    programs = ("import ", "def ", "set -euo ")
    assert not [line for line in text.splitlines() if line.lstrip().startswith(programs)]
