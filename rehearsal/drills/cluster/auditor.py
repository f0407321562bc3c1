"""Detect deletions of pods on healthy nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded_account.kubernetes import audit
from rehearsal.drills.cluster.world import GONE, TERMINATING, ClusterHistory, Happening

ADMINISTRATOR: Final = "rehearsal-admin"
"""The user of kubectl, kwok and the rehearsal's own kubelet."""
DEPLOYMENTS: Final = "replicaset-controller"
"""The user that deletes a Deployment's pods."""
SETTLED_SECONDS: Final = 0.5
"""Pods and nodes have separate watches: a pod's deletion may arrive before the node's label that caused it."""


Deleters = Callable[[Happening], list[str]]
"""Users who requested the deletion of a pod, the first one first."""


@dataclass(frozen=True)
class Permit:
    """A deletion that belongs to the drill: `user` may delete the pods for which `covers` returns true."""

    user: str
    covers: Callable[[Happening], bool]


class Auditor:
    """Knows all deletions of pods from the watch, their users from the audit log, and the drill's permits."""

    def __init__(self, world: ClusterHistory, log: Path) -> None:
        self._world = world
        self._log = log
        self._begun = 0.0
        self._permits: list[Permit] = []

    def begin(self, at: float) -> None:
        """Begin a drill: earlier events and permits no longer count."""
        self._begun = at
        self._permits = []

    def permit(self, user: str, covers: Callable[[Happening], bool]) -> None:
        """Permit a user (for example `kuberay-operator`) to delete pods on healthy nodes, as the drill requires."""
        self._permits.append(Permit(user, covers))

    def offences(self) -> list[str]:
        """Return each deletion of a pod on a healthy node without a permit, in words.

        The list is complete for events that arrived at least `SETTLED_SECONDS` ago.
        """
        deleters = self.deleters()
        return [
            f"{user} deleted {pod.namespace}/{pod.name} on {pod.node}, which was healthy"
            for pod in self._deleted()
            for user in (deleters(pod) or ["an unknown user"])[:1]
            if not any(permit.user == user and permit.covers(pod) for permit in self._permits)
        ]

    def deleters(self) -> Deleters:
        """Read the log; return a function that lists the users who requested a pod's deletion, the first one first."""
        by_pod: dict[tuple[str, str], list[audit.DeleteRequest]] = {}
        for request in audit.requests(self._log):
            by_pod.setdefault((request.namespace, request.pod), []).append(request)

        def deleters(pod: Happening) -> list[str]:
            # A request without a name is for all pods of the namespace.
            asked = by_pod.get((pod.namespace, pod.name)) or by_pod.get((pod.namespace, ""), [])
            return [short(request.user) for request in sorted(asked, key=lambda request: request.at)]

        return deleters

    def _deleted(self) -> Iterator[Happening]:
        """Yield the first event of each deletion of a pod whose node was healthy then."""
        for each in self._world.since(self._begun):
            begins = each.after == TERMINATING or (each.after == GONE and each.before != TERMINATING)
            if each.kind == "pod" and begins and each.node and self._was_healthy(each):
                yield each

    def _was_healthy(self, pod: Happening) -> bool:
        moments = (pod.at, pod.at + SETTLED_SECONDS)
        return all(self._world.was_healthy(pod.node, moment) for moment in moments)


def short(user: str) -> str:
    """Return a user's last part: `ray-reaper` for `system:serviceaccount:kuberay:ray-reaper`."""
    return user.rpartition(":")[2]
