"""Output of a run that no log of its supervisors has: Ray keeps it as long as the head lives, the storage longer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from kubernetes.client import ApiException
from rich.console import Console

from ops.jobs.direct import head_of
from ops.jobs.head_api import ENDED, HeadApi, HeadUnreachableError, RayApiError, heads
from ops.jobs.kind import JobKind
from ops.jobs.run import ExistingRun, RunError
from ops.jobs.runs import Runs
from ops.jobs.shown import Shown
from ops.jobs.stored import kept
from ops.jobs.stored.kept import KeptOutput, KeptOutputError

_NOT_FOUND: Final = 404


class Elsewhere:
    """The output of a run in Ray and in the run's storage; see `ops.jobs.shown.OutputSource`."""

    def __init__(self, runs: Runs, run: ExistingRun) -> None:
        self._runs = runs
        self._run = run
        self._reason = ""

    def attempts(self, run: ExistingRun) -> list[str]:
        """Return the attempts of the run, which has ended, oldest first; those of a RayJob are not known."""
        last = int(run.state.get("attempt", 0))
        if run.kind is JobKind.RAYJOB:
            return []
        return [f"{run.name}-{number}" for number in range(run.first_attempt, last + 1)]

    def between(self, job: str, begin: int, end: int) -> str:
        """Return what is between two positions of an attempt's output; empty if that is lost."""
        for head in self._heads():
            with self._noting_errors():
                text = ""
                for piece in head.tail(job):
                    text += piece
                    if len(text) >= end:
                        return text[begin:end]
        found = self._kept.get(job)
        return (found and found.between(begin, end)) or ""

    def before(self, job: str) -> list[str]:
        """Return the attempts of the run before this one, oldest first."""
        number = re.fullmatch(rf"{re.escape(self._run.name)}-(\d+)", job)
        return [f"{self._run.name}-{n}" for n in range(self._run.first_attempt, int(number[1]))] if number else []

    def rest(self, job: str, begin: int) -> tuple[list[str], str]:
        """Return the output of an attempt that has ended, from a position on; between its pieces some is missing.

        Also return the reason if its end is missing.
        """
        for head in self._heads():
            with self._noting_errors():
                if head.job(job)["status"] in ENDED:
                    return ["".join(head.tail(job))[begin:]], ""
        if found := self._kept.get(job):
            return found.after(begin), found.end_missing
        return [], self._reason or "neither a log nor the storage has it"

    @cached_property
    def _kept(self) -> dict[str, KeptOutput]:
        """The kept output of the run's attempts. Of programs of one job, each has kept all from the beginning on."""
        if not self._runs.may_reach_heads():
            self._reason = "only submitters can read output that was kept"
            return {}
        for head in self._heads():
            with self._noting_errors():
                found = kept.read(head, self._run.name, self._run.storage)
                return {each.job: each for each in found if each.series == self._run.series}
        return {}

    def _heads(self) -> Iterator[HeadApi]:
        with self._noting_errors():
            for pod in heads(self._runs.core, self._runs.namespace, self._run.cluster):
                yield HeadApi(self._runs.core, self._runs.namespace, pod)
                return
        self._reason = self._reason or f"RayCluster {self._run.cluster} has no running head that could read the storage"

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Note the error if the head does not have or say what it is asked: the output is reported as missing."""
        try:
            yield
        except (ApiException, HeadUnreachableError, RayApiError, KeptOutputError) as error:
            if not isinstance(error, RayApiError) or error.status != _NOT_FOUND:
                self._reason = str(error.reason if isinstance(error, ApiException) else error)


class _Kept:
    """A source of one job's kept output only."""

    def __init__(self, output: KeptOutput) -> None:
        self._output = output

    def between(self, _: str, begin: int, end: int) -> str:
        return self._output.between(begin, end) or ""

    def before(self, _: str) -> list[str]:
        return []

    def rest(self, _: str, begin: int) -> tuple[list[str], str]:
        return self._output.after(begin), self._output.end_missing


def show_kept(runs: Runs, name: str, cluster: str | None, storage: str, console: Console) -> None:
    """Show the output of all jobs of a run that Kubernetes no longer knows. Raises RunError if none is kept."""
    unknown = f"there is no run {name} in namespace {runs.namespace}"
    if not runs.may_reach_heads():
        raise RunError(f"{unknown}. Fix: see `ops job list`; only submitters can read output that was kept")
    try:
        head = HeadApi(runs.core, runs.namespace, head_of(runs.core, runs.namespace, runs.cluster(cluster)))
        found = {(each.series, each.job): each for each in kept.read(head, name, storage)}
    except (RunError, HeadUnreachableError, RayApiError, KeptOutputError) as error:
        raise RunError(f"{unknown}. Fix: see `ops job list`. Output kept of an earlier one: {error}") from error
    if not found:
        raise RunError(f"{unknown}, and none with output in {storage}. Fix: see `ops job list`, or give its --storage")
    for each in found.values():
        shown = Shown(console, _Kept(each))
        shown.aside("kept output", {"job": each.job})
        shown.finish(each.job)
