"""The job supervisor's rule, ending by ending."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.job_decision import (
    BEGAN,
    FIGURES,
    LOST,
    PROGRESS,
    WAITS,
    WITHDRAWN,
    WORKERS,
    AttemptDecision,
    Cause,
    Ending,
    Limits,
    decide,
)

HOURS = 4 * 3600.0
LIMITS = Limits(attempts=100, stalled=5, seconds=HOURS)
SUCCESS, STOP, INFRASTRUCTURE, PEER, CODE = Cause.SUCCESS, Cause.STOP, Cause.INFRASTRUCTURE, Cause.PEER, Cause.CODE
ENTRY_POINT = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
TRACEBACK = ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "ValueError: no")
WORKER_DIED = ("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",)
NODE_DIED = ("ray.exceptions.RayTaskError(NodeDiedError): Task failed because the node it was running on is dead",)
NCCL = ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, ncclRemoteError",)
LOST_WORKER = ("pod rayml-worker of node gpu-1",)


def verdict(ending: Ending, *, attempts: int = 1, stalled: int = 0, seconds: float = HOURS) -> AttemptDecision:
    return decide(ending, attempts=attempts, stalled=stalled, seconds=seconds, limits=LIMITS)


def failed(code: int | None = 1, *, message: str = ENTRY_POINT, output: tuple[str, ...] = ()) -> Ending:
    return Ending("FAILED", code, message, output)


def test_pips_own_error_is_the_reason_of_packages_that_cannot_be_installed() -> None:
    ray = "runtime_env setup failed: Failed to set up runtime environment.\nTraceback (most recent call last):\n"
    pip = "Last 50 lines of stdout:\n    Collecting x==1\n    ERROR: No matching distribution found for x==1\n"
    assert verdict(failed(None, message=ray + pip)).reason == (
        "the job failed: ERROR: No matching distribution found for x==1"
    )
    assert verdict(failed(None, message=ray)).reason.startswith("the job failed: runtime_env setup failed: ")


@pytest.mark.parametrize(
    ("ending", "cause", "exit_code"),
    [
        (Ending("SUCCEEDED", 0), SUCCESS, 0),
        (Ending("STOPPED"), STOP, 130),
        # The head was lost, and with it Ray's record of all jobs.
        (Ending(LOST), INFRASTRUCTURE, None),
        # Ray's own supervising actor died, not the entry point.
        (failed(None, message="Unexpected error occurred: The actor died unexpectedly"), INFRASTRUCTURE, None),
        (failed(None, message="Unexpected error occurred: failed to get job supervisor."), INFRASTRUCTURE, None),
        (failed(None, message="Job supervisor actor failed to start within 900 seconds."), INFRASTRUCTURE, None),
        (failed(None, message="Job supervisor actor could not be scheduled: x"), INFRASTRUCTURE, None),
        # A wrong hash, or an index that was down for a moment.
        (failed(None, message="runtime_env setup failed: no such package"), PEER, None),
        (failed(None, message="Traceback (most recent call last):\nOSError"), CODE, 1),
        # The entry point ended, with or without signs of an infrastructure failure.
        (failed(output=WORKER_DIED), INFRASTRUCTURE, None),
        (failed(output=NODE_DIED), INFRASTRUCTURE, None),
        (failed(output=("ray.exceptions.ActorUnavailableError: The actor is temporarily gone",)), INFRASTRUCTURE, None),
        (failed(output=NCCL), PEER, None),
        (failed(output=(*NCCL, *WORKER_DIED, *NCCL)), INFRASTRUCTURE, None),
        (failed(output=(*WORKER_DIED, *TRACEBACK)), INFRASTRUCTURE, None),
        (failed(output=TRACEBACK), CODE, 1),
        (failed(output=("my_RpcErrors = 3",)), CODE, 1),
        (failed(), CODE, 1),
        (failed(3), CODE, 3),
        (failed(127), CODE, 127),
        (failed(-9), CODE, 137),
        (failed(0), CODE, 1),
        # A wrong call cannot succeed, whatever else happened.
        (failed(2, output=WORKER_DIED), CODE, 2),
    ],
)
def test_each_ending_has_its_cause_and_exit_code(ending: Ending, cause: Cause, exit_code: int | None) -> None:
    decided = verdict(ending)
    assert (decided.cause, decided.exit_code) == (cause, exit_code)


def test_failure_after_a_lost_pod_is_the_infrastructures_and_names_it() -> None:
    decided = verdict(Ending("FAILED", 1, ENTRY_POINT, TRACEBACK, LOST_WORKER))
    assert (decided.cause, decided.again) == (INFRASTRUCTURE, True)
    assert LOST_WORKER[0] in decided.reason


def test_bug_after_progress_is_retried_and_a_second_one_without_progress_is_final() -> None:
    first = verdict(Ending("FAILED", 1, ENTRY_POINT, TRACEBACK, progressed=True))
    assert (first.cause, first.again) == (CODE, True)
    second = verdict(Ending("FAILED", 1, ENTRY_POINT, TRACEBACK), attempts=2, stalled=first.stalled)
    assert second.exit_code == 1


def test_progress_resets_the_count_of_stalled_failures() -> None:
    assert verdict(Ending(LOST, progressed=True), stalled=4).stalled == 1
    assert verdict(Ending(LOST), stalled=3).again
    assert verdict(Ending(LOST), stalled=4).exit_code == 1


def test_few_fast_failures_do_not_end_a_run_before_its_time() -> None:
    """A node's replacement takes longer than five tries, which take half a minute."""
    seconds, tries = 0.0, 0
    while (decided := verdict(Ending(LOST), stalled=tries, seconds=seconds)).again:
        tries, seconds = decided.stalled, seconds + decided.delay
    assert seconds >= HOURS
    assert decided.exit_code == 1
    assert decided.reason.endswith(f"{tries + 1} failures in a row without progress, for {seconds / 60:.0f} minutes")


def test_long_attempts_do_not_end_a_run_before_its_number_of_failures() -> None:
    assert verdict(Ending(LOST), stalled=3, seconds=100 * HOURS).again
    assert not verdict(Ending(LOST), stalled=4, seconds=100 * HOURS).again


def test_failure_of_a_peer_is_retried_a_few_times_only() -> None:
    """The code of the other worker may have failed: hours of GPUs would be lost."""
    assert verdict(failed(output=NCCL), stalled=3, seconds=0).again
    decided = verdict(failed(output=NCCL), stalled=4, seconds=0)
    assert decided.reason.endswith("DistBackendError; 5 failures in a row without progress, 5 are allowed")


def test_success_of_an_attempt_that_did_not_resume_says_so() -> None:
    decided = verdict(Ending("SUCCEEDED", 0, fresh=True), attempts=2)
    assert (decided.exit_code, decided.reason) == (
        0,
        "the job succeeded; its last attempt did not resume from a checkpoint",
    )


def test_run_that_always_makes_progress_ends_after_its_last_attempt() -> None:
    assert verdict(Ending(LOST, progressed=True), attempts=99).again
    assert verdict(Ending(LOST, progressed=True), attempts=100).exit_code == 1


def test_the_pause_grows_and_starts_short_enough_for_a_head_that_is_back() -> None:
    pauses = [decide(Ending(LOST), attempts=1, stalled=n, seconds=0, limits=Limits(99, 99, 0)).delay for n in range(10)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (2, 300)
    limits = Limits(9999, 5, HOURS)
    assert decide(Ending(LOST), attempts=5000, stalled=5000, seconds=0, limits=limits).delay == 300


@given(
    status=st.sampled_from(["FAILED", LOST]),
    code=st.none() | st.integers(-64, 255),
    lost=st.booleans(),
    progressed=st.booleans(),
    limits=st.builds(Limits, attempts=st.integers(1, 20), stalled=st.integers(1, 5), seconds=st.floats(0, 1e6)),
)
def test_every_run_ends(*, status: str, code: int | None, lost: bool, progressed: bool, limits: Limits) -> None:
    ending = Ending(status, code, lost_pods=LOST_WORKER if lost else (), progressed=progressed)
    stalled = attempts = 0
    decided = None
    while decided is None or decided.again:
        attempts += 1
        decided = decide(ending, attempts=attempts, stalled=stalled, seconds=0, limits=limits)
        stalled = decided.stalled
    assert attempts <= limits.attempts
    assert decided.exit_code != 0, "a failed run must not have the exit code of a successful one"


def test_progress_is_what_the_projects_own_jobs_print() -> None:
    library = Path(__file__).resolve().parents[3] / "packages" / "ray-resume" / "ray_resume" / "worker.py"
    assert "checkpoint of step {step} written" in library.read_text()
    line = "\x1b[36m(RayTrainWorker pid=7)\x1b[0m run train attempt 2: checkpoint of step 30 written in 0.20 s"
    found = PROGRESS.search(line)
    assert found is not None
    assert found[1] == "30"


def test_progress_is_also_the_checkpoint_with_which_a_run_ends() -> None:
    ends = Path(__file__).resolve().parents[3] / "packages" / "ray-resume" / "ray_resume" / "requests" / "on_sigterm.py"
    assert "ends at step {saved.step} ({saved.name})" in ends.read_text()
    found = PROGRESS.search("run train: ends at step 11120 (000011120@0002.01)")
    assert found is not None
    assert found[1] == "11120"


@pytest.mark.parametrize(
    "line", ["found checkpoint of step 30 (of attempt 1)", "ends at step 30 written", "ends at step 30"]
)
def test_no_other_line_is_progress(line: str) -> None:
    assert PROGRESS.search(line) is None


def test_number_of_workers_is_what_elastic_runs_print() -> None:
    library = Path(__file__).resolve().parents[3] / "packages" / "ray-resume" / "ray_resume" / "elastic" / "resizing.py"
    assert "runs with {self._group.size} of {self._group.full} workers" in library.read_text()
    found = WORKERS.search("\x1b[36m(RayTrainWorker pid=7)\x1b[0m train: attempt 2 runs with 3 of 4 workers")
    assert found is not None
    assert found[0] == "runs with 3 of 4 workers"


@given(st.integers(0, 1000), st.floats(0, 1e6))
def test_attempt_that_waited_for_resources_counts_for_nothing(stalled: int, seconds: float) -> None:
    for ending in (
        Ending(LOST, waited=True),
        failed(output=WORKER_DIED),
        Ending(WITHDRAWN, message="it waits behind another"),
    ):
        decided = verdict(replace(ending, waited=True), attempts=1000, stalled=stalled, seconds=seconds)
        assert (decided.again, decided.stalled, decided.counts) == (True, stalled, False)


def test_bug_of_the_code_is_one_while_it_waits_too() -> None:
    assert verdict(replace(failed(output=TRACEBACK), waited=True)).exit_code == 1


@pytest.mark.parametrize(
    ("line", "waits", "began"),
    [
        ("train: attempt 1 waits for resources: 2 x {CPU: 1}", "2 x {CPU: 1}", False),
        ("train: attempt 1 has its resources after 3 s", None, True),
        ("run train attempt 0001.01: starts at step 0", None, True),
        ("run train attempt 0002.01: resumes from step 30 (…)", None, True),
        ("run train attempt 0002.01: checkpoint of step 30 written in 0.1 s", None, True),
        ("epoch 1", None, False),
    ],
)
def test_what_the_library_prints_of_its_resources_is_known(line: str, waits: str | None, began: bool) -> None:
    library = Path(__file__).resolve().parents[3] / "packages" / "ray-resume" / "ray_resume" / "watchdog.py"
    assert "waits for resources: {missing}" in library.read_text()
    assert "has its resources after" in library.read_text()
    found = WAITS.search(line)
    assert (found and found[1]) == waits
    assert (BEGAN.search(line) is not None) == began


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("step 7: 2 steps/s", {"step": "7", "loss": None, "steps_per_second": "2", "goodput": None}),
        (
            "step 7: loss -1.5e-07, 1e+03 steps/s",
            {"step": "7", "loss": "-1.5e-07", "steps_per_second": "1e+03", "goodput": None},
        ),
        (
            "x step 7: loss inf, 0 steps/s, goodput 9 %; s",
            {"step": "7", "loss": "inf", "steps_per_second": "0", "goodput": "9"},
        ),
        ("step 7: loss low, 2 steps/s", None),
        ("step 7: loss 1.2.3, 2 steps/s", None),
        ("checkpoint of step 7 written in 2 s", None),
        ("resumes from step 7 (000000007@0001.01, read in 2 s)", None),
    ],
)
def test_figures_are_read_from_a_line_of_their_form_only(line: str, figures: dict[str, str | None] | None) -> None:
    found = FIGURES.search(line)
    assert (found and found.groupdict()) == figures
