"""Running jobs before a change that takes their workers away: they save first, or the change is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ops.change.drain import Say
from ops.change.scale import refuse_jobs
from ops.clients import Clients
from ops.errors import RefusedError
from ops.jobs.checkpoint import CheckpointError, RunningJob, jobs_on, save_all
from ops.jobs.head_api import HeadUnreachableError, RayApiError
from ops.jobs.running import running


def jobs_to_save(
    clients: Clients, clusters: set[tuple[str, str]], say: Say, *, force: bool, checkpoint: bool | None
) -> list[RunningJob]:
    """Return the jobs on the RayClusters that save first; none with `force`. `checkpoint` None: no such option.

    Raises RefusedError if a job runs and `checkpoint` is not given, or if one cannot save.
    """
    if force:
        return []
    if not checkpoint:
        instead = "" if checkpoint is None else "let it save first with `--checkpoint`"
        refuse_jobs(clusters, partial(running, clients.kubernetes), instead=instead)
        return []
    with _as_refusal():
        jobs = [job for place in sorted(clusters) for job in jobs_on(clients.kubernetes, *place)]
    for job in jobs:
        say(f"  {job}: saves first")
    return jobs


def save(jobs: list[RunningJob], say: Say) -> None:
    """Let the jobs save; their workers then wait for their end. Raises RefusedError unless all have saved."""
    with _as_refusal():
        save_all(jobs, say)


@contextmanager
def _as_refusal() -> Iterator[None]:
    try:
        yield
    except (CheckpointError, HeadUnreachableError, RayApiError) as error:
        raise RefusedError(str(error)) from error
