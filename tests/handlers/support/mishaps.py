"""Let things go wrong in a sequence: lasting troubles of the service, and mishaps at one call."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.rules import SUBNETS_NOT_RETRIEVED
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.precedence import created_by
from handlers.hyperpod_cluster.request import CustomResourceRequest
from tests.handlers.support import steps
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Event, Killed
from tests.handlers.support.invariants import Invariants
from tests.handlers.support.judging import Deeds
from tests.handlers.support.steps import Mishap

_ROLE_UNKNOWN = {"error": "ValidationException", "message": SUBNETS_NOT_RETRIEVED, "times": 3}
_FAULTS: dict[str, dict[str, Any]] = {
    "shortage": {"capacity": {"ml.p5.48xlarge": 0}},
    "quota": {"quota": {"ml.p5.48xlarge": 1}},
    "creation fails": {"fail_creation": "The creation was made to fail."},
    "deep check fails": {"fail_deep_check": {"group": "worker-group-1", "times": 1}},
    "deletion fails": {"fail_deletion": "The deletion was made to fail."},
    steps.TAKEN_BACK: {"fail_update": "The update was made to fail."},
    steps.LAG: {"lag_minutes": 0.4},
    steps.ROLE_UNKNOWN: {"errors": {"CreateCluster": _ROLE_UNKNOWN}},
}


class Mishaps:
    """Lets things go wrong; records in `deeds` what they explain, and counts them in `seen`."""

    def __init__(
        self, bench: HyperPodBench, stacks: Deployments, deeds: Deeds, invariants: Invariants, seen: Counter[str]
    ) -> None:
        self._bench = bench
        self._stacks = stacks
        self._deeds = deeds
        self._invariants = invariants
        self._seen = seen
        self._never_deleted = False

    def trouble(self, trouble: str) -> None:
        """Start a trouble of the service, which lasts until `repair` or until it has taken effect."""
        self._deeds.quota |= trouble == "quota"
        self._deeds.lagging |= trouble == steps.LAG
        self._deeds.taken_back |= trouble == steps.TAKEN_BACK
        self._never_deleted |= trouble == steps.NEVER_DELETED
        if trouble == steps.SLOW:
            self._set_provision_minutes(70)
        if trouble == "no dependencies":
            self._bench.eks.missing = ["health-monitoring-agent"]
        self._bench.fault(**_FAULTS.get(trouble, {}))

    def repair(self) -> None:
        """End all troubles."""
        self._never_deleted = False
        self._bench.eks.missing = []
        self._bench.fault(clear=True)
        self._set_provision_minutes(15)

    def _set_provision_minutes(self, minutes: float) -> None:
        world = self._bench.hyperpod.world
        world.minutes = replace(world.minutes, provision=minutes)

    def is_known(self, request: Event) -> bool:
        """Return whether a request of the cluster left a trace in the service: without one, its age is unknown."""
        calls = [(request["RequestId"], call) for call in ("AddTags", "CreateCluster", "DeleteCluster")]
        return request["ResourceType"] == index.CLUSTER and any(
            self._stacks.framework.carried_out[each] for each in calls
        )

    def deliver(self, request: Event, _: str = "") -> None:
        """Deliver a request again, or late."""
        clusters = self._bench.hyperpod.world.clusters.values()
        made = any(created_by(CustomResourceRequest.from_event(request), cluster.tag_values) for cluster in clusters)
        self._deeds.adopted |= request["RequestType"] == "Create" and not made
        self._stacks.framework.handle(request)

    @contextmanager
    def during(self, mishaps: Sequence[Mishap], given_up: int | None = None) -> Iterator[None]:
        """Apply these mishaps during a step, and let CloudFormation give up on a request at a pause."""
        framework = self._stacks.framework
        if given_up is not None:
            self._stacks.give_up_at(given_up)
        if self._never_deleted:
            framework.pauses.append(partial(self.trouble, "deletion fails"))
            self.trouble("deletion fails")
        for mishap in mishaps:
            framework.interrupt(mishap.position, partial(self._happen, mishap), after=mishap.after, since=mishap.since)
        yield
        self._stacks.lose_next(False)
        framework.interruptions.clear()
        framework.pauses.clear()
        self._seen["given up"] += self._stacks.given_up
        self._stacks.given_up = 0

    def _happen(self, mishap: Mishap, call: str) -> None:
        self._seen[f"mishap: {mishap.what}"] += 1
        if mishap.what == steps.TWICE:
            self._deliver_twice()
        elif mishap.what == steps.OLDER:
            self._deliver_an_older_one(mishap.which)
        elif mishap.what == steps.GOES:
            self._let_a_cluster_go()
        else:
            self._fail(mishap.what, call)

    def _fail(self, what: str, call: str) -> None:
        """Fail this call."""
        self._deeds.errors.add((call, what))
        if what == "killed":
            self._deeds.killed = True
            raise Killed("Task timed out after 120.00 seconds")
        if what == "time-out":
            self._deeds.killed = True
            self._stacks.framework.time_out()
        raise ClientError({"Error": {"Code": what, "Message": "as it was asked to answer"}}, call)

    def _deliver_twice(self) -> None:
        """Deliver the current request a second time, within the first delivery."""
        request, framework = self._stacks.requests[-1], self._stacks.framework
        # Only milliseconds pass between a check and its call: nobody cancels the request in that time.
        pauses, framework.pauses = framework.pauses, []
        self._stacks.answer(request, framework.handle(request))
        framework.pauses = pauses

    def _deliver_an_older_one(self, which: int) -> None:
        older = [request for request in self._stacks.requests[:-1] if self.is_known(request)]
        # While the newer request's id cannot be read yet, an older one cannot know that it was superseded.
        if older and not self._bench.hyperpod.world.faults.lag_minutes:
            self.deliver(older[which % len(older)])

    def _let_a_cluster_go(self) -> None:
        """Let a cluster disappear as if its deletion ended now: somebody else's if there is one, else the stack's."""
        clusters = self._bench.hyperpod.world.clusters
        name = next(iter([*self._invariants.foreign, *clusters]), "")
        self._deeds.removed_by_hand |= bool(name) and name not in self._invariants.foreign
        self._deeds.went.add(name)
        self._invariants.foreign.pop(name, None)
        clusters.pop(name, None)
