"""The job supervisor as a process, against a strict fake of Ray's Jobs API."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.job_supervisor import STARTS_ANOTHER
from tests.support.fake_kubernetes import JOBS, LEASES, PODS, FakeKubernetes
from tests.support.fake_ray import FakeJob, FakeRay, serve
from tests.support.supervised_run import Supervised
from tests.support.waiting import wait_until


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with serve() as fake:
        yield fake


@pytest.fixture
def run(kubernetes: FakeKubernetes, ray: FakeRay, tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(kubernetes, ray.host, tmp_path)
    yield made
    made.end()


def submitted(ray: FakeRay, id: str) -> FakeJob:
    wait_until(lambda: id in ray.jobs, f"submission of {id}")
    return ray.jobs[id]


def test_job_that_succeeds_is_submitted_once_with_its_run_in_its_environment(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    job.output = "hello\nworld"
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]
    variables = job.request["runtime_env"]["env_vars"]
    assert variables == {"RUN_NAME": "train", "RUN_ATTEMPT": "1", "RUN_STORAGE": "/fsx/runs"}
    assert job.request["metadata"] == {"run": "train", "attempt": "1", "supervisor": "job-1"}
    assert "hello\nworld\n" in run.log.read_text()
    assert (run.state["phase"], run.state["exit_code"]) == ("succeeded", 0)


def test_bug_in_the_code_ends_with_the_jobs_exit_code_and_no_second_attempt(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", 3, "Job entrypoint command failed with exit code 3")
    assert run.exit_code() == 3
    assert ray.submissions == ["train-1"]
    assert "came no further" in run.state["reason"]


@pytest.mark.parametrize(("of_the_job", "noted"), [(-9, 137), (75, 75)])
def test_exit_code_that_would_start_another_supervisor_is_noted_and_the_run_is_over(
    run: Supervised, ray: FakeRay, of_the_job: int, noted: int
) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", of_the_job)
    code = run.exit_code()
    assert code == 1
    assert code not in STARTS_ANOTHER
    assert run.state["exit_code"] == noted


def test_head_that_forgot_its_jobs_gets_the_next_attempt_under_the_same_run(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").output = "run train attempt 1: checkpoint of step 30 written in 0.1 s\n"
    wait_until(lambda: run.state.get("progress") == 30, "its progress")
    ray.lose()
    job = submitted(ray, "train-2")
    assert job.request["runtime_env"]["env_vars"]["RUN_NAME"] == "train"
    assert job.request["runtime_env"]["env_vars"]["RUN_ATTEMPT"] == "2"
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1", "train-2"]


def test_working_directory_comes_to_the_head_again_with_each_attempt(
    run: Supervised, ray: FakeRay, tmp_path: Path
) -> None:
    package = tmp_path / "_ray_pkg_0123.zip"
    package.write_bytes(b"zip")
    run.start(f"--package={package}")
    submitted(ray, "train-1")
    assert ray.packages == {package.name: b"zip"}
    ray.lose()
    job = submitted(ray, "train-2")
    assert ray.packages == {package.name: b"zip"}
    assert job.request["runtime_env"]["working_dir"] == f"gcs://{package.name}"


def test_head_that_is_away_for_a_while_and_comes_back_with_its_job_is_waited_for(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    job.output = "before\n"
    wait_until(lambda: "before" in run.log.read_text(), "its output")
    ray.away = True
    wait_until(lambda: run.state.get("phase") == "waiting for the head", "its phase")
    ray.away = False
    job.output += "after\n"
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]
    assert run.log.read_text().count("before\n") == 1, "Ray repeats the output from its beginning"
    assert "after\n" in run.log.read_text()


def test_killed_supervisor_is_succeeded_by_one_that_submits_nothing(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    run.kill()
    run.free_lease()
    run.start(name="train-fghij")
    wait_until(lambda: run.said("found"), "the job that runs")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]


def test_attempt_that_was_lost_while_nobody_looked_is_followed_by_another_and_not_by_itself(
    run: Supervised, ray: FakeRay
) -> None:
    run.start()
    submitted(ray, "train-1")
    run.kill()
    run.free_lease()
    ray.lose()
    run.start(name="train-fghij")
    submitted(ray, "train-2")
    assert ray.submissions == ["train-1", "train-2"]


def test_two_supervisors_submit_once(run: Supervised, ray: FakeRay) -> None:
    run.start(name="train-a")
    run.start(name="train-b")
    job = submitted(ray, "train-1")
    wait_until(lambda: run.said("waiting for the lease"), "the other's word")
    job.end("SUCCEEDED", 0)
    wait_until(lambda: run.state.get("exit_code") == 0, "its end")
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]


def test_supervisor_that_lost_its_lease_goes(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    lease = run.kubernetes.collections[LEASES]["train"]
    lease["spec"]["holderIdentity"], lease["metadata"]["resourceVersion"] = "another", "100"
    assert run.exit_code() == 75
    assert (ray.submissions, ray.stops) == (["train-1"], [])


def test_supervisor_that_cannot_renew_its_lease_ends_no_attempt_of_its_successor(
    run: Supervised, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.start()
    metadata = submitted(ray, "train-1").request["metadata"]
    of_ray = ray.answer

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The successor submits right after the other supervisor's check."""
        answered = of_ray(method, path, body)
        if method == "GET" and path.endswith("/train-2"):
            ray.jobs.setdefault("train-2", FakeJob({"entrypoint": "x", "metadata": metadata | {"attempt": "2"}}))
        return answered

    monkeypatch.setattr(ray, "answer", answer)
    run.kubernetes.refuse[f"PUT {LEASES}/train"] = (401, "Unauthorized")
    ray.jobs["train-1"].end("FAILED", None, "Unexpected error occurred: the actor died")
    wait_until(lambda: run.said("found"), "the job that runs")
    assert (ray.submissions, ray.stops) == (["train-1"], [])


def test_attempt_of_before_that_still_runs_is_ended_before_the_next(run: Supervised, ray: FakeRay) -> None:
    metadata = {"run": "train", "attempt": "1", "supervisor": "job-1"}
    ray.jobs["train-1"] = FakeJob({"entrypoint": "x", "metadata": metadata})
    run.start("--first-attempt=2")
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.stops == ["train-1"]


def test_job_of_this_run_that_another_submitted_is_refused_before_anything_is_ended(
    run: Supervised, ray: FakeRay
) -> None:
    for attempt, supervisor in (("1", "job-1"), ("3", "job-0")):
        metadata = {"run": "train", "attempt": attempt, "supervisor": supervisor}
        ray.jobs[f"train-{attempt}"] = FakeJob({"entrypoint": "x", "metadata": metadata})
    run.start("--first-attempt=2")
    assert run.exit_code() == 2
    assert (ray.submissions, ray.stops) == ([], [])


def test_supervisor_that_is_asked_to_end_leaves_the_job_and_the_lease(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    assert run.kill(signal.SIGTERM) == 75
    assert (ray.stops, run.kubernetes.collections[LEASES]["train"]["spec"]["holderIdentity"]) == ([], "")


def test_deleted_job_takes_the_run_with_it(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    del run.kubernetes.collections[JOBS]["train"]
    run.kill(signal.SIGTERM)
    assert ray.stops == ["train-1"]


def test_deleted_job_takes_the_run_with_it_though_its_lease_goes_before_the_pod_is_asked_to_end(
    run: Supervised, ray: FakeRay
) -> None:
    run.start()
    submitted(ray, "train-1")
    del run.kubernetes.collections[JOBS]["train"]
    del run.kubernetes.collections[LEASES]["train"]
    assert run.exit_code() == 75
    assert ray.stops == ["train-1"]


def test_run_that_is_told_to_stop_ends_in_ray_and_is_not_tried_again(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    run.stop()
    assert run.exit_code() == 130
    assert (ray.stops, ray.submissions, run.state["phase"]) == (["train-1"], ["train-1"], "stopped")


def test_run_that_is_told_to_stop_while_there_is_no_head_ends(run: Supervised, ray: FakeRay) -> None:
    run.head(None)
    run.start()
    wait_until(lambda: run.state.get("phase") == "waiting for the head", "its phase")
    run.stop()
    assert run.exit_code() == 130
    assert ray.submissions == []


def test_failure_after_a_lost_worker_is_tried_again(run: Supervised, ray: FakeRay) -> None:
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    job = submitted(ray, "train-1")
    wait_until(lambda: run.state.get("phase") == "running", "its phase")
    del run.kubernetes.collections[PODS]["rayml-worker"]
    job.end("FAILED", 1, "Job entrypoint command failed with exit code 1")
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert "rayml-worker" in run.said("ended")[0]["reason"]


def test_head_that_always_fails_is_given_up_after_so_many_without_progress(run: Supervised, ray: FakeRay) -> None:
    run.start("--max-stalled=2")
    for number in (1, 2):
        submitted(ray, f"train-{number}").end("FAILED", None, "Unexpected error occurred: the actor died")
    assert run.exit_code() == 1
    assert ray.submissions == ["train-1", "train-2"]
    assert "2 in a row without progress" in run.state["reason"]


def test_name_that_somebody_else_uses_is_refused_and_nothing_submitted(run: Supervised, ray: FakeRay) -> None:
    theirs = {"submission_id": "train-1", "entrypoint": "x", "runtime_env": {}, "metadata": {}}
    ray.jobs["train-1"] = FakeJob(theirs)
    run.start()
    assert run.exit_code() == 2
    assert (ray.submissions, ray.stops) == ([], [])
    assert "take another name" in run.state["reason"]


def test_request_that_ray_refuses_ends_the_run_with_its_words(run: Supervised, ray: FakeRay) -> None:
    ray.refuse = (400, "Traceback\nValueError: no such thing")
    run.start()
    assert run.exit_code() == 1
    assert "no such thing" in run.state["reason"]


def test_head_that_is_too_young_to_take_a_job_is_waited_for(run: Supervised, ray: FakeRay) -> None:
    ray.refuse = (500, "No available agent to submit job, please try again later.")
    run.start()
    wait_until(lambda: run.state.get("phase") == "waiting for Ray", "its phase")
    ray.refuse = None
    submitted(ray, "train-1").end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_run_that_is_over_is_not_begun_again(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", 3)
    assert run.exit_code() == 3
    run.start(name="train-fghij")
    assert run.exit_code() == 3
    assert ray.submissions == ["train-1"]


def test_run_that_is_gone_on_with_counts_its_attempts_on(run: Supervised, ray: FakeRay) -> None:
    run.start("--first-attempt=5")
    submitted(ray, "train-5").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
