"""`ops sleep` and `ops wake`: their refusals, and what they write for the sleeper."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config import EksEnvironment
from config.labels import PAUSED
from config.model.hyperpod import Sleep
from controllers.hand import HAND, Hand
from ops.commands.whole import app
from tests.support.sleeping_environment import with_sleep
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import HEAD, RAY_CLUSTER, RAY_JOBS, WORKERS, deployment, group

KEY = f"{HAND}/{WORKERS}"
PATCH = f"PATCH {RAY_CLUSTER}"
SLEEPER = "/apis/apps/v1/namespaces/kuberay/deployments/sleeper"


def run(*arguments: str, **how: Any) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, list(arguments), **how)


def ray_cluster(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "rayml", "namespace": "ray", "annotations": annotations}, "spec": {}, "status": {}}


def counts(apis: Apis, workers: int) -> None:
    apis.aws["DescribeCluster"] |= {"InstanceGroups": [group(HEAD, 1), group(WORKERS, workers)]}


@pytest.fixture
def sleepy(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> Apis:
    """Serve a `dev` whose workers' group may sleep, and is awake."""
    apis.kubernetes[RAY_CLUSTER] = ray_cluster()
    apis.kubernetes[SLEEPER] = deployment(available=2)
    use(monkeypatch, Sleep(after="45m"))
    return apis


def use(monkeypatch: pytest.MonkeyPatch, sleep: Sleep | None) -> None:
    """Let the commands load a `dev` whose groups with workers have this `sleep`."""

    def load(name: str) -> EksEnvironment:
        return with_sleep(config.load(name), sleep) if sleep else config.load(name)

    monkeypatch.setattr("ops.commands.change.sleep.load", load)


def written(apis: Apis) -> Hand:
    """Return the one request that was written, as the sleeper reads it."""
    [(what, body)] = apis.changes
    assert what == PATCH
    assert set(body) == {"metadata"}
    assert list(body["metadata"]["annotations"]) == [KEY]
    return Hand.read(body["metadata"]["annotations"][KEY])


def about(moment: float, after: timedelta = timedelta()) -> bool:
    return abs(moment - (datetime.now(UTC) + after).timestamp()) < 60


def test_sleep_asks_on_the_ray_clusters_with_workers_there(sleepy: Apis) -> None:
    result = run("sleep", WORKERS, "--env", "dev", "--yes")
    assert result.exit_code == 0, result.output
    hand = written(sleepy)
    assert not hand.awake
    assert about(hand.at)
    assert f"RayCluster ray/rayml: {WORKERS} sleeps until something uses it" in result.stdout
    assert "`ops status --env dev`" in result.stdout


def test_sleep_of_a_group_with_hours_ends_when_they_begin(sleepy: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Sleep(hours="Mon-Fri 07:00-19:00 Europe/Berlin"))
    result = run("sleep", WORKERS, "--dry-run")
    assert "until something uses it, or its hours next begin" in result.stdout


@pytest.mark.parametrize(("given", "hours"), [((), 0.75), (("--for", "2h"), 2), (("--for", "1d"), 24)])
def test_wake_asks_until_a_moment(sleepy: Apis, given: tuple[str, ...], hours: float) -> None:
    result = run("wake", WORKERS, "--env", "dev", "--yes", *given)
    assert result.exit_code == 0, result.output
    hand = written(sleepy)
    assert hand.awake
    assert about(hand.at, timedelta(hours=hours))
    assert re.search(rf"RayCluster ray/rayml: {WORKERS} is awake until [-0-9 ]*\d\d:\d\d UTC", result.stdout)


def test_wake_says_what_it_wakes_and_what_that_costs(sleepy: Apis) -> None:
    counts(sleepy, 1)
    result = run("wake", WORKERS, "--dry-run")
    assert re.search(rf"wakes 3 x ml\.p5\.48xlarge in {WORKERS}: about \d+ minutes, US\$ \d+ an hour", result.stdout)
    counts(sleepy, 4)
    assert "wakes" not in run("wake", WORKERS, "--dry-run").stdout


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_dry_run_shows_the_request_and_writes_nothing(sleepy: Apis, command: str) -> None:
    result = run(command, WORKERS, "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"RayCluster ray/rayml: {WORKERS} " in result.stdout
    assert "dry run: nothing was changed" in result.stdout
    assert sleepy.changes == []


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_a_person_confirms(sleepy: Apis, command: str, terminal: None) -> None:
    result = run(command, WORKERS, input="n\n")
    assert result.exit_code == 1
    assert "not confirmed: nothing was changed" in result.stderr
    assert sleepy.changes == []
    assert run(command, WORKERS, input="y\n").exit_code == 0
    assert len(sleepy.changes) == 1


def refused(apis: Apis, *words: str, code: int = 1) -> str:
    result = run(*words, "--yes")
    assert result.exit_code == code, result.output
    assert apis.changes == []
    return result.stderr


def test_sleep_of_a_group_with_a_job_is_refused_and_the_job_is_named(sleepy: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    sleepy.kubernetes[RAY_JOBS] = {"items": [job]}
    said = refused(sleepy, "sleep", WORKERS)
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train. Fix: wait for their end or stop them" in said
    assert "--force" not in said
    assert run("wake", WORKERS, "--yes").exit_code == 0, "a job is no reason to keep it asleep"


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_a_group_without_sleep_is_refused(sleepy: Apis, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    assert f"{WORKERS} has no `sleep`" in (said := refused(sleepy, command, WORKERS))
    assert "Fix: add `sleep: {}` to it in tests/environments/dev.yaml, and deploy" in said


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_an_unknown_group_is_refused(sleepy: Apis, command: str) -> None:
    assert f"dev has no instance group gpu. Allowed: {HEAD}, {WORKERS}" in refused(sleepy, command, "gpu")


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_a_group_without_workers_is_refused(sleepy: Apis, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dev = with_sleep(config.load("dev"))
    ray = dev.ray.model_copy(
        update={"clusters": tuple(each.model_copy(update={"workers": ()}) for each in dev.ray.clusters)}
    )
    monkeypatch.setattr("ops.commands.change.sleep.load", lambda _: dev.model_copy(update={"ray": ray}))
    assert f"no RayCluster has workers on {WORKERS}" in refused(sleepy, command, WORKERS)


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_what_is_not_deployed_is_refused(sleepy: Apis, command: str) -> None:
    del sleepy.kubernetes[RAY_CLUSTER]
    assert "RayCluster ray/rayml does not exist. Fix: deploy the ray stack" in refused(sleepy, command, WORKERS)
    sleepy.kubernetes[RAY_CLUSTER] = ray_cluster()
    del sleepy.kubernetes[SLEEPER]
    assert "there is no sleeper that would act. Fix: deploy the ray stack" in refused(sleepy, command, WORKERS)


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_a_paused_ray_cluster_is_refused(sleepy: Apis, command: str) -> None:
    sleepy.kubernetes[RAY_CLUSTER] = ray_cluster(**{PAUSED: "true"})
    said = refused(sleepy, command, WORKERS)
    assert "RayCluster ray/rayml is paused, and the sleeper leaves it alone. Fix: `ops resume`" in said


@pytest.mark.parametrize("given", ["0s", "30s", "2", "soon"])
def test_a_time_to_be_awake_that_is_none_is_refused(sleepy: Apis, given: str) -> None:
    result = run("wake", WORKERS, "--for", given, "--yes")
    assert result.exit_code == 2
    assert "Allowed: " in result.stderr
    assert sleepy.changes == []


def test_wake_works_without_the_right_to_ask_sagemaker(sleepy: Apis) -> None:
    sleepy.aws["DescribeCluster"] = aws_error("AccessDeniedException", "not authorized")
    assert run("wake", WORKERS, "--yes").exit_code == 0
    assert written(sleepy).awake
