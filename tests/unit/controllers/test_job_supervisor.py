"""The job supervisor as a process, against a strict fake of Ray's Jobs API."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controllers.job_supervisor import STARTS_ANOTHER
from tests.support.fake_kubernetes import JOBS, LEASES, PODS, SECRETS, FakeKubernetes
from tests.support.fake_ray import FakeJob, FakeRay
from tests.support.supervised_run import Supervised
from tests.support.waiting import wait_until

NEVER = 1000.0
"""Seconds between two renewals of a Lease, so that nothing is saved only because a renewal is due."""


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
    assert variables == {
        "RUN_NAME": "train",
        "RUN_ATTEMPT": "1",
        "RUN_SERIES": "job-1",
        "RUN_STORAGE": "/fsx/runs",
        "RAY_JOB_STOP_WAIT_TIME_S": "60",
    }
    assert job.request["metadata"] == {"run": "train", "attempt": "1", "supervisor": "job-1"}
    # What the supervisor itself says is JSON, and may stand between two lines of the job.
    assert [line for line in run.log.read_text().splitlines() if not line.startswith("{")] == ["hello", "world"]
    assert (run.state["phase"], run.state["exit_code"]) == ("succeeded", 0)


def test_head_that_wants_a_token_gets_it_with_each_request(run: Supervised, ray: FakeRay) -> None:
    ray.token = "dG9rZW4="
    run.takes_token(ray.token)
    run.start()
    job = submitted(ray, "train-1")
    job.output = "hello\n"
    wait_until(lambda: "hello\n" in run.log.read_text(), "the output, which comes through a web socket")
    # A head that follows in another pod takes what the Secret has by then.
    ray.token = "bmV3"
    ray.lose()
    run.head(ray.host, "head-2")
    run.takes_token(ray.token)
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.token not in run.log.read_text()


def test_token_that_cannot_be_read_is_named_and_the_run_waits(
    run: Supervised, ray: FakeRay, kubernetes: FakeKubernetes
) -> None:
    ray.token = "dG9rZW4="
    run.takes_token(ray.token)
    kubernetes.refuse[f"GET {SECRETS}/rayml"] = 403, "secrets is forbidden"
    run.start()
    wait_until(lambda: run.logged("waiting for the head"), "the message")
    reason = run.logged("waiting for the head")[0]["reason"]
    assert reason == "Secret rayml, which has the head's token, cannot be read: 403: secrets is forbidden"
    kubernetes.refuse.clear()
    submitted(ray, "train-1").end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_each_attempt_has_the_jobs_own_variables_and_packages_and_none_of_the_runs_is_replaced(
    run: Supervised, ray: FakeRay
) -> None:
    lines = ["--only-binary :all:", "einops==0.8.1 --hash=sha256:0"]
    run.start("--variable=TEXT=a = b", "--variable=RUN_NAME=other", *(f"--pip={line}" for line in lines))
    submitted(ray, "train-1")
    ray.lose()
    job = submitted(ray, "train-2")
    environment = job.request["runtime_env"]
    assert {"TEXT": "a = b", "RUN_NAME": "train"}.items() <= environment["env_vars"].items()
    assert environment["pip"] == {"packages": lines}
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_bug_in_the_code_ends_with_the_jobs_exit_code_and_no_second_attempt(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", 3, "Job entrypoint command failed with exit code 3")
    assert run.exit_code() == 3
    assert ray.submissions == ["train-1"]
    assert "it made no progress" in run.state["reason"]


@pytest.mark.parametrize(("of_the_job", "noted"), [(-9, 137), (75, 75)])
def test_exit_code_that_would_restart_the_supervisor_is_recorded_and_the_run_ends_with_1(
    run: Supervised, ray: FakeRay, of_the_job: int, noted: int
) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", of_the_job)
    code = run.exit_code()
    assert code == 1
    assert code not in STARTS_ANOTHER
    assert run.state["exit_code"] == noted


def test_newest_figures_and_the_time_of_the_last_checkpoint_are_kept(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    job.output = "attempt 0001.01: step 5: 0.2 steps/s; seconds: 25.0 compute\n"
    wait_until(lambda: run.state.get("figures"), "the first figures")
    assert run.state["figures"] == {"step": 5, "steps_per_second": 0.2}
    assert run.state["progress_at"] == ""
    job.output += "checkpoint of step 10 written in 0.1 s\n"
    job.output += (
        "attempt 0001.01: step 12: loss nan, 2.5 steps/s, 300 tokens/s, goodput 93.1 %; seconds: 25.0 compute\n"
    )
    wait_until(lambda: run.state["figures"]["step"] == 12, "the next figures")
    assert json.dumps(run.state["figures"]) == '{"step": 12.0, "loss": NaN, "steps_per_second": 2.5, "goodput": 93.1}'
    assert run.state["progress"] == 10
    at = datetime.fromisoformat(run.state["progress_at"])
    ray.lose()
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert run.state["figures"]["step"] == 12
    assert datetime.fromisoformat(run.state["progress_at"]) == at


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


def test_head_that_is_briefly_unreachable_is_waited_for(run: Supervised, ray: FakeRay) -> None:
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
    wait_until(lambda: run.logged("found"), "the job that runs")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]


def test_attempt_that_was_lost_without_a_supervisor_is_followed_by_the_next_attempt(
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


def test_attempt_that_failed_without_a_supervisor_is_judged_by_its_output(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    run.kill()
    run.free_lease()
    job.output = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    job.end("FAILED", 1, "Job entrypoint command failed with exit code 1")
    run.start(name="train-fghij")
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert job.output in run.log.read_text()


def test_two_supervisors_submit_once(run: Supervised, ray: FakeRay) -> None:
    run.start(name="train-a")
    run.start(name="train-b")
    job = submitted(ray, "train-1")
    wait_until(lambda: run.logged("waiting for the lease"), "the other's word")
    job.end("SUCCEEDED", 0)
    wait_until(lambda: run.state.get("exit_code") == 0, "its end")
    assert run.exit_code() == 0
    assert ray.submissions == ["train-1"]


def test_supervisor_that_lost_its_lease_exits(run: Supervised, ray: FakeRay) -> None:
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
    wait_until(lambda: run.logged("found"), "the job that runs")
    assert (ray.submissions, ray.stops) == (["train-1"], [])


def test_earlier_attempt_that_still_runs_is_stopped_before_the_next(run: Supervised, ray: FakeRay) -> None:
    metadata = {"run": "train", "attempt": "1", "supervisor": "job-1"}
    ray.jobs["train-1"] = FakeJob({"entrypoint": "x", "metadata": metadata})
    run.start("--first-attempt=2")
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert ray.stops == ["train-1"]


def test_job_of_this_run_from_another_submitter_is_refused_before_anything_is_stopped(
    run: Supervised, ray: FakeRay
) -> None:
    for attempt, supervisor in (("1", "job-1"), ("3", "job-0")):
        metadata = {"run": "train", "attempt": attempt, "supervisor": supervisor}
        ray.jobs[f"train-{attempt}"] = FakeJob({"entrypoint": "x", "metadata": metadata})
    run.start("--first-attempt=2")
    assert run.exit_code() == 2
    assert (ray.submissions, ray.stops) == ([], [])


def test_terminated_supervisor_leaves_the_job_running_and_releases_the_lease(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    assert run.kill(signal.SIGTERM) == 75
    assert (ray.stops, run.kubernetes.collections[LEASES]["train"]["spec"]["holderIdentity"]) == ([], "")


def test_deleting_the_job_stops_the_run(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    del run.kubernetes.collections[JOBS]["train"]
    run.kill(signal.SIGTERM)
    assert ray.stops == ["train-1"]


@pytest.mark.parametrize("renews", [0.2, NEVER])
@pytest.mark.parametrize("another", [False, True], ids=["deleted", "replaced by another of its name"])
def test_deleting_the_job_stops_the_run_even_if_the_lease_is_deleted_before_the_pod(
    run: Supervised, ray: FakeRay, renews: float, *, another: bool
) -> None:
    """The watch of the Job tells, however long it is until the next renewal."""
    run.start(renews=renews, says_nothing=NEVER)
    submitted(ray, "train-1").output = HAS
    wait_until(lambda: run.state.get("began"), "its begin")
    jobs = run.kubernetes.collections[JOBS]
    job = jobs.pop("train")
    if another:
        run.kubernetes.put(JOBS, {"metadata": job["metadata"] | {"uid": "job-2", "resourceVersion": "2"}})
    del run.kubernetes.collections[LEASES]["train"]
    assert run.exit_code() == 75
    assert ray.stops == ["train-1"]


@pytest.mark.parametrize("replaced", [False, True], ids=["the same supervisor", "its successor"])
def test_stop_ends_the_attempt_in_ray_and_it_is_not_retried(run: Supervised, ray: FakeRay, *, replaced: bool) -> None:
    """Otherwise an attempt would train on beside the next run of this name."""
    run.start()
    submitted(ray, "train-1")
    if replaced:
        run.kill()
        run.free_lease()
    run.stop()
    if replaced:
        run.start(name="train-fghij")
    assert run.exit_code() == 130
    assert (ray.stops, ray.submissions, run.state["phase"]) == (["train-1"], ["train-1"], "stopped")
    assert run.logged("stop requested"), "whoever follows the output sees it before the job has saved"
    assert ray.jobs["train-1"].status == "STOPPED"


def test_run_that_is_stopped_without_a_head_ends(run: Supervised, ray: FakeRay) -> None:
    run.head(None)
    run.start()
    wait_until(lambda: run.state.get("phase") == "waiting for the head", "its phase")
    run.stop()
    assert run.exit_code() == 130
    assert ray.submissions == []


def test_failure_after_a_lost_worker_is_retried(run: Supervised, ray: FakeRay) -> None:
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    job = submitted(ray, "train-1")
    wait_until(lambda: run.state.get("phase") == "running", "its phase")
    del run.kubernetes.collections[PODS]["rayml-worker"]
    job.end("FAILED", 1, "Job entrypoint command failed with exit code 1")
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert "rayml-worker" in run.logged("ended")[0]["reason"]


@pytest.mark.parametrize("first", [1, 5], ids=["new", "resumed"])
def test_run_makes_as_many_attempts_as_it_may_but_for_those_that_only_waited(
    run: Supervised, ray: FakeRay, first: int
) -> None:
    run.start(f"--first-attempt={first}", "--max-attempts=2", "--max-stalled=99")
    submitted(ray, f"train-{first}").end("FAILED", None, "Unexpected error occurred: the actor died")
    submitted(ray, f"train-{first + 1}").output = WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "its phase")
    ray.lose()
    submitted(ray, f"train-{first + 2}").end("FAILED", None, "Unexpected error occurred: the actor died")
    assert run.exit_code() == 1
    assert len(ray.submissions) == 3
    assert run.state["reason"].endswith("that was attempt 2 of 2")


def test_run_ends_after_its_limit_of_failures_without_progress(run: Supervised, ray: FakeRay) -> None:
    run.start("--max-stalled=2", "--give-up-after=0")
    for number in (1, 2):
        submitted(ray, f"train-{number}").end("FAILED", None, "Unexpected error occurred: the actor died")
    assert run.exit_code() == 1
    assert ray.submissions == ["train-1", "train-2"]
    assert "2 failures in a row without progress" in run.state["reason"]


def test_failures_faster_than_a_nodes_replacement_do_not_end_the_run(run: Supervised, ray: FakeRay) -> None:
    """Without --give-up-after, as in Jobs of earlier versions."""
    run.start("--max-stalled=1")
    for number in (1, 2):
        submitted(ray, f"train-{number}").end("FAILED", None, "Unexpected error occurred: the actor died")
    submitted(ray, "train-3").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert run.state["stalled_seconds"] > 0


@pytest.mark.parametrize(
    ("output", "warned"),
    [
        ("hello\n", False),
        ("checkpoint of step 5 written\n", True),
        ("resumes from step 30\ncheckpoint of step 35 written\n", False),
    ],
    ids=["no checkpoints", "from step 0", "resumed"],
)
def test_attempt_that_begins_again_at_step_0_is_reported(
    run: Supervised, ray: FakeRay, output: str, warned: bool
) -> None:
    run.start("--first-attempt=2")
    job = submitted(ray, "train-2")
    job.output = output
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert bool(run.logged("warning: did not resume")) == warned
    assert ("did not resume" in run.state["reason"]) == ("resumes" not in output)


def test_name_that_somebody_else_uses_is_refused_and_nothing_submitted(run: Supervised, ray: FakeRay) -> None:
    theirs = {"submission_id": "train-1", "entrypoint": "x", "runtime_env": {}, "metadata": {}}
    ray.jobs["train-1"] = FakeJob(theirs)
    run.start()
    assert run.exit_code() == 2
    assert (ray.submissions, ray.stops) == ([], [])
    assert "choose another name" in run.state["reason"]


def test_request_that_ray_refuses_ends_the_run_with_its_words(run: Supervised, ray: FakeRay) -> None:
    ray.refuse = (400, "Traceback\nValueError: no such thing")
    run.start()
    assert run.exit_code() == 1
    assert "no such thing" in run.state["reason"]
    assert ray.refusals == 2, "one refusal may mean that Ray knows the job already"


def test_head_that_is_too_young_to_take_a_job_is_waited_for(run: Supervised, ray: FakeRay) -> None:
    ray.refuse = (500, "No available agent to submit job, please try again later.")
    run.start()
    wait_until(lambda: ray.refusals > 3, "several refusals")
    assert run.state["phase"] == "waiting for Ray"
    ray.refuse = None
    submitted(ray, "train-1").end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_attempt_that_only_repeats_a_checkpoint_has_made_no_progress(run: Supervised, ray: FakeRay) -> None:
    """Code that fails twice at the same step would fail there forever."""
    run.start()
    for number in (1, 2):
        job = submitted(ray, f"train-{number}")
        job.output = "checkpoint of step 30 written in 0.1 s\n"
        job.end("FAILED", 3, "Job entrypoint command failed with exit code 3")
    assert run.exit_code() == 3
    assert ray.submissions == ["train-1", "train-2"]


def test_finished_run_is_not_started_again(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").end("FAILED", 3)
    assert run.exit_code() == 3
    run.start(name="train-fghij")
    assert run.exit_code() == 3
    assert ray.submissions == ["train-1"]


def test_resumed_run_continues_its_count_of_attempts(run: Supervised, ray: FakeRay) -> None:
    run.start("--first-attempt=5")
    submitted(ray, "train-5").end("SUCCEEDED", 0)
    assert run.exit_code() == 0


TRAINS = {"ray-on-hyperpod/trains": "rayml"}
RESUMES = "run train attempt 0001.01: starts at step 0\n"


def request_to_save(ray: FakeRay, attempt: str = "train-1") -> FakeJob:
    """Wait for the newest job that asks the attempt to save, and return it."""

    def made() -> list[str]:
        return [id for id in ray.submissions if id.startswith(f"{attempt}-checkpoint-")]

    wait_until(lambda: bool(made()), "the request to save")
    return ray.jobs[made()[-1]]


def let_it_save_before_a_move(run: Supervised, ray: FakeRay) -> FakeJob:
    """Start a run that trains, ask for the move of its worker, and return the job that asks the run to save."""
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    submitted(ray, "train-1").output = RESUMES
    wait_until(lambda: run.labels == TRAINS, "its label")
    run.move("rayml-worker")
    return request_to_save(ray)


def test_run_saves_before_the_reaper_moves_a_pod_and_answers_in_its_lease(run: Supervised, ray: FakeRay) -> None:
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    job = submitted(ray, "train-1")
    assert run.labels != TRAINS, "nothing is known of its workers"
    job.output = RESUMES
    wait_until(lambda: run.labels == TRAINS, "its label")
    run.move("rayml-worker")
    asking = request_to_save(ray)
    assert asking.request["entrypoint"] == "python -m ray_resume checkpoint --timeout=300 --hold=120"
    assert asking.request["runtime_env"] == job.request["runtime_env"]
    assert asking.request["metadata"] == {"checkpoint-of": "train-1"}
    renewals = len(run.kubernetes.asked("PUT", LEASES))
    wait_until(lambda: len(run.kubernetes.asked("PUT", LEASES)) > renewals + 3, "renewals")
    assert run.state["answered"] == []
    asking.end("SUCCEEDED", 0, "Job finished successfully.")
    wait_until(lambda: run.state["answered"] == ["w-1"], "its answer")
    assert run.logged("saved before a move")
    assert ray.submissions[1:] == [ray.submissions[-1]], "it asks once"
    del run.kubernetes.collections[PODS]["rayml-worker"]
    wait_until(lambda: run.state["answered"] == [], "a short memory")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert run.labels == {}


def test_pod_that_is_to_move_during_a_save_is_answered_by_another_save(run: Supervised, ray: FakeRay) -> None:
    for number in (1, 2):
        run.pod(f"rayml-worker-{number}", "worker", f"w-{number}")
    run.start()
    submitted(ray, "train-1").output = RESUMES
    wait_until(lambda: run.labels == TRAINS, "its label")
    run.move("rayml-worker-1")
    first = request_to_save(ray)
    run.move("rayml-worker-2")
    first.end("SUCCEEDED", 0)
    wait_until(lambda: run.state["answered"] == ["w-1"], "the first answer")
    wait_until(lambda: len(ray.submissions) == 3, "the second request")
    request_to_save(ray).end("SUCCEEDED", 0)
    wait_until(lambda: run.state["answered"] == ["w-1", "w-2"], "the second answer")


@pytest.mark.parametrize("way", ["fails", "is refused", "is forgotten"])
def test_job_that_cannot_save_does_not_keep_the_reaper_waiting(run: Supervised, ray: FakeRay, way: str) -> None:
    """As a job without the library, or with an older one, which ends with an error."""
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    job = submitted(ray, "train-1")
    job.output = RESUMES
    wait_until(lambda: run.labels == TRAINS, "its label")
    if way == "is refused":
        ray.refuse = (400, "Traceback\nValueError: no such thing")
    run.move("rayml-worker")
    if way == "fails":
        request_to_save(ray).end("FAILED", 1, "exit code 1, last logs:\nNo module named ray_resume")
    elif way == "is forgotten":
        request_to_save(ray)
        del ray.jobs[ray.submissions[-1]]
    wait_until(lambda: run.state["answered"] == ["w-1"], "its answer")
    [said] = run.logged("did not save before a move")
    assert way != "fails" or said["answer"] == "No module named ray_resume"
    assert run.state["phase"] == "running"
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_attempt_that_is_lost_while_it_saves_is_not_waited_for_and_its_successor_asks_again(
    run: Supervised, ray: FakeRay
) -> None:
    let_it_save_before_a_move(run, ray)
    ray.lose()
    second = submitted(ray, "train-2")
    assert TRAINS not in [run.labels]
    second.output = RESUMES
    request_to_save(ray, "train-2").end("SUCCEEDED", 0)
    wait_until(lambda: run.state["answered"] == ["w-1"], "its answer")


def test_answer_of_an_attempt_that_was_lost_is_not_its_successors(run: Supervised, ray: FakeRay) -> None:
    """The head was lost after the supervisor had seen the attempt, and before it looked at the save."""
    let_it_save_before_a_move(run, ray)
    del ray.jobs[ray.submissions[-1]]
    wait_until(lambda: run.state["answered"] == ["w-1"], "its answer")
    ray.lose()
    submitted(ray, "train-2").output = RESUMES
    request_to_save(ray, "train-2").end("SUCCEEDED", 0)
    wait_until(lambda: len(run.logged("saved before a move")) == 1, "the successor's answer")


def test_run_that_waits_for_resources_has_nothing_to_save(run: Supervised, ray: FakeRay) -> None:
    run.pod("rayml-worker", "worker", "w-1")
    run.start()
    submitted(ray, "train-1").output = WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "its phase")
    run.move("rayml-worker")
    renewals = len(run.kubernetes.asked("PUT", LEASES))
    wait_until(lambda: len(run.kubernetes.asked("PUT", LEASES)) > renewals + 3, "renewals")
    assert run.labels == {"ray-on-hyperpod/queue": "rayml"}
    assert ray.submissions == ["train-1"]


WAITS = "train: attempt 1 waits for resources: 2 x {CPU: 1} (nodes large enough for one: 1)\n"
HAS = "train: attempt 1 has its resources after 3 s\n"
NEEDS = "2 x {CPU: 1} (nodes large enough for one: 1)"


@pytest.fixture
def older(kubernetes: FakeKubernetes, ray: FakeRay, tmp_path: Path) -> Iterator[Supervised]:
    """Return a run that was submitted before `run`."""
    made = Supervised(kubernetes, ray.host, tmp_path, "older", number=0)
    yield made
    made.end()


def test_attempt_that_waits_for_resources_says_so_and_uses_up_nothing(run: Supervised, ray: FakeRay) -> None:
    run.start("--max-stalled=1", "--give-up-after=0", "--max-attempts=1")
    submitted(ray, "train-1").output = WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "its phase")
    before = run.state
    assert before["reason"] == NEEDS
    renewals = len(run.kubernetes.asked("PUT", LEASES))
    wait_until(lambda: len(run.kubernetes.asked("PUT", LEASES)) > renewals + 3, "renewals")
    assert run.state == before, "no time is counted"
    ray.lose()
    job = submitted(ray, "train-2")
    job.output = HAS
    wait_until(lambda: run.state.get("began"), "its begin")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    assert run.logged("ended")[0]["reason"] == "the head was lost, and with it the job; it waited for resources"


def test_elastic_run_says_with_how_many_workers_it_runs_and_holds_nobody_up(
    run: Supervised, older: Supervised, ray: FakeRay
) -> None:
    older.start(name="older-abcde")
    job = submitted(ray, "older-1")
    job.output = WAITS
    wait_until(lambda: older.state.get("phase") == "waiting for resources", "the older run's phase")
    run.start()
    wait_until(lambda: run.state.get("phase") == "queued", "the younger run's phase")
    job.output += f"{HAS}train: attempt 1 runs with 3 of 4 workers\n"
    younger = submitted(ray, "train-1")
    wait_until(lambda: older.state.get("reason") == "runs with 3 of 4 workers", "its workers")
    assert older.state["phase"] == "running"
    job.output += "train: attempt 1 runs with 4 of 4 workers\n"
    wait_until(lambda: older.state.get("reason") == "runs with 4 of 4 workers", "its workers")
    assert [said["reason"] for said in older.logged("running") if "workers" in said.get("reason", "")] == [
        "runs with 3 of 4 workers",
        "runs with 4 of 4 workers",
    ]
    younger.end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def shows(run: Supervised, name: str, value: object) -> bool:
    return bool(run.state.get(name) == value)


def test_start_of_an_attempt_can_be_seen(run: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    for printed, reason in (
        ("", "no output yet"),
        ("train: attempt 1 starts 4 workers\n", "starts 4 workers"),
        (WAITS, NEEDS),
        (HAS, "starts 4 workers"),
        ("run train attempt 0001.01: starts at step 0\n", ""),
        (WAITS, NEEDS),
        (HAS, "its workers start again"),
        ("run train attempt 0001.02: resumes from step 5\n", ""),
    ):
        job.output += printed
        wait_until(partial(shows, run, "reason", reason), f"the reason {reason!r}")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_each_checkpoint_is_recorded_before_the_next_renewal_is_due(run: Supervised, ray: FakeRay) -> None:
    run.start(renews=NEVER)
    job = submitted(ray, "train-1")
    for step in (10, 20):
        job.output += f"checkpoint of step {step} written\n"
        wait_until(partial(shows, run, "progress", step), "the progress in the Lease")
    job.end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_attempt_that_waits_for_resources_without_a_head_is_said_once(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").output = WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "its phase")
    ray.away = True
    wait_until(lambda: run.state.get("phase") == "waiting for the head", "its phase")
    renewals = len(run.kubernetes.asked("PUT", LEASES))
    wait_until(lambda: len(run.kubernetes.asked("PUT", LEASES)) > renewals + 3, "renewals")
    assert [len(run.logged(phase)) for phase in ("waiting for resources", "waiting for the head")] == [1, 1]
    ray.away = False
    wait_until(lambda: len(run.logged("waiting for resources")) == 2, "its phase")


def test_runs_get_resources_in_the_order_of_their_submission(run: Supervised, older: Supervised, ray: FakeRay) -> None:
    older.start(name="older-abcde")
    job = submitted(ray, "older-1")
    job.output = WAITS
    wait_until(lambda: older.state.get("phase") == "waiting for resources", "the older run's phase")
    run.start()
    wait_until(lambda: run.state.get("phase") == "queued", "the younger run's phase")
    assert run.state["reason"] == f"behind older, which waits for {NEEDS}"
    assert ray.submissions == ["older-1"]
    job.output += HAS
    submitted(ray, "train-1").end("SUCCEEDED", 0)
    assert run.exit_code() == 0
    wait_until(lambda: older.state.get("phase") == "running", "the older run's phase")


def test_run_that_is_stopped_while_it_is_queued_ends_at_once(run: Supervised, older: Supervised, ray: FakeRay) -> None:
    older.start(name="older-abcde")
    submitted(ray, "older-1").output = WAITS
    wait_until(lambda: older.state.get("phase") == "waiting for resources", "the older run's phase")
    run.start()
    wait_until(lambda: run.state.get("phase") == "queued", "the younger run's phase")
    run.stop()
    assert run.exit_code() == 130
    assert ray.submissions == ["older-1"]


def test_run_whose_job_says_nothing_of_resources_holds_up_nobody_for_longer_than_a_while(
    run: Supervised, older: Supervised, ray: FakeRay
) -> None:
    """As a job without the library: younger runs would wait for its end."""
    older.start(name="older-abcde", says_nothing=0.5, renews=NEVER)
    submitted(ray, "older-1")
    run.start()
    submitted(ray, "train-1")
    assert older.state["quiet"]
    assert not older.state["began"]


def test_run_without_resources_gives_way_to_an_older_run_that_lost_its_own(
    run: Supervised, older: Supervised, ray: FakeRay
) -> None:
    older.start(name="older-abcde")
    first = submitted(ray, "older-1")
    first.output = HAS
    run.start("--max-attempts=1")
    submitted(ray, "train-1").output = WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "the younger run's phase")
    first.output += WAITS
    wait_until(lambda: run.state.get("phase") == "queued", "the younger run's phase")
    assert ray.stops == ["train-1"]
    first.output += HAS
    submitted(ray, "train-2").end("SUCCEEDED", 0)
    assert run.exit_code() == 0


def test_run_that_began_gives_way_to_nobody(run: Supervised, older: Supervised, ray: FakeRay) -> None:
    run.start()
    job = submitted(ray, "train-1")
    job.output = HAS
    wait_until(lambda: run.state.get("began"), "its begin")
    older.start(name="older-abcde")
    submitted(ray, "older-1").output = WAITS
    wait_until(lambda: older.state.get("phase") == "waiting for resources", "the older run's phase")
    job.output += WAITS
    wait_until(lambda: run.state.get("phase") == "waiting for resources", "the younger run's phase")
    job.output += HAS
    wait_until(lambda: run.state.get("phase") == "running", "the younger run's phase")
    assert (ray.stops, ray.submissions) == ([], ["train-1", "older-1"])


def test_run_whose_supervisor_is_gone_holds_up_nobody_for_longer_than_its_lease(
    run: Supervised, older: Supervised, ray: FakeRay
) -> None:
    older.start(name="older-abcde")
    submitted(ray, "older-1").output = WAITS
    wait_until(lambda: older.state.get("phase") == "waiting for resources", "the older run's phase")
    older.kill()
    run.start(passes_over=1)
    submitted(ray, "train-1")
    assert [line["message"] for line in run.logged("queued")] == ["queued"]


def test_supervisor_whose_end_the_kubelet_reports_is_succeeded_at_once(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1")
    run.kill()
    status: dict[str, Any] = {"phase": "Failed"}
    run.kubernetes.put(
        PODS, {"metadata": {"name": "train-abcde", "uid": "pod-1", "labels": {}}, "spec": {}, "status": status}
    )
    run.start(name="train-fghij")
    wait_until(lambda: run.logged("waiting for the lease"), "a successor: somebody else may have marked the pod")
    status["containerStatuses"] = [{"state": {"terminated": {"exitCode": 137}}}]
    wait_until(lambda: run.logged("found"), "the job that runs")


def test_supervisor_only_renews_its_lease_while_the_job_runs(run: Supervised, ray: FakeRay) -> None:
    run.start()
    submitted(ray, "train-1").output = HAS
    wait_until(lambda: run.state.get("phase") == "running" and run.state.get("began"), "its phase")
    before = len(run.kubernetes.requests)
    wait_until(lambda: len(run.kubernetes.requests) >= before + 5, "renewals")
    assert {(method, path) for method, path, _ in run.kubernetes.requests[before:]} == {("PUT", f"{LEASES}/train")}
    lists = [path for method, path, _ in run.kubernetes.requests if method == "GET" and "watch" not in path]
    assert len([path for path in lists if path.startswith(PODS)]) == 1


def test_supervisor_between_two_renewals_writes_only_news(run: Supervised, ray: FakeRay) -> None:
    """What decides how the run ends is written at once: a successor cannot learn it from another head."""
    run.start(renews=NEVER, says_nothing=NEVER)
    job = submitted(ray, "train-1")
    job.output = HAS
    wait_until(lambda: run.state.get("phase") == "running" and run.state.get("began"), "its phase")
    job.output += "checkpoint of step 10 written in 0.1 s\n"
    wait_until(lambda: run.state.get("progress") == 10, "the attempt's first progress")
    assert run.state["progressed"]
    before = len(run.kubernetes.asked("PUT", LEASES))
    job.output += "checkpoint of step 20 written in 0.1 s\n"
    wait_until(lambda: "step 20" in run.log.read_text(), "its output")
    # Several looks long.
    time.sleep(0.3)
    job.output += "train: attempt 1 runs with 4 of 4 workers\n"
    wait_until(lambda: run.state["reason"] == "runs with 4 of 4 workers", "its workers")
    assert len(run.kubernetes.asked("PUT", LEASES)) == before + 1
    assert run.state["progress"] == 20
