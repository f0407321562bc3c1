"""`make rehearse KEEP=1 JOBS=1`: what is smaller than the environment, and what is refused before anything starts."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import config
from config import EksEnvironment
from config.load import file_of
from rehearsal.__main__ import app
from rehearsal.paths import RAY_ENVIRONMENT
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


def test_each_set_has_an_image_and_a_ray_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jobs, "ray_environment", lambda name: tmp_path / name)
    (tmp_path / "fixed" / "bin").mkdir(parents=True)
    small = config.load("small")
    rays = jobs.real_rays(small)
    assert [ray.environment.name for ray in rays] == ["fixed", "walkthrough", "current"]
    assert len({ray.image for ray in rays}) == 3
    assert rays[0].image == jobs.real_ray(small).image
    assert jobs.installed() == ["fixed"]


def test_the_default_ray_stands_for_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jobs, "ray_environment", lambda name: tmp_path / name)
    assert jobs.real_rays(config.load("small"))[0].environment == RAY_ENVIRONMENT


def test_an_image_of_the_users_own_is_the_only_one() -> None:
    small = config.load("small")
    image = small.image.model_copy(update={"uri": "registry.example/ray:1"})
    assert [ray.image for ray in jobs.real_rays(small.model_copy(update={"image": image}))] == [image.uri]


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
