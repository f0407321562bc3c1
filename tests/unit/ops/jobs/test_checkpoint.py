"""`ops job checkpoint`, and `--checkpoint` of commands that end jobs: who is asked, and that the rest waits for it."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from ops.jobs.head_api import HeadUnreachableError, RayApiError
from tests.unit.ops.change.test_scale import RAY_JOBS, RAYML, no_pauses, running  # noqa: F401 - fixtures
from tests.unit.ops.jobs.test_job import JOBS, LEASES, a_lease, a_run, cluster  # noqa: F401 - a fixture
from tests.unit.ops.nodes.test_node import ID, one_worker  # noqa: F401 - a fixture
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import ALL_PODS, WORKERS

PODS = "/api/v1/namespaces/ray/pods"
RUNTIME_ENV = {
    "env_vars": {"RUN_NAME": "train", "RUN_ATTEMPT": "2", "RUN_STORAGE": "/fsx/ray/runs"},
    "working_dir": "gcs://_ray_pkg_0123.zip",
}


class FakeHead:
    """A head with jobs; a job that asks ends at once, as `ends` says."""

    def __init__(self, changes: list[tuple[str, Any]]) -> None:
        self.listed = [a_job("train-2")]
        self.changes = changes
        self.ends = ("SUCCEEDED", "run train saved step 137 (000000137@0002.01)")
        self.silent = False
        self.name = "ray/head"

    def jobs(self) -> list[dict[str, Any]]:
        if self.silent:
            raise HeadUnreachableError("the head ray/head does not say which jobs run: no answer")
        return self.listed

    def submit(self, request: dict[str, Any]) -> None:
        self.changes.append(("POST /api/jobs/", request))
        status, _ = self.ends
        self.listed = [*self.listed, request | {"status": status}]

    def job(self, id: str) -> dict[str, Any]:
        for job in self.listed:
            if job["submission_id"] == id:
                return job
        raise RayApiError(404, f"Job {id} does not exist")

    def upload(self, package: str, _: bytes) -> None:
        self.changes.append(("upload", package))

    def tail(self, _: str) -> list[str]:
        return ["Runtime env is set", f"ting up.\n{self.ends[1]}\n"]


def a_job(id: str, status: str = "RUNNING", runtime_env: Any = RUNTIME_ENV) -> dict[str, Any]:
    return {"submission_id": id, "status": status, "runtime_env": runtime_env, "metadata": None}


@pytest.fixture
def head(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> FakeHead:
    """Return the head of each RayCluster; what it is asked stands among the other changes."""
    fake = FakeHead(apis.changes)
    for module in ("checkpoint", "running"):
        monkeypatch.setattr(f"ops.jobs.{module}.heads", lambda *_: ["head"])
        monkeypatch.setattr(f"ops.jobs.{module}.HeadApi", lambda *_: fake)
    monkeypatch.setattr("ops.jobs.direct.heads", lambda *_: ["head"])
    monkeypatch.setattr("ops.jobs.head_api.HeadApi", lambda *_: fake)
    return fake


def ops(*arguments: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, list(arguments))


def refused(*arguments: str, code: int = 1) -> str:
    """Return the one message of a command that must fail."""
    result = ops(*arguments)
    assert result.exit_code == code, result.output
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


@pytest.fixture
def run_of_train(cluster: Apis) -> Apis:  # noqa: F811
    cluster.kubernetes |= {f"{JOBS}/train": a_run("train"), f"{LEASES}/train": a_lease("train", attempt=2)}
    return cluster


def test_running_job_is_asked_in_its_own_environment_and_the_step_is_printed(
    run_of_train: Apis, head: FakeHead
) -> None:
    head.listed = [a_job("other-1", runtime_env={"env_vars": {"RUN_NAME": "other"}}), a_job("train-2")]
    result = ops("job", "checkpoint", "train", "--timeout", "5m")
    assert result.exit_code == 0, result.output
    assert result.stdout == "run train saved step 137 (000000137@0002.01)\n"
    [(_, request)] = run_of_train.changes
    assert request["runtime_env"] == RUNTIME_ENV
    assert request["entrypoint"] == "python -m ray_resume checkpoint --timeout=300 --hold=0"
    assert request["metadata"] == {"checkpoint-of": "train-2"}
    assert request["submission_id"].startswith("train-2-checkpoint-")


@pytest.mark.parametrize(
    "jobs", [[], [a_job("train-1", "FAILED")], [a_job("train-2", "PENDING")], [a_job("x-1", runtime_env=None)]]
)
def test_run_that_does_not_run_on_ray_is_not_asked(run_of_train: Apis, head: FakeHead, jobs: list[Any]) -> None:
    head.listed = jobs
    assert "the run train is not running on Ray" in refused("job", "checkpoint", "train")
    assert run_of_train.changes == []


def test_run_that_is_over_or_unknown_is_not_asked(run_of_train: Apis, head: FakeHead) -> None:
    assert "there is no run nothing" in refused("job", "checkpoint", "nothing")
    run_of_train.kubernetes[f"{JOBS}/train"] = a_run("train", condition="Complete")
    assert "the run train has ended" in refused("job", "checkpoint", "train")
    assert run_of_train.changes == []


def test_job_that_does_not_save_in_time_is_reported(run_of_train: Apis, head: FakeHead) -> None:
    head.ends = ("FAILED", "run train did not save within 300 s")
    said = refused("job", "checkpoint", "train")
    assert "job train-2 has not saved. Fix: see whether it trains (`ops job logs train`)." in said
    assert said.endswith("run train did not save within 300 s")


def test_timeout_without_a_unit_is_bad_input(run_of_train: Apis, head: FakeHead) -> None:
    assert ops("job", "checkpoint", "train", "--timeout", "5").exit_code == 2


def test_jobs_save_before_the_first_node_is_touched(running: Apis, head: FakeHead) -> None:  # noqa: F811
    result = ops("scale", WORKERS, "2", "--yes", "--checkpoint")
    assert result.exit_code == 0, result.output
    (first, request), (second, _), *_ = running.changes
    assert (first, second.split("/")[0]) == ("POST /api/jobs/", "PATCH ")
    assert "--hold=300" in request["entrypoint"]
    assert "run train saved step 137" in result.stdout
    assert RAYML in dict(running.changes)


@pytest.mark.parametrize("command", [("scale", WORKERS, "2"), ("update-software",)])
def test_nothing_is_changed_unless_all_jobs_have_saved(
    running: Apis,  # noqa: F811
    head: FakeHead,
    command: tuple[str, ...],
) -> None:
    head.ends = ("FAILED", "run train did not save within 600 s")
    assert "job train-2 has not saved" in refused(*command, "--yes", "--checkpoint")
    assert [what for what, _ in running.changes] == ["POST /api/jobs/"]


@pytest.mark.parametrize("runtime_env", [None, {}, {"env_vars": {"RUN_NAME": "train"}}])
def test_job_that_cannot_be_asked_is_an_obstacle(running: Apis, head: FakeHead, runtime_env: Any) -> None:  # noqa: F811
    head.listed.append(a_job("by-hand", runtime_env=runtime_env))
    said = refused("scale", WORKERS, "2", "--yes", "--checkpoint")
    assert "runs job by-hand, which cannot be asked to save" in said
    assert running.changes == []


@pytest.mark.parametrize(("job", "code"), [("train-2", 0), ("another", 1)])
def test_rayjob_counts_as_the_job_that_the_head_lists(running: Apis, head: FakeHead, job: str, code: int) -> None:  # noqa: F811
    status = {"rayClusterName": "rayml", "jobStatus": "RUNNING", "jobId": job}
    running.kubernetes[RAY_JOBS] = {"items": [{"metadata": {"name": "night"}, "status": status}]}
    result = ops("scale", WORKERS, "2", "--yes", "--checkpoint")
    assert result.exit_code == code, result.output
    assert ("runs RayJob night, which cannot be asked" in result.stderr, running.changes == []) == (
        code == 1,
        code == 1,
    )


def test_head_that_does_not_answer_is_an_obstacle(running: Apis, head: FakeHead) -> None:  # noqa: F811
    head.silent = True
    assert "no answer" in refused("scale", WORKERS, "2", "--yes", "--checkpoint")
    assert running.changes == []


def test_plan_names_the_jobs_and_asks_none(running: Apis, head: FakeHead) -> None:  # noqa: F811
    result = ops("scale", WORKERS, "2", "--dry-run", "--checkpoint")
    assert "job train-2: saves first" in result.stdout
    assert running.changes == []


@pytest.mark.parametrize("command", [("scale", WORKERS, "2"), ("rollout",), ("update-software",), ("pause",)])
def test_saving_and_losing_jobs_exclude_each_other(running: Apis, command: tuple[str, ...]) -> None:  # noqa: F811
    said = refused(*command, "--yes", "--checkpoint", "--force", code=2)
    assert "--checkpoint and --force exclude each other" in said
    assert running.changes == []


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("drain", [f"PATCH /api/v1/nodes/hyperpod-{ID}"]),
        ("reboot", ["BatchRebootClusterNodes"]),
        # Nobody knows when HyperPod begins, so the pods end at once.
        ("replace", [f"PATCH /api/v1/nodes/hyperpod-{ID}", "BatchReplaceClusterNodes"]),
    ],
)
def test_node_is_touched_only_after_its_jobs_have_saved(
    one_worker: Apis,  # noqa: F811
    head: FakeHead,
    command: str,
    changes: list[str],
) -> None:
    pods = one_worker.kubernetes[ALL_PODS]
    one_worker.kubernetes[ALL_PODS] = [pods, pods, {"items": []}]
    one_worker.aws |= {call: {"Successful": [ID]} for call in ("BatchRebootClusterNodes", "BatchReplaceClusterNodes")}
    result = ops("node", command, ID, "--yes", "--checkpoint", *([] if command == "drain" else ["--no-wait"]))
    assert result.exit_code == 0, result.output
    assert [what for what, _ in one_worker.changes] == ["POST /api/jobs/", *changes]


@pytest.mark.parametrize("command", ["drain", "reboot", "replace"])
def test_node_is_left_alone_unless_all_jobs_have_saved(one_worker: Apis, head: FakeHead, command: str) -> None:  # noqa: F811
    head.ends = ("FAILED", "run train did not save within 600 s")
    assert "job train-2 has not saved" in refused("node", command, ID, "--yes", "--checkpoint")
    assert [what for what, _ in one_worker.changes] == ["POST /api/jobs/"]
    said = refused("node", command, ID, "--yes", "--checkpoint", "--force", code=2)
    assert "--checkpoint and --force exclude each other" in said


def test_checks_of_a_node_do_not_offer_a_save(one_worker: Apis, head: FakeHead) -> None:  # noqa: F811
    assert "--checkpoint" not in refused("node", "check", ID, "--yes")
    assert one_worker.changes == []


def test_without_the_option_a_running_job_is_an_obstacle_and_names_it(running: Apis, head: FakeHead) -> None:  # noqa: F811
    assert "--checkpoint" in refused("scale", WORKERS, "2", "--yes")
    assert running.changes == []
