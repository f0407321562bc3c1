"""Changes of a deployed environment: show the plan, ask for confirmation, then report each step."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from config import EksEnvironment, Environment, file_of
from config.estimates import costs
from config.findings import shown
from ops.change import by_hand
from ops.change import kuberay_crds as crds
from ops.change import pause as pauses
from ops.change import rollout as rollouts
from ops.change import scale as scaling
from ops.change import update_software as software
from ops.change.kuberay_crds import CrdOwner, CustomResourceDefinition
from ops.change.saving import jobs_to_save, save
from ops.cli import confirmed
from ops.clients import Clients, connect
from ops.environment.edits import lower_counts
from ops.errors import RefusedError, in_plain_words
from ops.jobs.running import running
from ops.jobs.waking import wakes
from ops.max_unavailable import MaxUnavailable

Print = Callable[[str], None]


def scale(
    environment: EksEnvironment,
    group: str,
    count: int,
    say: Print,
    *,
    yes: bool,
    dry_run: bool,
    force: bool,
    checkpoint: bool,
    timeout: float,
    interval: float = 5,
) -> None:
    """Lower the group to `count` nodes within `timeout` seconds. Raises RefusedError and UnreachableError."""
    with _connected(environment) as clients:
        made = scaling.plan_scale(environment, clients, group, count)
        if made.leaving or made.replicas:
            _tell(scaling.describe(made), say)
            jobs = jobs_to_save(clients, made.clusters, say, force=force, checkpoint=checkpoint)
            if dry_run:
                say("dry run: nothing was changed")
            else:
                _confirm("Continue?", yes)
                save(jobs, say)
                cluster = environment.hyperpod.cluster_name
                scaling.carry_out(made, clients, cluster, say, timeout=timeout, interval=interval)
        now = made.target if dry_run else scaling.count_now(clients.sagemaker, environment.hyperpod.cluster_name, group)
        say(f"HyperPod's count of {group} is {now}")
        _advise(environment, group, count, {(c.cluster, c.group): c.after for c in made.replicas}, say)


def update_software(
    environment: EksEnvironment,
    groups: Iterable[str],
    say: Print,
    *,
    yes: bool,
    dry_run: bool,
    force: bool,
    checkpoint: bool,
) -> None:
    """Start a software update of the groups; an empty `groups` means all. Raises RefusedError and UnreachableError."""
    with _connected(environment) as clients:
        update = software.plan_update(environment, clients, list(groups))
        say(f"UpdateClusterSoftware: {update.nodes} nodes of {', '.join(update.groups)} in {update.cluster}")
        say("HyperPod wipes their root volumes and reruns the lifecycle scripts; processes on them end")
        jobs = jobs_to_save(clients, set(update.ray_clusters), say, force=force, checkpoint=checkpoint)
        if dry_run:
            say("dry run: nothing was changed")
            return
        _confirm("Continue?", yes)
        save(jobs, say)
        software.begin(update, clients.sagemaker)
        say(f"started; it takes up to an hour. `ops wait --env {environment.name}` shows its progress")


def rollout(
    environment: EksEnvironment,
    cluster: str | None,
    say: Print,
    *,
    batches: MaxUnavailable | None,
    yes: bool,
    dry_run: bool,
    force: bool,
    checkpoint: bool,
    timeout: float,
    interval: float = 2,
) -> None:
    """Replace pods with an old template within `timeout` seconds; `cluster` None means every RayCluster.

    `batches` None means all pods at once. Raises RefusedError and UnreachableError.
    """
    with _connected(environment) as clients:
        plans = rollouts.plan_rollout(environment, clients.kubernetes, cluster, batches)
        _tell((line for made in plans for line in rollouts.describe(made)), say)
        needed = [made for made in plans if made.is_needed]
        if needed and not force:
            if any(made.outdated.old for made in needed):
                rollouts.refuse_missing_image(environment, clients)
            for made in needed:
                rollouts.refuse_other_image(made)
        clusters = {(made.live.namespace, made.live.name) for made in needed}
        jobs = jobs_to_save(clients, clusters, say, force=force, checkpoint=checkpoint)
        if needed and dry_run:
            say("dry run: nothing was changed")
        elif needed:
            _confirm("Continue?", yes)
            save(jobs, say)
            for made in needed:
                rollouts.carry_out(made, say, timeout=timeout, interval=interval)


def pause(
    environment: EksEnvironment,
    say: Print,
    *,
    yes: bool,
    dry_run: bool,
    force: bool,
    checkpoint: bool,
    timeout: float,
    interval: float = 5,
) -> None:
    """Remove all HyperPod nodes within `timeout` seconds, and print what still costs.

    Raises RefusedError and UnreachableError.
    """
    with _connected(environment) as clients:
        made = pauses.plan_pause(environment, clients)
        if made.is_needed:
            _tell(pauses.describe(made), say)
            jobs = jobs_to_save(clients, set(made.with_jobs), say, force=force, checkpoint=checkpoint)
            if dry_run:
                say("dry run: nothing was changed")
            else:
                _confirm("Continue?", yes)
                save(jobs, say)
                pauses.carry_out(made, clients, say, timeout=timeout, interval=interval)
        else:
            say(f"{environment.name} is paused already")
    _tell(still_costs(environment), say)


def resume(environment: EksEnvironment, say: Print, *, yes: bool, dry_run: bool) -> None:
    """Raise the instance groups to the file's counts and resume the RayClusters, without waiting for them.

    Raises RefusedError and UnreachableError.
    """
    with _connected(environment) as clients:
        made = pauses.plan_resume(environment, clients)
        _tell(pauses.describe_resume(made), say)
        if not made.is_needed:
            say(f"{environment.name} is not paused")
        elif dry_run:
            say("dry run: nothing was changed")
        else:
            _confirm("Continue?", yes)
            pauses.carry_out_resume(made, clients, say)


def sleep(environment: EksEnvironment, group: str, say: Print, *, yes: bool, dry_run: bool) -> None:
    """Ask the sleeper to let the group sleep now. Raises RefusedError and UnreachableError."""
    with _connected(environment) as clients:
        made = by_hand.plan_sleep(environment, clients, group)
        _tell(by_hand.describe(made), say)
        scaling.refuse_jobs(made.places, partial(running, clients.kubernetes), force=False)
        _request(made, say, yes=yes, dry_run=dry_run)
        if not dry_run:
            say(f"requested; `ops status --env {environment.name}` shows when it sleeps")


def wake(
    environment: EksEnvironment, group: str, seconds: float | None, say: Print, *, yes: bool, dry_run: bool
) -> None:
    """Ask the sleeper to keep the group awake for a time; None is its `after`.

    Raises RefusedError and UnreachableError.
    """
    with _connected(environment) as clients:
        made = by_hand.plan_wake(environment, clients, group, seconds)
        _tell(by_hand.describe(made), say)
        _tell(wakes(environment, clients.account, {group}), say)
        _request(made, say, yes=yes, dry_run=dry_run)
        if not dry_run:
            say(f"requested; `ops wait --env {environment.name}` waits for its nodes")


def _request(made: by_hand.HandRequest, say: Print, *, yes: bool, dry_run: bool) -> None:
    if dry_run:
        say("dry run: nothing was changed")
    else:
        _confirm("Continue?", yes)
        made.carry_out()


def still_costs(environment: Environment) -> Iterator[str]:
    """Yield what a paused environment costs, one line per item, then the sum and what has no price."""
    lines = costs.priced(costs.paused(environment))
    yield "still costs, in US$ per hour:"
    for line in lines:
        yield f"  {line.what}: {'no price' if line.usd_per_hour is None else f'{line.usd_per_hour:,.2f}'}"
    total = sum(line.usd_per_hour or 0 for line in lines)
    yield f"  together: {total:,.2f} per hour, {total * costs.HOURS_PER_MONTH:,.0f} per month"
    yield f"  not priced: {', '.join(costs.unpriced(environment))}"


def kuberay_crds(environment: EksEnvironment, say: Print, *, adopt: bool, yes: bool) -> list[CustomResourceDefinition]:
    """Show KubeRay's CRDs in the cluster; with `adopt`, adopt those without an owner.

    Return the CRDs as they are afterwards. Raises ChartError if the environment's chart is not in the cache,
    RefusedError and UnreachableError.
    """
    version = environment.kuberay_version
    wanted = crds.definitions(version)
    with _connected(environment) as clients:
        kinds = crds.read_definitions(clients.kubernetes, wanted)
        _tell((kind.summary(version) for kind in kinds), say)
        orphans = [kind for kind in kinds if kind.is_in_the_way and kind.owner is CrdOwner.NOBODY and not kind.refusal]
        if adopt and orphans:
            say("the platform stack's removal also removes adopted CRDs, with all their objects in the cluster")
            _confirm("Continue?", yes)
            _tell(crds.adopt(clients.kubernetes, orphans), say)
            kinds = crds.read_definitions(clients.kubernetes, wanted)
        elif orphans:
            say(f"a deployment refuses CRDs without an owner. Fix: `ops kuberay crds --adopt --env {environment.name}`")
    return kinds


def _advise(
    environment: EksEnvironment, group: str, count: int, replicas: dict[tuple[str, str], int], say: Print
) -> None:
    """Print the lines of the environment file to change: without them, the next deployment raises the count again."""
    # A resumed run finds Ray's replicas already lowered, but the file may still hold the old number.
    for cluster in environment.ray.clusters:
        for workers in cluster.workers:
            if workers.instance_group == group and (cluster.name, workers.name) not in replicas:
                replicas[cluster.name, workers.name] = min(workers.replicas, count)
    file = file_of(environment.name)
    if lines := lower_counts(file, group, count, replicas):
        say(f"now change {shown(file)}, or the next deployment raises it again:")
        _tell(map(str, lines), say)
        say(f"then `cdk deploy --all -c environment={environment.name}`, which moves no node")


@contextmanager
def _connected(environment: EksEnvironment) -> Iterator[Clients]:
    with connect(environment) as clients, in_plain_words():
        yield clients


def _tell(lines: Iterable[str], say: Print) -> None:
    for line in lines:
        say(f"  {line}")


def _confirm(question: str, yes: bool) -> None:
    if not yes and not confirmed(question):
        raise RefusedError("not confirmed: nothing was changed. Fix: answer y, or give --yes")
