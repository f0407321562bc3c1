"""The table of tiers is complete, names the files that each tier reads, and matches CONTRIBUTING and GitHub."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import grimp
import pytest
from ruamel.yaml import YAML

from config import examples
from config.facts import versions
from config.load import EXAMPLES
from rehearsal.drills.table import DRILLS, directories
from rehearsal.paths import JOB, REPOSITORY, ROOT, run_directory
from rehearsal.run import project
from rehearsal.versions import SAMPLE
from schedule import fit
from tiers import TIERS, Tier, drawn

NAMED: Final = {tier.name: tier for tier in TIERS}
NIGHTLY_ONLY: Final = {"thousand-workers"}
# The modules with which each tier's Python starts. A test below covers the folders that it copies.
ENTRIES: Final = {"rehearse-dev": ["rehearsal"], "drills-ray": ["rehearsal"], "jobs": ["tests.jobs"]}
PACKAGES: Final = (
    "bench",
    "config",
    "controllers",
    "handlers",
    "k8s_charts",
    "ops",
    "ray_jobs",
    "ray_resume",
    "rehearsal",
    "tests",
)


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    argv = ["git", "ls-files"]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def imports() -> Any:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def workflow(name: str) -> Any:
    return YAML(typ="safe").load(REPOSITORY / ".github" / "workflows" / name)


def test_all_drills_but_the_nightly_ones_are_in_a_tier() -> None:
    drills = [re.findall(r"NAME='(.*?)'", tier.command) for tier in TIERS]
    assert sorted(" ".join(name for names in drills for name in names).split()) == sorted({*DRILLS} - NIGHTLY_ONLY)


def test_all_drills_run_nightly() -> None:
    played = workflow("nightly.yml")["jobs"]["drills"]["strategy"]["matrix"]["drills"]
    assert sorted(" ".join(played).split()) == sorted(DRILLS)


def test_all_versions_but_ci_s_run_nightly() -> None:
    jobs = workflow("nightly.yml")["jobs"]
    assert jobs["jobs"]["strategy"]["matrix"]["set"] == [name for name in versions.SETS if name != versions.SET_DEFAULT]
    operators = jobs["operators"]["strategy"]["matrix"]["kuberay"]
    assert operators == [version for version in versions.KUBERAY_VERSIONS if version != versions.KUBERAY]


def test_tiers_run_the_readme_s_own_commands_and_type_the_others() -> None:
    commands = {tier.command for tier in TIERS}
    assert {f"make test TIER={tier}" for tier in ("charts", "handlers")} < commands
    assert {"make rehearse", "make check", "make test-readme", "make rehearse-job"} < commands


def test_what_a_run_takes_a_share_of_runs_whole_every_night() -> None:
    whole = {tier.command.partition(" TEST_SHARE=")[0] for tier in TIERS if "TEST_SHARE" in tier.command}
    assert whole == {
        "make test-jobs",
        *(f"make test TIER={tier}" for tier in ("unit", "synth", "embedded-account", "rehearsal")),
    }
    makefile = (REPOSITORY / "Makefile").read_text()
    [parts] = re.findall("^LONG = (.*)$", makefile, re.MULTILINE)
    recipes = dict(re.findall(r"^([\w-]+):\n\t@\$\(MAKE\) (.*)$", makefile, re.MULTILINE))
    assert whole <= {f"make {recipes.get(part, part)}" for part in parts.split()}
    assert "make test-long" in {step.get("run") for step in workflow("nightly.yml")["jobs"]["long"]["steps"]}


def test_the_users_environments_and_the_examples_are_rehearsed_nightly(tmp_path: Path) -> None:
    jobs = workflow("nightly.yml")["jobs"]
    [listing] = [step["run"] for step in jobs["environments"]["steps"] if "run" in step]
    for file in ("environments/mine.yaml", "environments/small.yaml", "environments/schema.json"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    shutil.copytree(EXAMPLES, tmp_path / "ops" / "environment" / "examples")
    argv = ["bash", "-e", "-o", "pipefail", "-c", listing]
    env = os.environ | {"GITHUB_OUTPUT": str(tmp_path / "output")}
    subprocess.run(argv, cwd=tmp_path, env=env, check=True)
    key, _, names = (tmp_path / "output").read_text().partition("=")
    assert (key, json.loads(names)) == ("names", sorted({"mine", *examples()}))
    assert (
        jobs["rehearsals"]["strategy"]["matrix"]["environment"] == "${{ fromJSON(needs.environments.outputs.names) }}"
    )


def test_what_ops_new_writes_as_a_copy_of_each_example_but_the_small_one_is_rehearsed_in_a_tier() -> None:
    written = {tier.command for tier in TIERS if tier.command.startswith("make test-new")}
    assert written == {f"make test-new LIKE={name}" for name in {*examples()} - {"small"}}
    assert "make test-isolation ENV=prod" in {tier.command for tier in TIERS}


def test_a_run_takes_one_of_the_rehearsals_drills_and_jobs() -> None:
    groups: dict[str, set[str]] = {}
    for tier in TIERS:
        if tier.drawn_from:
            groups.setdefault(tier.drawn_from, set()).add(tier.name)
    names = ("dev", "prod", "closed", "existing-vpc", "existing-eks", "slurm")
    rehearsals = {f"rehearse-{name}" for name in names}
    drills = {f"drills-{name}" for name in ("creation", "scaling", "ray", "control-plane", "operator")}
    drills |= {"jobs-set", "rehearse-job", "rehearse-kept-jobs", "drills-nodes", "drills-workers"}
    assert groups == {"deployments": rehearsals | drills}
    always = {tier for tier in TIERS if not tier.drawn_from}
    assert "readme" in {tier.name for tier in always}
    runs = [drawn(TIERS, seed) for seed in range(200)]
    for run in runs:
        assert always < {*run}
        assert sorted(tier.drawn_from or "" for tier in {*run} - always) == sorted(groups)
    assert {tier for run in runs for tier in run} == {*TIERS}
    assert runs == [drawn(TIERS, seed) for seed in range(200)]


def test_tiers_that_lock_a_folder_in_common_never_run_together() -> None:
    common = [(one, other) for one, other in combinations(TIERS, 2) if {*locked(one)} & {*locked(other)}]
    assert common
    assert not [(one.name, other.name) for one, other in common if fit((one, other))]


def test_a_tier_holds_the_folder_of_its_drills() -> None:
    held = {tier.name: tier.holds for tier in TIERS if tier.holds}
    of_drills = [tier for tier in TIERS if tier.command.startswith(("make drill ", "make test-operator"))]
    assert held.keys() == {tier.name for tier in of_drills}
    assert all([ROOT / (tier.holds or "")] == [*locked(tier)] for tier in of_drills)


def locked(tier: Tier) -> Iterator[Path]:
    """Yield the folders that a tier's command locks, from the command as a person types it."""
    _, target, *assignments = shlex.split(tier.command)
    given = dict(each.split("=", 1) for each in assignments)
    if target == "rehearse":
        yield run_directory(given.get("ENV", "dev"))
    elif target == "rehearse-job":
        yield JOB
    elif target == "drill":
        yield from directories(given["NAME"].split())
    elif target == "test-operator":
        yield from directories(SAMPLE)


def test_every_pattern_names_a_file(tracked: list[str]) -> None:
    patterns = {pattern for tier in TIERS for pattern in tier.files}
    assert not [pattern for pattern in patterns if not any(fnmatchcase(path, pattern) for path in tracked)]


@pytest.mark.parametrize("name", ENTRIES)
def test_tier_reads_each_module_that_it_imports(name: str, imports: Any) -> None:
    own = {module for entry in ENTRIES[name] for module in ({entry} | imports.find_descendants(entry))}
    modules = own.union(*(imports.find_upstream_modules(module) for module in own))
    assert not sorted(module for module in modules if not NAMED[name].reads(_file_of(module)))


@pytest.mark.parametrize(
    "name", ["rehearse-dev", "rehearse-closed", "drills-ray", "drills-nodes", "rehearse-job", "readme"]
)
def test_tier_reads_all_that_its_rehearsal_copies(name: str, tracked: list[str]) -> None:
    copied = [path for path in tracked if any(f"{path}/".startswith(f"{part}/") for part in project._PARTS)]
    assert copied
    assert not [path for path in copied if not NAMED[name].reads(path)]


def test_tier_of_the_jobs_reads_each_plugin_of_its_tests() -> None:
    """Pytest imports plugins by their names, which a graph of imports does not show."""
    plugins = re.findall(r'"(tests\.[\w.]+)"', (REPOSITORY / "tests" / "conftest.py").read_text())
    assert "tests.support.sampling" in plugins
    assert [name for name in plugins if not NAMED["jobs"].reads(_file_of(name))] == []


def test_budgets_leave_room_for_noise_and_are_those_of_the_guide() -> None:
    guide = (REPOSITORY / "CONTRIBUTING.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (\d+) % \|$", guide, re.MULTILINE))
    assert rows == {tier.name: str(tier.budget) for tier in TIERS}
    assert sum(tier.budget for tier in TIERS) >= 130


def test_github_runs_each_tier_as_a_job_of_its_own() -> None:
    job = workflow("ci.yml")["jobs"]["tier"]
    assert job["strategy"]["matrix"]["tier"] == [*NAMED]
    [step] = [step for step in job["steps"] if ".ci/run" in step.get("run", "")]
    assert (step["run"], step["env"]) == ('bash .ci/run "$TIER"', {"TIER": "${{ matrix.tier }}"})


def _file_of(module: str) -> str:
    root = REPOSITORY / "packages" / "ray-resume" if module.startswith("ray_resume") else REPOSITORY
    path = root.joinpath(*module.split("."))
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return str(found.relative_to(REPOSITORY))
