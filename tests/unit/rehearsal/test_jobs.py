"""`make rehearse KEEP=1 JOBS=1`: what is smaller than the environment, and what is refused before anything starts."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import config
from config import EksEnvironment
from config.load import file_of
from rehearsal.__main__ import app
from rehearsal.run import jobs

NAMES = ("dev", "prod", "small", "closed", "existing-vpc", "existing-eks")


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_is_valid_with_workers_that_share_this_machine(name: str, tmp_path: Path) -> None:
    yaml = YAML()
    document = yaml.load(file_of(name))
    jobs.on_processors(document)
    with (tmp_path / f"{name}.yaml").open("w") as file:
        yaml.dump(document, file)
    environment = config.load(name, tmp_path)
    assert isinstance(environment, EksEnvironment)
    [cluster] = environment.ray.clusters
    [workers] = cluster.workers
    assert (workers.replicas, workers.cpu, workers.accelerators, workers.efa) == (2, 2, 0, 0)


def test_jobs_are_for_a_kept_rehearsal_with_a_raycluster() -> None:
    kept = (
        "error: --jobs is invalid: it is for a kept rehearsal with a RayCluster. Fix: `make rehearse KEEP=1 JOBS=1`\n"
    )
    assert refused() == kept
    assert "'slurm' is invalid here: it has no `eks`" in refused("--keep", "--env", "slurm")


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, ["run", "--jobs", *words])
    assert done.exit_code == 2
    return done.output
