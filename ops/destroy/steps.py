"""The steps of `ops destroy`: what forbids it, the question, the destroy, and what is left."""

from functools import partial

from config import EksEnvironment, Environment
from ops.change.scale import refuse_jobs
from ops.cli import confirmed
from ops.clients import CallerAccount, connect
from ops.destroy import show
from ops.destroy.plan import DestroyPlan, plan
from ops.destroy.run import Print, carry_out
from ops.errors import RefusedError, UnreachableError, in_plain_words
from ops.jobs.running import ray_clusters, running


def plan_destroy(environment: Environment) -> DestroyPlan:
    """Return what a destroy of the environment would do. Raises UnreachableError."""
    account = CallerAccount(environment)
    with in_plain_words():
        return plan(account.client("cloudformation"), environment)


def destroy(environment: Environment, say: Print, *, yes: bool, force: bool, interval: float = 5) -> None:
    """Show the plan, ask, and destroy the stacks.

    Raises RefusedError, DestroyFailedError and UnreachableError.
    """
    account = CallerAccount(environment)
    with in_plain_words():
        cloudformation = account.client("cloudformation")
        made = plan(cloudformation, environment)
        for line in show.lines(made, environment):
            say(line)
        if not made.going:
            say(f"{environment.name}: there is nothing to destroy")
            return
        _refuse_busy(made)
        if not force:
            _refuse_jobs(environment, made)
        question = f"Destroy {environment.name} in account {environment.account}"
        if made.data:
            question += ", and delete this data for good"
        if not yes and not confirmed(f"{question}?"):
            raise RefusedError("not confirmed: nothing was destroyed. Fix: answer y, or give --yes")
        carry_out(environment, made, cloudformation, say, interval=interval)
        say(f"{environment.name}: {len(made.going)} stacks destroyed")


def _refuse_busy(made: DestroyPlan) -> None:
    if made.busy:
        busy = ", ".join(f"{stack.name} ({stack.status})" for stack in made.busy)
        raise RefusedError(f"stacks are being changed: {busy}. Fix: wait until they are not, then rerun")


def _refuse_jobs(environment: Environment, made: DestroyPlan) -> None:
    """Raise RefusedError if a job runs, unless the RayClusters are already being deleted."""
    if not isinstance(environment, EksEnvironment) or not any(
        each.stack.part == "ray" and not each.stack.status.startswith("DELETE") for each in made.going
    ):
        return
    try:
        with connect(environment) as clients, in_plain_words():
            clusters = ray_clusters(clients.kubernetes, environment.ray.namespace)
            refuse_jobs(clusters, partial(running, clients.kubernetes))
    except UnreachableError as error:
        raise RefusedError(f"running jobs are unknown (override with `--force`): {error}") from error
