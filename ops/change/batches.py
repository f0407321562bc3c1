"""Replace a RayCluster's old pods in batches: the workers of one group after another, the head last.

KubeRay 1.2.0 creates a pod from the current template for each worker that is gone, and it creates a head if there is
none (raycluster_controller.go, reconcilePods). A terminating pod still counts as a worker, so a batch is done only when
its pods are gone. Which pods are old is a label on each: an interrupted rollout is resumed from the cluster alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ops.change.drain import Say
from ops.change.ray_clusters import LiveRayCluster, replicas, until
from ops.errors import RefusedError
from ops.max_unavailable import MaxUnavailable
from ops.readiness.conditions import is_ready, is_ready_to_stay
from ops.readiness.outdated_pods import Json, counted, group_of, is_worker, outdated


def refuse_other_image(live: LiveRayCluster, spec: Json, pods: Sequence[Any], old: Sequence[Any]) -> None:
    """Raise RefusedError if new workers have another image than the running head, which they would join."""
    running = {_image(pod.spec) for pod in pods if not is_worker(pod)}
    changing = {group_of(pod) for pod in old if is_worker(pod)}
    for group in spec.get("workerGroupSpecs", []):
        wanted = group["template"]["spec"].get("containers", [{}])[0].get("image")
        if group["groupName"] in changing and running - {wanted}:
            raise RefusedError(
                f"{live}, {group['groupName']}: its new workers have another image than the running head, and Ray "
                "accepts no worker with another version of Ray or Python. Fix: rerun without `--max-unavailable`, or "
                "override with `--force` if these versions are the same in both images"
            )


def described(spec: Json, old: Sequence[Any], limit: MaxUnavailable) -> Iterator[str]:
    """Yield what happens to each worker group and to the head, one phrase each."""
    for group in spec.get("workerGroupSpecs", []):
        if mine := [pod for pod in old if is_worker(pod) and group_of(pod) == group["groupName"]]:
            size = limit.of(replicas(group))
            yield f"delete {counted(mine)} of {group['groupName']}, at most {size} at once; wait for new ones"
    if any(not is_worker(pod) for pod in old):
        yield "delete the head last; its jobs end"


def replace_in_batches(
    live: LiveRayCluster, limit: MaxUnavailable, say: Say, *, deadline: float, interval: float
) -> None:
    """Replace the old workers of each group, then the old head.

    Raises RefusedError if a batch is not ready before `deadline` (a value of `time.monotonic`), or if no head is ready.
    """
    if not any(is_ready(pod) for pod in live.pods() if not is_worker(pod)):
        raise RefusedError(
            f"{live} has no ready head, and new workers could not join. Fix: rerun without `--max-unavailable`"
        )
    for name in [group["groupName"] for group in live.read()["spec"].get("workerGroupSpecs", [])]:
        _replace_workers(live, name, limit, say, deadline=deadline, interval=interval)
    if head := [pod for pod in outdated(live.read(), live.pods()).old if not is_worker(pod)]:
        live.delete(head)
        say(f"{live}: the head {head[0].metadata.name} is terminating")
    _wait(live, live.not_ready, "the RayCluster", say, deadline=deadline, interval=interval)
    say(f"{live}: every pod is ready and has the current template")


def _replace_workers(
    live: LiveRayCluster, group: str, limit: MaxUnavailable, say: Say, *, deadline: float, interval: float
) -> None:
    def unfinished() -> str:
        return _unfinished(live, group)

    while True:
        _wait(live, unfinished, group, say, deadline=deadline, interval=interval)
        cluster = live.read()
        old = [pod for pod in outdated(cluster, live.pods()).old if is_worker(pod) and group_of(pod) == group]
        if not old:
            return
        # Those that are unavailable anyway come first: they take nothing away.
        old.sort(key=lambda pod: (is_ready(pod), pod.metadata.name))
        batch = old[: limit.of(_size(cluster, group))]
        live.delete(batch)
        say(f"{live}, {group}: {counted(batch)} of {len(old)} with an old template terminating")


def _unfinished(live: LiveRayCluster, group: str) -> str:
    """Return what an earlier batch of the group still needs, or "". Old pods that are not ready delay nothing."""
    cluster, pods = live.read(), live.pods()
    mine = [pod for pod in pods if is_worker(pod) and group_of(pod) == group]
    if ending := [pod for pod in mine if pod.metadata.deletion_timestamp]:
        return f"{group}: {counted(ending)} still terminating"
    wanted, old = _size(cluster, group), outdated(cluster, pods).old
    done = [pod for pod in mine if is_ready_to_stay(pod) or any(pod is each for each in old)]
    return "" if len(done) == len(mine) >= wanted else f"{group}: {len(done)} of {wanted} workers are in place"


def _wait(
    live: LiveRayCluster, missing: Callable[[], str], what: str, say: Say, *, deadline: float, interval: float
) -> None:
    if left := until(missing, say, deadline=deadline, interval=interval):
        raise RefusedError(
            f"{live}: {what} is not ready, so no other pod is replaced. Fix: see `ops status`, then rerun this "
            f"command to resume. Last seen: {left}"
        )


def _size(cluster: Json, group: str) -> int:
    """Return the replicas of the group; 0 if it was removed meanwhile."""
    found = (each for each in cluster["spec"].get("workerGroupSpecs", []) if each["groupName"] == group)
    return next(map(replicas, found), 0)


def _image(spec: Any) -> str | None:
    """Return the image of a pod's Ray container, which is its first (KubeRay, RayContainerIndex)."""
    containers = getattr(spec, "containers", None) or []
    return containers[0].image if containers else None
