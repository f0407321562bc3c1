"""Read what the sleeper knows of instance groups: since when they sleep, and what wakes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from config.model import InstanceGroup
from k8s_charts.shared.names import RUN_STATE, SLEEPER
from ops.clients import REQUEST_TIMEOUT
from ops.readiness.item import clock

_UNREAD: Final = frozenset({403, 404})


@dataclass(frozen=True)
class SleepingGroups:
    """What the sleeper saved, by instance group."""

    since: Mapping[str, datetime]
    woken: Mapping[str, str]
    """What wakes a group, or woke it last, such as `used by run train-7`."""

    def wakes(self, group: str) -> str:
        """Return what wakes a group, such as `wakes: used by run train-7`; "" if nothing does."""
        return f"wakes: {self.woken[group]}" if group in self.woken else ""

    def asleep(self, group: InstanceGroup) -> str:
        """Return since when a group sleeps, if that is known, and what wakes it."""
        since = self.since.get(group.name)
        found = f"asleep since {_day(since)}{clock(since)}" if since else "asleep"
        return f"{found}; {self.wakes(group.name) or f'what needs it wakes it to {group.count}'}"


NOTHING: Final = SleepingGroups({}, {})


def sleeping_groups(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> SleepingGroups:
    """Return what the sleeper saved in its Lease; nothing if no group may sleep, or if it cannot be read."""
    if not environment.hyperpod.sleeping_groups:
        return NOTHING
    read = kubernetes.client.CoordinationV1Api(api).read_namespaced_lease
    try:
        lease = read(SLEEPER, environment.kuberay.namespace, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status not in _UNREAD:
            raise
        return NOTHING
    try:
        state = json.loads((lease.metadata.annotations or {}).get(RUN_STATE) or "{}")
        since = {str(name): datetime.fromtimestamp(at, UTC) for name, at in state.get("asleep", {}).items()}
        return SleepingGroups(since, {str(name): str(why) for name, why in state.get("woken", {}).items()})
    except (AttributeError, OverflowError, OSError, TypeError, ValueError):
        # The sleeper writes it again at its next look.
        return NOTHING


def _day(moment: datetime) -> str:
    return "" if moment.date() == datetime.now(UTC).date() else f"{moment:%Y-%m-%d} "
