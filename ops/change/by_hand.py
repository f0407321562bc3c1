"""`ops sleep` and `ops wake`: what a person asks of an instance group that may sleep.

An annotation of the RayClusters with workers on the group says it. The sleeper (`controllers.sleeper`) acts on it, and
removes it once it has ended; `controllers.hand` reads the same words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment, file_of
from config.findings import shown
from config.labels import HAND
from config.model import InstanceGroup
from k8s_charts.shared.names import SLEEPER
from ops.change.ray_clusters import LiveRayCluster
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.errors import RefusedError
from ops.readiness.outdated_pods import is_paused


@dataclass(frozen=True)
class HandRequest:
    """What is written on RayClusters, and in words."""

    group: str
    ray_clusters: tuple[LiveRayCluster, ...]
    value: str
    what: str

    @property
    def places(self) -> set[tuple[str, str]]:
        """Return namespace and name of the RayClusters."""
        return {(live.namespace, live.name) for live in self.ray_clusters}

    def carry_out(self) -> None:
        """Write it."""
        for live in self.ray_clusters:
            live.annotate(f"{HAND}/{self.group}", self.value)


def plan_sleep(environment: EksEnvironment, clients: Clients, group: str) -> HandRequest:
    """Plan to let a group sleep now. Raises RefusedError if it cannot sleep."""
    found = _group(environment, group)
    ray_clusters = _ray_clusters(environment, clients, group)
    end = ", or its hours next begin" if found.sleep and found.sleep.hours else ""
    value = f"asleep since {_text(datetime.now(UTC))}"
    return HandRequest(group, ray_clusters, value, f"{group} sleeps until something uses it{end}")


def plan_wake(environment: EksEnvironment, clients: Clients, group: str, seconds: float | None) -> HandRequest:
    """Plan to keep a group awake for a time; None is its `after`. Raises RefusedError if it cannot sleep."""
    found = _group(environment, group)
    ray_clusters = _ray_clusters(environment, clients, group)
    now = datetime.now(UTC)
    after = found.sleep.after_seconds if found.sleep else 0
    until = now + timedelta(seconds=after if seconds is None else seconds)
    clock = f"{until:%H:%M} UTC" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M} UTC"
    return HandRequest(group, ray_clusters, f"awake until {_text(until)}", f"{group} is awake until {clock}")


def describe(made: HandRequest) -> Iterator[str]:
    """Yield what is written, one line for each RayCluster."""
    for live in made.ray_clusters:
        yield f"{live}: {made.what}"


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _group(environment: EksEnvironment, name: str) -> InstanceGroup:
    """Return a group that may sleep. Raises RefusedError."""
    groups = {group.name: group for group in environment.hyperpod.instance_groups}
    if name not in groups:
        raise RefusedError(f"{environment.name} has no instance group {name}. Allowed: {', '.join(groups)}")
    if not groups[name].sleep:
        raise RefusedError(
            f"{name} has no `sleep`, so it has all its nodes at all times. "
            f"Fix: add `sleep: {{}}` to it in {shown(file_of(environment.name))}, and deploy"
        )
    return groups[name]


def _ray_clusters(environment: EksEnvironment, clients: Clients, group: str) -> tuple[LiveRayCluster, ...]:
    """Return the RayClusters with workers on a group. Raises RefusedError if nobody would act on a request there."""
    namespace = environment.ray.namespace
    wanted = [
        LiveRayCluster(clients.kubernetes, namespace, each.name)
        for each in environment.ray.clusters
        if any(workers.instance_group == group for workers in each.workers)
    ]
    if not wanted:
        raise RefusedError(
            f"no RayCluster has workers on {group}, which sleeps and wakes by itself. "
            "Allowed: groups with workers of a RayCluster"
        )
    live = {each: found for each in wanted if (found := _read(each))}
    if not live:
        raise RefusedError(f"{wanted[0]} does not exist. Fix: deploy the ray stack")
    if paused := next((each for each, found in live.items() if is_paused(found)), None):
        raise RefusedError(f"{paused} is paused, and the sleeper leaves it alone. Fix: `ops resume`")
    _require_sleeper(environment, clients)
    return tuple(live)


def _read(live: LiveRayCluster) -> Mapping[str, Any] | None:
    try:
        return live.read()
    except ApiException as error:
        if error.status != 404:
            raise
        return None


def _require_sleeper(environment: EksEnvironment, clients: Clients) -> None:
    """Raise RefusedError if no sleeper is deployed."""
    read = kubernetes.client.AppsV1Api(clients.kubernetes).read_namespaced_deployment
    try:
        read(SLEEPER, environment.kuberay.namespace, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status != 404:
            raise
        raise RefusedError("there is no sleeper that would act. Fix: deploy the ray stack") from None
