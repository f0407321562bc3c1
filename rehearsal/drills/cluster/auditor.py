"""Watches whether anybody deletes a pod that nothing was wrong with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded_account.kubernetes import audit
from rehearsal.drills.cluster.world import GONE, TERMINATING, Happening, World

ADMINISTRATOR: Final = "rehearsal-admin"
"""The account of kubectl, and of kwok and the rehearsal's own kubelet."""
DEPLOYMENTS: Final = "replicaset-controller"
"""The account that deletes a Deployment's pods."""
SETTLED_SECONDS: Final = 0.5
"""Pods and nodes are two watches: of who acts on a node's label one can hear before one hears of the label."""


Deleters = Callable[[Happening], list[str]]
"""Users who asked for the deletion of a pod, the first first."""


@dataclass(frozen=True)
class Permit:
    """A deletion that a drill asked for: `user` may do it to the pods that `covers` says."""

    user: str
    covers: Callable[[Happening], bool]


class Auditor:
    """Knows every deletion of a pod from the watch, whose it was from the audit log, and what the drill asked for."""

    def __init__(self, world: World, log: Path) -> None:
        self._world = world
        self._log = log
        self._begun = 0.0
        self._permits: list[Permit] = []

    def begin(self, at: float) -> None:
        """A drill begins: what was before counts no more, nor do earlier permits."""
        self._begun = at
        self._permits = []

    def permit(self, user: str, covers: Callable[[Happening], bool]) -> None:
        """Let a user (`kuberay-operator`, `admin`) delete pods on healthy nodes, as this drill is about that."""
        self._permits.append(Permit(user, covers))

    def offences(self) -> list[str]:
        """Each deletion of a pod on a healthy node that nobody asked for, in words.

        Complete for what was heard of `SETTLED_SECONDS` ago.
        """
        deleters = self.deleters()
        return [
            f"{user} deleted {pod.namespace}/{pod.name} on {pod.node}, which was healthy"
            for pod in self._deleted()
            for user in (deleters(pod) or ["nobody known"])[:1]
            if not any(permit.user == user and permit.covers(pod) for permit in self._permits)
        ]

    def deleters(self) -> Deleters:
        """Read the log: who asked for the deletion of a pod, the first first."""
        by_pod: dict[tuple[str, str], list[audit.DeleteRequest]] = {}
        for request in audit.requests(self._log):
            by_pod.setdefault((request.namespace, request.pod), []).append(request)

        def deleters(pod: Happening) -> list[str]:
            # A request without a name meant all pods of the namespace.
            asked = by_pod.get((pod.namespace, pod.name)) or by_pod.get((pod.namespace, ""), [])
            return [short(request.user) for request in sorted(asked, key=lambda request: request.at)]

        return deleters

    def _deleted(self) -> Iterator[Happening]:
        """The first word of each deletion of a pod on a node that was healthy then."""
        for each in self._world.since(self._begun):
            begins = each.after == TERMINATING or (each.after == GONE and each.before != TERMINATING)
            if each.kind == "pod" and begins and each.node and self._was_healthy(each):
                yield each

    def _was_healthy(self, pod: Happening) -> bool:
        moments = (pod.at, pod.at + SETTLED_SECONDS)
        return all(self._world.was_healthy(pod.node, moment) for moment in moments)


def short(user: str) -> str:
    """A user's last name: `system:serviceaccount:kuberay:ray-reaper` is `ray-reaper`."""
    return user.rpartition(":")[2]
