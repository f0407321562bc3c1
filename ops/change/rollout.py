"""`ops rollout`: replace a RayCluster's pods with an old template, and delete pods of removed worker groups.

KubeRay 1.2.0 replaces no pod when its template changes. By default the RayCluster is suspended and resumed
(`ops.change.ray_clusters`), which replaces all of its pods at once; `ops.change.batches` deletes them in batches.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import kubernetes

from config import EksEnvironment
from ops.change import batches
from ops.change.drain import Say
from ops.change.ray_clusters import LiveRayCluster, until
from ops.clients import Clients
from ops.errors import RefusedError
from ops.max_unavailable import MaxUnavailable
from ops.readiness.item import ReadinessState
from ops.readiness.one_off_jobs import image
from ops.readiness.outdated_pods import Json, OutdatedPods, counted, is_suspended, outdated


@dataclass(frozen=True)
class Rollout:
    """The rollout that one RayCluster needs; `pods` are all its pods.

    `limit` is the largest number of unavailable workers of a group; None means that all pods are replaced at once.
    """

    live: LiveRayCluster
    spec: Json
    suspended: bool
    pods: Sequence[Any]
    outdated: OutdatedPods
    limit: MaxUnavailable | None = None

    @property
    def restarts(self) -> bool:
        """Whether pods are replaced."""
        return self.suspended or bool(self.outdated.old)

    @property
    def is_needed(self) -> bool:
        return self.restarts or bool(self.outdated.orphans)

    def __str__(self) -> str:
        return str(self.live)


def plan_rollout(
    environment: EksEnvironment,
    api: kubernetes.client.ApiClient,
    name: str | None,
    limit: MaxUnavailable | None = None,
) -> list[Rollout]:
    """Plan the rollout of the RayCluster `name`; None means all.

    Raises RefusedError if one does not exist or is paused.
    """
    names = [cluster.name for cluster in environment.ray.clusters]
    if name is not None and name not in names:
        raise RefusedError(f"{environment.name} has no RayCluster {name}. Allowed: {', '.join(names)}")
    return [_plan(environment, api, each, limit) for each in ([name] if name else names)]


def _plan(
    environment: EksEnvironment, api: kubernetes.client.ApiClient, name: str, limit: MaxUnavailable | None
) -> Rollout:
    live = LiveRayCluster(api, environment.ray.namespace, name)
    cluster, pods = live.unpaused()
    return Rollout(live, cluster.get("spec", {}), is_suspended(cluster), pods, outdated(cluster, pods), limit)


def refuse_missing_image(environment: EksEnvironment, clients: Clients) -> None:
    """Raise RefusedError while the Ray image is missing: new pods could not start (deployments wait for no build)."""
    item = image(environment, clients)
    if item.state is not ReadinessState.READY:
        raise RefusedError(
            f"the Ray image {item.name} is missing ({item.detail}): new pods could not start. "
            f"Fix: `ops wait --env {environment.name}`, or override with `--force`"
        )


def refuse_other_image(made: Rollout) -> None:
    """Raise RefusedError if batches would let workers of another image join the running head."""
    if made.limit and not made.suspended:
        batches.refuse_other_image(made.live, made.spec, made.pods, made.outdated.old)


def describe(made: Rollout) -> Iterator[str]:
    """Yield the steps of the rollout, one line each."""
    if not made.is_needed:
        yield f"{made}: no pod has an old template or a removed group"
        return
    yield from (f"{made}: {line}" for line in made.outdated.phrases())
    if made.suspended:
        yield f"{made}: is suspended and will be resumed"
    elif made.outdated.old and made.limit:
        yield from (f"{made}: {line}" for line in batches.described(made.spec, made.outdated.old, made.limit))
    elif made.restarts:
        yield f"{made}: suspend until its {counted(made.pods)} are gone, then resume; its jobs end"
    else:
        yield f"{made}: delete the pods of removed groups; all others stay"


def carry_out(made: Rollout, say: Say, *, timeout: float, interval: float) -> None:
    """Carry out the rollout and report each step. Rerunning the command resumes an interrupted rollout.

    Raises RefusedError if the steps are not done in `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    if made.suspended or (made.restarts and made.limit is None):
        _replace_all(made.live, say, deadline=deadline, interval=interval)
        return
    if made.outdated.orphans:
        _remove(made, say, deadline=deadline, interval=interval)
    if made.outdated.old and made.limit:
        batches.replace_in_batches(made.live, made.limit, say, deadline=deadline, interval=interval)


def _replace_all(live: LiveRayCluster, say: Say, *, deadline: float, interval: float) -> None:
    try:
        live.suspend()
        say(f"{live}: suspended")
        left = until(lambda: live.unfinished_suspension() or _resumed(live), say, deadline=deadline, interval=interval)
        if left:
            fix = "Fix: check that KubeRay's operator runs, then rerun this command"
            raise RefusedError(f"{live} is not suspended yet. {fix}. Last seen: {left}")
    except BaseException:
        # Its pods are gone or terminating, and only a resume brings them back: say so whatever the reason.
        say(f"{live} may still be suspended (see `ops status`); rerun this command to resume it")
        raise
    say(f"{live}: resumed")
    if left := until(live.not_ready, say, deadline=deadline, interval=interval):
        raise RefusedError(
            f"{live} is not ready yet; it continues without this command. Fix: `ops wait`. Last seen: {left}"
        )
    say(f"{live}: every pod is ready and has the current template")


def _resumed(live: LiveRayCluster) -> str:
    live.resume()
    return ""


def _remove(made: Rollout, say: Say, *, deadline: float, interval: float) -> None:
    made.live.delete(made.outdated.orphans)
    names = {pod.metadata.name for pod in made.outdated.orphans}
    for name in sorted(names):
        say(f"{made}: {name} is terminating")

    def ending() -> str:
        left = [pod for pod in made.live.pods() if pod.metadata.name in names]
        return f"{counted(left)} of a removed group still terminating" if left else ""

    if left := until(ending, say, deadline=deadline, interval=interval):
        raise RefusedError(
            f"{made} still has such pods. Fix: rerun this command, or see docs/explain/recovery.md if "
            "their node is "
            f"lost. Last seen: {left}"
        )
    say(f"{made}: no pod of a removed group is left")
