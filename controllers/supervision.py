"""The job supervisor's loop over one run: submit an attempt, follow it, conclude, until the run is over."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from controllers.job_decision import LOST, STOPPED_CODE, WITHDRAWN, Ending, Limits, decide
from controllers.job_output import OUTPUT_MARK, JobOutput
from controllers.job_run import RUNNING, WAITING, RunState, SupervisedRun
from controllers.kubernetes_api import ApiServer, KubernetesApiError, Object, read
from controllers.lease import SAVE_SECONDS, LeaseLostError
from controllers.ray_jobs_api import ENDED, HeadUnavailableError, Pace, RayError, RayJob, RayJobs, Saving, submission
from controllers.run_objects import RunObjects
from controllers.telemetry import Metrics, log

NAME: Final = "job-supervisor"
STOP_SECONDS: Final = 60
"""How long a job that is stopped may take to save."""

NAME_IN_USE: Final = 2

HOLD_SECONDS: Final = 120.0
"""How long the workers wait after a save for the reaper, which has the answer in seconds; pods take 30 to end."""

_POLL_SECONDS: Final = 2.0
# While the output arrives, its end says when the job ended.
_ASK_CONNECTED_SECONDS: Final = 30.0
# An attempt that prints nothing of its resources for this time has them: its job does not use the library.
_SAYS_NOTHING_SECONDS: Final = 30.0
_FIRST_LISTS_SECONDS: Final = 0.1
_STOP_AGAIN_SECONDS: Final = 30.0
_SILENT_SECONDS: Final = 120.0
_REFUSALS: Final = 2
# Longer than a submission takes, so that nobody else can hold the Lease before Ray has answered.
_SAFE_SECONDS: Final = 20.0
# Phases whose reason changes, but seldom: each is logged and saved.
_WITH_REASONS: Final = frozenset({"queued", WAITING, RUNNING})
_PHASES: Final = {"SUCCEEDED": "succeeded", "STOPPED": "stopped"}


class TerminatedError(Exception):
    """The process must end before the run is over."""


class NameInUseError(Exception):
    """Ray has a job of this name that another run submitted."""


class Supervisor:
    """One run, from its first attempt to its end."""

    def __init__(self, server: ApiServer, metrics: Metrics, run: SupervisedRun, limits: Limits, holder: str) -> None:
        self.ending = threading.Event()
        self._metrics = metrics
        self._run = run
        self._limits = limits
        self._objects = RunObjects(server, run, holder, _no_answer)
        self._pods = self._objects.pods
        self._state = RunState(run.first_attempt)
        self._fresh = ""
        """The newest attempt that did not resume, although it made progress."""
        self._holder = ""
        """The holder of the Lease that this process waits for."""
        self._alive_at = time.monotonic()
        metrics.describe("job_supervisor_submissions_total", "counter", "Attempts that this process submitted.")
        metrics.describe("job_supervisor_progress", "gauge", "Progress of the run; -1 if the job prints none.")

    def stall(self) -> str:
        """Return the fault that a restart would fix; empty if there is none."""
        if ended := self._objects.ended:
            return f"ended: the watch of {', '.join(ended)}"
        silent = time.monotonic() - self._alive_at
        return f"no sign of life for {silent:.0f} s" if silent > _SILENT_SECONDS else ""

    def run(self) -> int:
        """Supervise the run and return its exit code. Raises ApiError, LeaseLostError and TerminatedError."""
        saved = self._objects.acquire(self.ending, self._waits_for)
        if saved is None:
            raise TerminatedError
        if saved:
            self._state = read(RunState.of, saved)
            self._objects.pods.recall(self._state)
        self._state.submitted = self._objects.submitted
        say("began", run=self._run.name, attempt=self._state.attempt, restarted=bool(saved))
        try:
            while not self._objects.known:
                self._tick()
                self.ending.wait(_FIRST_LISTS_SECONDS)
            while self._state.exit_code is None:
                self._conclude(self._submit() or self._follow())
        except NameInUseError as error:
            self._over("refused", str(error), NAME_IN_USE)
        except TerminatedError:
            self._leave()
            raise
        except LeaseLostError:
            # The Lease of a deleted Job is garbage-collected before the pod receives SIGTERM.
            self._end_if_deleted()
            raise
        return self._state.exit_code if self._state.exit_code is not None else NAME_IN_USE

    def _submit(self) -> Ending | None:
        """Submit the attempt unless it already runs; return its ending if it can no longer run."""
        refusals = 0
        pace = Pace()
        while True:
            self._tick()
            if self._objects.wants_stop and (not self._state.session or not self._pods.head):
                return Ending("STOPPED")
            try:
                if self._is_its_turn() and pace.allows(self._pods.head):
                    with pace:
                        return self._submit_to(self._pods.ray())
            except HeadUnavailableError as error:
                self._enter("waiting for the head", str(error))
            except RayError as error:
                # A new head has no agent yet that could start a job, and answers 500. Ray also refuses an id that was
                # submitted meanwhile; the next pass finds that job.
                self._enter("waiting for Ray", str(error))
                refusals += error.status < 500
                if refusals >= _REFUSALS:
                    return Ending("FAILED", message=str(error))
            except KubernetesApiError as error:
                _no_answer(error)
            self.ending.wait(_POLL_SECONDS)

    def _is_its_turn(self) -> bool:
        """Return whether no older run waits for its resources, or whether this attempt was submitted before."""
        if self._state.session:
            return True
        ahead = self._objects.queue.ahead()
        if ahead:
            self._enter("queued", ahead)
        return ahead == ""

    def _submit_to(self, ray: RayJobs) -> Ending | None:
        session = ray.session()
        self._state.session = self._state.session or session
        if job := ray.get(self._id):
            self._check_owner(job)
            say("found", submission_id=self._id, status=job.status)
            return None
        if self._state.session != session:
            return Ending(LOST, progressed=self._state.progressed, waited=self._state.waits)
        if self._objects.wants_stop:
            return Ending("STOPPED")
        before = self._attempts_before(ray)
        if package := self._run.package:
            ray.upload(package.name, package.read_bytes())
        self._objects.save(self._state)
        for submission_id in before:
            self._require_lease()
            say("stopping an earlier attempt", submission_id=submission_id)
            ray.stop(submission_id)
        self._require_lease()
        ray.submit(self._request())
        self._metrics.add("job_supervisor_submissions_total")
        say("submitted", submission_id=self._id, session=session)
        return None

    def _request(self) -> Object:
        run, attempt = self._run, str(self._state.attempt)
        uid = self._objects.uid
        env = {**run.variables, "RUN_NAME": run.name, "RUN_ATTEMPT": attempt, "RUN_SERIES": uid}
        env["RUN_STORAGE"] = run.storage
        env["RAY_JOB_STOP_WAIT_TIME_S"] = str(STOP_SECONDS)
        metadata = {"run": run.name, "attempt": attempt, "supervisor": uid}
        package = run.package.name if run.package else None
        return submission(self._id, run.entrypoint, env=env, metadata=metadata, package=package, pip=run.pip)

    def _attempts_before(self, ray: RayJobs) -> list[str]:
        """Return the earlier attempts that Ray still runs and that would write beside the new one.

        Raises NameInUseError.
        """
        before = []
        for job in ray.list():
            # A job with the new attempt's id was submitted by a successor, which holds the Lease by now.
            if job.metadata.get("run") == self._run.name and job.status not in ENDED and job.submission_id != self._id:
                self._check_owner(job)
                before.append(job.submission_id)
        return before

    def _require_lease(self) -> None:
        if self._objects.lease_seconds() < _SAFE_SECONDS:
            raise HeadUnavailableError("the Lease was renewed too slowly")

    def _check_owner(self, job: RayJob) -> None:
        if job.metadata.get("supervisor") != self._objects.uid:
            raise NameInUseError(f"Ray has a job {job.submission_id} of another run. Fix: choose another name")

    def _follow(self) -> Ending:
        """Show the attempt's output until the attempt ends; return its ending."""
        output = JobOutput(self._id, partial(_mark, self._id))
        pace = Pace()
        saving = Saving(self._request(), SAVE_SECONDS, HOLD_SECONDS)
        began = time.monotonic()
        stop_at = 0.0
        # Time without a head or without resources is not counted: there is nothing to try.
        runs_since: float | None = None
        while True:
            self._tick()
            self._note(output)
            if runs_since is not None and not output.waits:
                self._state.stalled_seconds += time.monotonic() - runs_since
            runs_since = None
            try:
                ray = self._pods.ray()
                if asks := pace.allows(self._pods.head, _ASK_CONNECTED_SECONDS if output.connected else 0.0):
                    with pace:
                        job = ray.get(self._id)
                    if job is None:
                        return self._ending(Ending(LOST), output)
                    if not output.waits:
                        self._enter_running(output)
                    if job.status in ENDED:
                        output.show_rest(ray, self._tick)
                        return self._ending(_ending_of(job, self._state.withdrawn), output)
                if not (asks or output.connected):
                    self.ending.wait(_POLL_SECONDS)
                    continue
                runs_since = time.monotonic()
                self._note_resources(output, quiet=runs_since - began > _SAYS_NOTHING_SECONDS)
                self._save_before_moves(ray, saving)
                self._withdraw_if_behind(output)
                if (self._objects.wants_stop or self._state.withdrawn) and time.monotonic() >= stop_at:
                    if self._objects.wants_stop and not stop_at:
                        say("stop requested", submission_id=self._id, saves_within=f"{STOP_SECONDS} s")
                    stop_at = time.monotonic() + _STOP_AGAIN_SECONDS
                    ray.stop(self._id)
                self._listen(ray, output)
            except (HeadUnavailableError, RayError) as error:
                output.close()
                self._enter("waiting for the head", str(error))
                if self._objects.wants_stop and not self._pods.head:
                    return self._ending(Ending("STOPPED"), output)
                self.ending.wait(_POLL_SECONDS)

    def _note_resources(self, output: JobOutput, *, quiet: bool) -> None:
        """Note whether the attempt has its resources; `quiet`: it has had the time to say that it has none."""
        state = self._state
        if output.waits:
            self._enter(WAITING, output.waits)
        elif state.phase in (WAITING, RUNNING):
            self._enter_running(output)
        if (output.began and not state.began) or (quiet and not state.quiet):
            state.began, state.quiet = state.began or output.began, quiet
            self._objects.renew_soon()
        if not state.holds_up:
            self._objects.queue.leave()

    def _save_before_moves(self, ray: RayJobs, saving: Saving) -> None:
        """Let the attempt save before the reaper deletes pods of its RayCluster, and answer the reaper in the Lease.

        An attempt that cannot save, as one without the library, is an answer too: the reaper would wait in vain.
        """
        state, moving = self._state, self._pods.moving
        answered = set(state.answered) & moving
        if answer := saving.poll(ray, moving - answered if state.trains else frozenset()):
            answered |= answer.pods & moving
            say("saved before a move" if answer.saved else "did not save before a move", answer=answer.message)
        if answered != set(state.answered):
            state.answered = sorted(answered)
            self._objects.renew_soon()

    def _withdraw_if_behind(self, output: JobOutput) -> None:
        """Decide whether the attempt must wait outside of Ray, where it could take an older run's resources.

        The Lease says so before Ray stops the attempt: a successor would take that for a stop by somebody else.
        """
        state = self._state
        if state.withdrawn or state.began or not output.waits or not (ahead := self._objects.queue.ahead()):
            return
        say("gives way", submission_id=self._id, reason=ahead)
        state.withdrawn = f"it had no resources yet and waits {ahead}"
        try:
            self._objects.save(state)
        except KubernetesApiError as error:
            state.withdrawn = ""
            _no_answer(error)

    def _listen(self, ray: RayJobs, output: JobOutput) -> None:
        """Show output until the next look is due."""
        until = time.monotonic() + _POLL_SECONDS
        while (left := until - time.monotonic()) > 0 and not self.ending.is_set():
            if not output.follow(ray, left):
                self.ending.wait(left)

    def _ending(self, ending: Ending, output: JobOutput) -> Ending:
        lines = output.end()
        self._note(output)
        try:
            self._pods.poll()
            self._pods.ask()
        except KubernetesApiError as error:
            _no_answer(error)
        fresh = self._is_fresh(output)
        return replace(
            ending,
            output=lines,
            lost_pods=self._pods.lost,
            progressed=self._state.progressed,
            fresh=fresh,
            waited=self._state.waits,
        )

    def _is_fresh(self, output: JobOutput) -> bool:
        """Return whether a later attempt than the first began again at step 0, as far as its output shows."""
        return self._state.attempt > 1 and not output.resumed

    def _note(self, output: JobOutput) -> None:
        if output.progress >= 0 and self._is_fresh(output) and self._fresh != self._id:
            self._fresh = self._id
            say("warning: did not resume", submission_id=self._id, fix="print `resumes from step N` after loading")
        self._state.figures = output.figures or self._state.figures
        # A new connection begins with nothing: until then the state's word counts.
        if output.waits or output.began:
            self._state.waits = bool(output.waits)
        if output.progress > self._state.progress:
            if not self._state.progressed:
                # From here on a failure has another consequence, also for a successor under another head.
                self._objects.renew_soon()
            self._state.progress, self._state.progressed = output.progress, True
            self._state.progress_at = datetime.now(UTC).isoformat(timespec="seconds")
            self._state.stalled_seconds = 0.0
            self._pods.forget()
            self._objects.renew_within()
            self._metrics.set("job_supervisor_progress", output.progress)

    def _conclude(self, ending: Ending) -> None:
        state = self._state
        attempts = state.attempt - self._run.first_attempt + 1 - state.uncounted
        verdict = decide(
            ending, attempts=attempts, stalled=state.stalled, seconds=state.stalled_seconds, limits=self._limits
        )
        say("ended", submission_id=self._id, status=ending.status, cause=verdict.cause, reason=verdict.reason)
        self._pods.forget()
        if verdict.exit_code is not None:
            self._over(_PHASES.get(ending.status, "failed"), verdict.reason, verdict.exit_code)
            return
        if self._objects.wants_stop:
            self._over("stopped", verdict.reason, STOPPED_CODE)
            return
        state.attempt, state.session = state.attempt + 1, ""
        state.progressed = state.began = state.quiet = state.waits = False
        state.withdrawn = ""
        # The next attempt saves again before a move: what this one answered was about its own steps.
        state.answered = []
        state.stalled = verdict.stalled
        state.uncounted += not verdict.counts
        state.stalled_seconds += verdict.delay
        self._enter("waiting to retry", verdict.reason)
        until = time.monotonic() + verdict.delay
        while (left := until - time.monotonic()) > 0 and not self._objects.wants_stop:
            self._tick()
            self.ending.wait(min(_POLL_SECONDS, left))

    def _over(self, phase: str, reason: str, exit_code: int) -> None:
        """Save the end in the Lease, so that no successor begins again; if the API does not answer, only log it."""
        self._state.phase, self._state.reason, self._state.exit_code = phase, reason, exit_code
        say("over", phase=phase, reason=reason, exit_code=exit_code, attempt=self._state.attempt)
        try:
            self._objects.save(self._state)
            self._objects.release()
        except KubernetesApiError as error:
            _no_answer(error)

    def _leave(self) -> None:
        """Free the Lease for a successor. If the Job itself was deleted there is none: stop the run."""
        self._end_if_deleted()
        try:
            self._objects.release()
        except KubernetesApiError as error:
            _no_answer(error)

    def _end_if_deleted(self) -> None:
        try:
            if self._objects.is_deleted() and self._pods.head:
                say("stopping the run: its Job was deleted")
                self._pods.ray().stop(self._id)
        except (KubernetesApiError, HeadUnavailableError, RayError) as error:
            say("no answer", error=str(error))

    def _tick(self) -> None:
        """Renew the Lease as due and look at the watched objects. Raises TerminatedError and LeaseLostError."""
        if self.ending.is_set():
            raise TerminatedError
        self._alive_at = time.monotonic()
        self._objects.tick(self._state)

    def _enter(self, phase: str, reason: str) -> None:
        """Log a new phase, or a new reason of some phases, and let the next tick save it in the Lease."""
        state = self._state
        if phase != state.phase or (phase in _WITH_REASONS and reason != state.reason):
            state.phase, state.reason = phase, reason
            self._objects.renew_soon()
            say(phase, **({"reason": reason} if reason else {}))

    def _enter_running(self, output: JobOutput) -> None:
        # A successor has read no output yet, but knows the reason.
        if output.printed or self._state.phase != RUNNING:
            self._enter(RUNNING, output.stage)

    def _waits_for(self, holder: str) -> None:
        self._alive_at = time.monotonic()
        if holder != self._holder:
            self._holder = holder
            say("waiting for the lease", holder=holder)

    @property
    def _id(self) -> str:
        return self._run.submission_id(self._state.attempt)


def say(message: str, **fields: object) -> None:
    """Log a line of the supervisor among the lines of the job."""
    log(message, controller=NAME, **fields)


def _ending_of(job: RayJob, withdrawn: str) -> Ending:
    """Return how a job ended; `withdrawn` is the reason for which the supervisor itself stopped it."""
    if withdrawn and job.status == "STOPPED":
        return Ending(WITHDRAWN, message=withdrawn)
    return Ending(job.status, job.exit_code, job.message)


def _no_answer(error: KubernetesApiError) -> None:
    say("no answer", error=str(error))


def _mark(job: str, position: int) -> None:
    say(OUTPUT_MARK, job=job, position=position)
