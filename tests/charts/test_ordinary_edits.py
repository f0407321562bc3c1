"""Ordinary edits of `environments/dev.yaml` fail only the test of fresh manifests, which names the command.

Only test_users_environments may read `environments/` (tests/support/users_files.py refuses all others), so only this
file is run, in a copy of the project.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from rehearsal.paths import REPOSITORY
from tests.support.users_files import ENVIRONMENTS, FROZEN, VARIABLE, UsersFileError, reading
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS

Document = dict[str, Any]
GENERIC: Final = "tests/charts/test_users_environments.py"
FRESHNESS: Final = f"{GENERIC}::test_manifests_are_fresh"
_COPIED: Final = (
    *("config", "controllers", "handlers", "k8s_charts", "lifecycle_scripts", "ops", "pyproject.toml", "ray_image"),
    *("packages/ray-resume", "ray_jobs", "rehearsal", "tests"),
)


def groups(document: Document) -> list[Document]:
    found: list[Document] = document["hyperpod"]["instance_groups"]
    return found


def ray_workers(document: Document) -> list[Document]:
    found: list[Document] = document["ray"]["clusters"][0]["workers"]
    return found


def count(document: Document) -> None:
    groups(document)[1]["count"] = 6


def replicas(document: Document) -> None:
    ray_workers(document)[0]["replicas"] = 3


def types(document: Document) -> None:
    groups(document)[0]["instance_type"] = "ml.m5.4xlarge"
    groups(document)[1]["instance_type"] = "ml.p4d.24xlarge"


def zones(document: Document) -> None:
    document["network"]["zones"] = ["usw2-az1", "usw2-az3"]


def account(document: Document) -> None:
    document["account"] = "444455556666"
    document["access"] = {"admins": ["arn:aws:iam::444455556666:role/Admin"]}


def region(document: Document) -> None:
    document["region"] = "us-east-1"
    document["network"]["zones"] = ["use1-az1", "use1-az4"]


def names(document: Document) -> None:
    document["project"] = "mine"
    document["hyperpod"]["cluster_name"] = "my-cluster"
    document["image"]["repository"] = "my-images"
    document["ray"]["clusters"][0]["name"] = "training"


def a_group_more(document: Document) -> None:
    groups(document).append({"name": "worker-group-2", "instance_type": "ml.g5.4xlarge", "count": 2})
    sizes = {"replicas": 2, "min_replicas": 1, "max_replicas": 2}
    ray_workers(document).append({"name": "small-gpu-group", "instance_group": "worker-group-2", **sizes})


def a_group_less(document: Document) -> None:
    del groups(document)[0]
    document["ray"]["clusters"][0]["head"]["instance_group"] = "worker-group-1"
    ray_workers(document)[0]["replicas"] = 3


def protect(document: Document) -> None:
    document["protect"] = True


def another_file_system(document: Document) -> None:
    document["fsx"] = {"provisioning": "dynamic", "capacity_gib": 2400, "throughput_mbps_per_tib": 500}


EDITS: Final = (
    *(count, replicas, types, zones, account, region, names, a_group_more, a_group_less, protect),
    another_file_system,
)
FILE_DELETED: Final = "file_deleted"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the frozen `dev` and `prod` as the user's, and fresh manifests."""
    clone = tmp_path_factory.mktemp("clone")
    for part in _COPIED:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, clone / part)
    (clone / "environments").mkdir()
    for name in ("dev", "prod"):
        shutil.copy2(FROZEN / f"{name}.yaml", clone / "environments")
    make_manifests(clone)
    shutil.copytree(clone / "manifests", clone / "fresh")
    return clone


def run(clone: Path, *arguments: str) -> tuple[int, str]:
    env = {name: value for name, value in os.environ.items() if name != VARIABLE and not name.startswith("PYTEST_")}
    argv = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        argv, cwd=clone, env=env, capture_output=True, text=True, check=False, timeout=REHEARSAL_PATIENCE_SECONDS
    )
    return done.returncode, done.stdout + done.stderr


def make_manifests(clone: Path) -> None:
    """Run the program of `make manifests`."""
    code, said = run(clone, "ops", "manifests")
    assert code == 0, said


def edit(file: Path, name: str) -> None:
    changes: dict[str, Callable[[Document], None]] = {change.__name__: change for change in EDITS}
    if name == FILE_DELETED:
        file.unlink()
        return
    yaml = YAML()
    document = yaml.load(file)
    changes[name](document)
    yaml.dump(document, file)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [*(change.__name__ for change in EDITS), FILE_DELETED])
def test_after_an_edit_only_the_test_of_fresh_manifests_fails_until_they_are_made(clone: Path, name: str) -> None:
    shutil.copy2(FROZEN / "dev.yaml", clone / "environments")
    shutil.rmtree(clone / "manifests")
    shutil.copytree(clone / "fresh", clone / "manifests")
    edit(clone / "environments" / "dev.yaml", name)

    code, said = run(clone, "pytest", "-q", "-p", "no:cacheprovider", GENERIC)
    failed = {line.split()[1] for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))}
    assert failed <= {FRESHNESS}, said
    assert code == bool(failed), said
    assert not failed or "make manifests" in said

    make_manifests(clone)
    code, said = run(clone, "pytest", "-q", "-p", "no:cacheprovider", GENERIC)
    assert code == 0, said


@pytest.mark.parametrize("folder", ["environments", "manifests"])
def test_a_test_that_reads_what_users_edit_fails(folder: str) -> None:
    with pytest.raises(UsersFileError, match=f"{folder}, which users edit"):
        list((REPOSITORY / folder).iterdir())
    with pytest.raises(UsersFileError, match=r"dev\.yaml, which users edit"):
        (REPOSITORY / folder / "dev.yaml").read_text()


@pytest.mark.parametrize("program", ["ops", "rehearsal"])
def test_a_test_that_starts_a_program_which_would_read_users_files_fails(program: str) -> None:
    with pytest.raises(UsersFileError, match="without RAYHP_ENVIRONMENTS"):
        subprocess.run([sys.executable, "-m", program, "--help"], cwd=REPOSITORY, env={}, check=False)


def test_the_schema_beside_the_user_s_files_is_readable() -> None:
    assert (ENVIRONMENTS / "schema.json").read_text()
    with reading():
        assert (ENVIRONMENTS / "schema.json") in ENVIRONMENTS.iterdir()
