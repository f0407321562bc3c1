"""Let instance groups sleep while nothing uses them, and wake them for those who want to.

A group falls asleep in this order: its Ray workers end, then its nodes go. It wakes as a whole: its nodes come, and
KubeRay starts its workers on them. Heads and RayClusters stay. `controllers.sleep_decision` is the rule, and
`controllers.group_users` says who uses a group. Only a Lambda function of the environment changes counts of nodes:
this program may call it, and has no other right on AWS. `python -m controllers.sleeper --help` lists the arguments.

Of two replicas the holder of a Lease acts. The Lease keeps for how long each group was idle. Every step is decided on
what is there, so a successor continues where its predecessor stopped.
"""

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

from controllers.aws_api import NO_ANSWER, AwsAccess, AwsApi, AwsApiError
from controllers.group_users import CurrentRayCluster, GroupState, GroupUsers, SleepingGroup, TokenSecret, desired
from controllers.hand import HAND, Hand, in_force
from controllers.kubernetes_api import CONFLICT, ApiServer, KubernetesApi, KubernetesApiError, Object, read
from controllers.lease import Lease, LeaseLostError
from controllers.requests import create_event, is_allowed
from controllers.sleep_decision import (
    WAKE_SECONDS,
    Action,
    Seen,
    SleepDecision,
    SleepMemory,
    SleepRule,
    decide,
    is_over,
)
from controllers.telemetry import Metrics, end_on_signals, log, serve

NAME: Final = "sleeper"
"""Also the name of the Deployment and of the Lease."""

LEASE_SECONDS: Final = 60
"""How long a successor waits: less than `sleep_decision.GAP_SECONDS`, so that idle time survives a lost holder."""

_EVERY_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 5.0
_STALLED_SECONDS: Final = 180.0
# The longest step: credentials and an invocation, or the heads and a change. Until it has ended, nobody else may act.
_STEP_SECONDS: Final = 45.0
# How often the function is asked while a change is under way, and otherwise.
_ASK_SECONDS: Final = 60.0
_ASK_SELDOM_SECONDS: Final = 600.0
_REASON_CHARACTERS: Final = 200
_GAUGES: Final = ("ray_sleeper_asleep", "ray_sleeper_target_nodes", "ray_sleeper_refused", "ray_sleeper_wanted_nodes")
_NODE_SECONDS: Final = "ray_sleeper_node_seconds_total"
_NODE_STATES: Final = ("used", "idle", "asleep")
_EVENTS: Final = {"wakes": "GroupWakes", "sleeps": "GroupSleeps", "does not wake": "GroupDoesNotWake"}


class NeededPermission(NamedTuple):
    """A verb on a resource, in the whole cluster, in Ray's namespace or in the sleeper's own; with `name`, on one."""

    verb: str
    resource: str
    scope: Literal["cluster", "ray", "own"]
    group: str = ""
    name: str = ""


PERMISSIONS: Final = (
    *(NeededPermission(verb, resource, "cluster") for resource in ("nodes", "pods") for verb in ("list", "watch")),
    *(NeededPermission(verb, "jobs", "ray", "batch") for verb in ("list", "watch")),
    *(NeededPermission(verb, "rayclusters", "ray", "ray.io") for verb in ("get", "list", "watch", "update")),
    NeededPermission("create", "events", "ray"),
    NeededPermission("create", "leases", "own", "coordination.k8s.io"),
    *(NeededPermission(verb, "leases", "own", "coordination.k8s.io", NAME) for verb in ("get", "update")),
    NeededPermission("get", "deployments", "own", "apps", NAME),
)
"""What it always needs; to read each Secret with the token of a head, too (`of_token`)."""


def of_token(token: TokenSecret) -> NeededPermission:
    """Return the right to read the token of a head."""
    return NeededPermission("get", "secrets", "ray", name=token.secret)


class Functions(Protocol):
    """What invokes Lambda functions."""

    def invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's answer. Raises AwsApiError."""


@dataclass(frozen=True)
class _Counts:
    """What the function answered."""

    targets: Mapping[str, int]
    nodes: Mapping[str, int]
    under_way: bool
    refused: str

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Return a checked answer. Raises AwsApiError."""
        try:
            numbers = {name: (each["target"], each["current"]) for name, each in answer["groups"].items()}
            refused = answer["refused"]
        except (AttributeError, KeyError, TypeError) as error:
            raise AwsApiError(NO_ANSWER, f"the function's answer cannot be read: {error!r}") from error
        if not isinstance(refused, str) or any(type(n) is not int for pair in numbers.values() for n in pair):
            raise AwsApiError(NO_ANSWER, f"the function's answer cannot be read: {json.dumps(answer)[:200]}")
        targets = {name: target for name, (target, _) in numbers.items()}
        nodes = {name: current for name, (_, current) in numbers.items()}
        return cls(targets, nodes, any(target != current for target, current in numbers.values()), refused)


class GroupMetrics(Metrics):
    """Metrics with gauges for each group."""

    def set_of(self, name: str, group: str, value: float) -> None:
        """Set a gauge of a group."""
        with self._lock:
            self._values[name][f"{{group={json.dumps(group)}}}"] = value

    def add_node_seconds(self, group: str, state: str, seconds: float) -> None:
        """Add to the time that nodes of a group were in a state."""
        with self._lock:
            values, key = self._values[_NODE_SECONDS], f'{{group={json.dumps(group)},state="{state}"}}'
            values[key] = values.get(key, 0) + seconds


class NodeTimes:
    """How long the nodes of each group are used, idle or asleep, from one look of this replica to its next."""

    def __init__(self, metrics: GroupMetrics) -> None:
        self._metrics = metrics
        self._looks: dict[str, tuple[float, dict[str, int]]] = {}

    def forget(self) -> None:
        """Count from the next look on: nobody looked before it."""
        self._looks = {}

    def count(self, rule: SleepRule, target: int | None, *, used: bool) -> None:
        """Count the time since the last look; without a target nobody knows the nodes until the next one."""
        now = time.monotonic()
        at, nodes = self._looks.pop(rule.group, (now, {}))
        for state, number in nodes.items():
            self._metrics.add_node_seconds(rule.group, state, number * (now - at))
        if target is not None:
            live = {"used": target, "idle": 0} if used else {"used": 0, "idle": target}
            self._looks[rule.group] = now, live | {"asleep": max(rule.count - target, 0)}


class Sleeper:
    """The loop that holds the Lease, decides for each group, and acts."""

    def __init__(
        self,
        server: ApiServer,
        metrics: GroupMetrics,
        groups: Sequence[SleepingGroup],
        functions: Functions,
        *,
        function: str,
        namespace: str,
        own_namespace: str,
        holder: str,
        tokens: Mapping[str, TokenSecret],
        dry_run: bool,
    ) -> None:
        self._api = KubernetesApi(server)
        self._metrics = metrics
        self._groups = groups
        self._functions = functions
        self._function = function
        self._namespace = namespace
        self._own_namespace = own_namespace
        self._holder = holder
        self._dry_run = dry_run
        self._permissions = (*PERMISSIONS, *dict.fromkeys(map(of_token, tokens.values())))
        self._users = GroupUsers(server, namespace, groups, tokens, self._failed)
        self._missing: list[str] | None = None
        self._lease: Lease | None = None
        self._times = NodeTimes(metrics)
        self._memories: dict[str, SleepMemory] = {}
        # For people: since when a group sleeps, and what wakes it or woke it last.
        self._asleep: dict[str, float] = {}
        self._woken: dict[str, str] = {}
        self._targets: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._ask_at = self._change_at = float("-inf")
        self._sent: dict[str, int] = {}
        self._said: dict[str, tuple[object, ...]] = {}
        self._polled_at = time.monotonic()
        _describe(metrics, [each.rule.group for each in groups])

    def start(self) -> None:
        """Start watching."""
        self._users.start()

    def stop(self) -> None:
        """Stop watching, and let another replica act."""
        self._users.stop()
        if self._lease:
            try:
                self._lease.release()
            except KubernetesApiError as error:
                self._failed("lease", error)
            self._lease = None

    def blocking_reason(self) -> str:
        """Return what prevents this replica from acting; empty if nothing does."""
        if self._missing is None:
            return "the permissions have not been checked yet"
        if self._missing:
            return f"the service account may not {', '.join(self._missing)}"
        return f"no answer: {', '.join(self._users.deaf)}" if self._users.deaf else ""

    def stall(self) -> str:
        """Return the fault that a restart would fix; empty if there is none."""
        if ended := self._users.ended:
            return f"ended: {', '.join(ended)}"
        silent = time.monotonic() - self._polled_at
        return f"the last look was {silent:.0f} s ago" if silent > _STALLED_SECONDS else ""

    def run(self, ending: threading.Event) -> None:
        """Hold the Lease and poll until `ending` is set."""
        while not ending.is_set():
            ending.wait(_EVERY_SECONDS if self.poll(ending) else _RETRY_SECONDS)

    def poll(self, ending: threading.Event) -> bool:
        """Check all groups once, and act, as soon as this replica holds the Lease; return whether it could."""
        try:
            if self._missing != []:
                self._check_permissions()
            if self._missing or not self._acquire(ending):
                return False
            self._sort_out()
        except LeaseLostError as error:
            log("lost the lease", reason=str(error))
            self._lease = None
            # The gauges are now the other replica's to set.
            for name in _GAUGES:
                for group in self._groups:
                    self._metrics.set_of(name, group.rule.group, 0)
        except KubernetesApiError as error:
            self._failed("poll", error)
        else:
            self._metrics.set("ray_sleeper_last_look_timestamp_seconds", time.time())
            return True
        finally:
            self._users.close()
            self._api.close()
            self._polled_at = time.monotonic()
        return False

    def _check_permissions(self) -> None:
        """Ask for all permissions in advance: a missing one would otherwise show only when a group must wake."""
        missing = [permission for permission in self._permissions if not self._may(permission)]
        self._missing = [f"{permission.verb} {permission.resource}" for permission in missing]
        if missing:
            log("permissions", missing=self._missing)

    def _may(self, permission: NeededPermission) -> bool:
        namespace = {"cluster": "", "ray": self._namespace, "own": self._own_namespace}[permission.scope]
        return is_allowed(
            self._api,
            permission.verb,
            permission.resource,
            group=permission.group,
            namespace=namespace,
            name=permission.name,
        )

    def _acquire(self, ending: threading.Event) -> bool:
        """Hold the Lease, and take over what its last holder knew. Raises ApiError."""
        if self._lease:
            return True
        path = f"/apis/apps/v1/namespaces/{self._own_namespace}/deployments/{NAME}"
        uid = read(lambda item: str(item["metadata"]["uid"]), self._api.get(path))
        # Kubernetes deletes the Lease with the Deployment.
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "uid": uid}
        lease = Lease(self._api, self._own_namespace, NAME, self._holder, seconds=LEASE_SECONDS, owner=owner)
        try:
            saved = lease.acquire(ending, self._wait)
        except KubernetesApiError as error:
            if lease.seconds_left() <= 0:
                raise
            # It is held, and what its last holder saved cannot be read: nothing is known to be idle.
            self._failed("lease", error)
            saved = {}
        if saved is None:
            return False
        log("acts", holder=self._holder)
        self._lease = lease
        self._targets, self._nodes, self._sent = {}, {}, {}
        self._times.forget()
        self._ask_at = self._change_at = float("-inf")
        memories = saved.get("groups")
        memories = memories if isinstance(memories, dict) else {}
        self._memories = {each.rule.group: _memory(memories.get(each.rule.group)) for each in self._groups}
        self._asleep = _known(saved.get("asleep"), _is_time)
        self._woken = _known(saved.get("woken"), lambda value: isinstance(value, str))
        return True

    def _wait(self, _: str) -> None:
        self._polled_at = time.monotonic()

    def _sort_out(self) -> None:
        """Decide for each group, save what is to be remembered, then act. Raises ApiError and LeaseLostError."""
        # A change that is requested again reads the counts, too.
        if time.monotonic() >= self._ask_at and not self._sent:
            self._ask({})
        states = self._users.poll()
        now = time.time()
        decisions = self._decide_all(states, now)
        before = self._memories
        self._memories = {each.rule.group: decision.memory for each, decision in decisions.items()}
        self._note(decisions, now)
        self._save()
        for group, decision in decisions.items():
            if decision.memory.late > before.get(group.rule.group, SleepMemory()).late:
                self._tell_late(group, decision)
        for group, decision in decisions.items():
            self._say(group, decision, states[group.rule.group])
        self._act(decisions)
        self._end_requests(states, now)
        for group in self._groups:
            target, state = self._targets.get(group.rule.group), states[group.rule.group]
            self._times.count(group.rule, target, used=bool(state.users or state.kept_by or state.doubts))
            self._metrics.set_of("ray_sleeper_wanted_nodes", group.rule.group, _wanted_nodes(group.rule, state, now))
            if target is not None:
                self._metrics.set_of("ray_sleeper_target_nodes", group.rule.group, target)
                self._metrics.set_of("ray_sleeper_asleep", group.rule.group, target <= group.rule.min)

    def _decide_all(self, states: Mapping[str, GroupState], now: float) -> dict[SleepingGroup, SleepDecision]:
        """Return the decision for each group. What needs a group needs those that stand in for it, too."""
        found = {}
        stand_ins: dict[str, str] = {}
        # Groups that stand in have none to stand in for them.
        for group in sorted(self._groups, key=lambda each: not each.rule.wake):
            name = group.rule.group
            state = states[name]
            if name in stand_ins:
                state = replace(state, users=(*state.users, f"instance group {stand_ins[name]}, which does not wake"))
            found[group] = self._decide(group, state, now)
            stand_ins |= dict.fromkeys(found[group].stand_ins, name)
        return found

    def _decide(self, group: SleepingGroup, state: GroupState, now: float) -> SleepDecision:
        """Return the rule's decision. A doubt, or who needs only what is there, keeps a group awake, but wakes none."""
        if state.suspended:
            return SleepDecision(Action.KEEP, f"RayCluster {state.suspended} is suspended", SleepMemory(seen_at=now))
        name = group.rule.group
        seen = Seen(
            now,
            (*state.users, *state.kept_by, *state.doubts),
            self._targets.get(name),
            workers=state.workers,
            pods=state.pods,
            hand=in_force(state.hands, now),
            nodes=self._nodes.get(name),
            replaced=self._is_replaced(group),
        )
        memory = self._memories.get(name, SleepMemory())
        found = decide(group.rule, seen, memory)
        if state.users:
            return found
        sure = decide(group.rule, replace(seen, users=()), memory)
        waits = replace(found.memory, waiting_since=sure.memory.waiting_since, late=sure.memory.late)
        action = Action.KEEP if found.action is Action.WAKE and sure.action is not Action.WAKE else found.action
        return SleepDecision(action, found.reason, waits, sure.stand_ins)

    def _is_replaced(self, group: SleepingGroup) -> bool:
        """Return whether the last group that stands in for this one has got all of its nodes."""
        late = self._memories.get(group.rule.group, SleepMemory()).late
        if not late or not group.rule.wake:
            return False
        last = group.rule.wake[min(late, len(group.rule.wake)) - 1]
        target = self._targets.get(last)
        counts = {each.rule.group: each.rule.count for each in self._groups}
        waits = self._memories.get(last, SleepMemory()).waiting_since is not None
        return target is not None and not waits and target >= counts.get(last, math.inf)

    def _tell_late(self, group: SleepingGroup, decision: SleepDecision) -> None:
        """Tell that a group does not get its nodes, and which one is tried next."""
        name, late = group.rule.group, decision.memory.late
        tried = f"{group.rule.wake[late - 1]} wakes, too" if late <= len(group.rule.wake) else "no other group is left"
        minutes = late * WAKE_SECONDS / 60
        message = f"{self._nodes.get(name)} of {group.rule.count} nodes after {minutes:.0f} minutes: {tried}"
        log("does not wake", group=name, reason=message)
        if not self._dry_run:
            self._create_events(group, "does not wake", message)

    def _say(self, group: SleepingGroup, decision: SleepDecision, state: GroupState) -> None:
        """Log each new decision, not each look."""
        name = group.rule.group
        said = (decision.action, bool(state.users), state.kept_by, state.doubts, self._targets.get(name))
        if self._said.get(name) != said:
            self._said[name] = said
            log(
                f"dry run: would {decision.action}" if self._dry_run else decision.action,
                group=name,
                reason=decision.reason,
                doubts=state.doubts[:5],
                target=self._targets.get(name),
                workers=state.workers,
            )

    def _act(self, decisions: Mapping[SleepingGroup, SleepDecision]) -> None:
        """Change the counts of all groups with one call, and the workers of each."""
        if self._dry_run:
            return
        wanted: dict[str, int] = {}
        for group, decision in decisions.items():
            rule, target = group.rule, self._targets.get(group.rule.group)
            if decision.action is Action.WAKE and target is not None and target < rule.count:
                wanted[rule.group] = rule.count
            elif decision.action is Action.LOWER:
                wanted[rule.group] = rule.min
            else:
                self._metrics.set_of("ray_sleeper_refused", rule.group, decision.memory.late > 0)
        if not wanted:
            self._sent = {}
        elif wanted != self._sent or time.monotonic() >= self._change_at:
            self._change(wanted, decisions)
        # After the nodes: KubeRay's new pods wait for them.
        for group, decision in decisions.items():
            try:
                if decision.action is Action.WAKE:
                    self._raise_workers(group, decision.reason)
                elif decision.action is Action.RELEASE:
                    self._release(group, decision.reason)
            except KubernetesApiError as error:
                # The other groups do not wait for this one.
                self._failed("workers", error)

    def _change(self, wanted: Mapping[str, int], decisions: Mapping[SleepingGroup, SleepDecision]) -> None:
        """Let the function set counts; lower those of groups only that are still unused."""
        by_name = {group.rule.group: (group, decision) for group, decision in decisions.items()}
        counts = {}
        for name, count in wanted.items():
            group, decision = by_name[name]
            if decision.action is Action.LOWER and (users := self._users.users_now(group, time.time(), on_nodes=True)):
                log("is used again", group=name, users=users[:5])
            else:
                counts[name] = count
        if not self._holds():
            return
        # Whatever comes of it: the same change is requested again only after a while.
        self._sent, self._change_at = dict(wanted), time.monotonic() + _ASK_SECONDS
        before = dict(self._targets)
        answer = self._ask(counts) if counts else None
        for name, count in counts.items():
            refused = answer is None or answer.targets.get(name) != count
            self._metrics.set_of("ray_sleeper_refused", name, refused)
            if refused or before.get(name) == count:
                continue
            group, decision = by_name[name]
            verb = "wakes" if decision.action is Action.WAKE else "sleeps"
            self._metrics.add(f"ray_sleeper_{verb}_total", group=name)
            self._create_events(group, verb, f"{before.get(name)} to {count} nodes: {decision.reason}")

    def _ask(self, counts: Mapping[str, int]) -> _Counts | None:
        """Call the function with new counts, or with none to read; None if it failed."""
        try:
            answer = _Counts.of(self._functions.invoke(self._function, {"counts": dict(counts)} if counts else {}))
        except AwsApiError as error:
            self._failed("function", error)
            if not counts:
                self._targets, self._nodes = {}, {}
            self._ask_at = time.monotonic() + _ASK_SECONDS
            return None
        self._targets, self._nodes = dict(answer.targets), dict(answer.nodes)
        busy = answer.under_way or answer.refused
        self._ask_at = time.monotonic() + (_ASK_SECONDS if busy else _ASK_SELDOM_SECONDS)
        if counts:
            log("refused" if answer.refused else "requested", counts=counts, reason=answer.refused)
        return answer

    def _release(self, group: SleepingGroup, reason: str) -> None:
        """Lower the replicas of a group's workers unless a run has come since. Raises ApiError.

        The RayClusters are read before the question, and updated only if nobody has changed them meanwhile.
        """
        clusters = self._read(group)
        if users := self._users.users_now(group, time.time(), on_nodes=False):
            log("is used again", group=group.rule.group, users=users[:5])
        elif self._set_workers(group, clusters, group.rule.workers_asleep, raises=False):
            self._create_events(group, "sleeps", f"its Ray workers end: {reason}")

    def _raise_workers(self, group: SleepingGroup, reason: str) -> None:
        """Raise the replicas of a group's workers to those of the environment's file. Raises ApiError."""
        if self._set_workers(group, self._read(group), group.rule.workers, raises=True):
            self._create_events(group, "wakes", f"its Ray workers start: {reason}")

    def _read(self, group: SleepingGroup) -> list[Object]:
        return [item for name in group.clusters if (item := self._users.ray_cluster(name))]

    def _set_workers(self, group: SleepingGroup, clusters: Sequence[Object], total: int, *, raises: bool) -> bool:
        """Update RayClusters so that the group has `total` workers; return whether any changed."""
        updated = 0
        for item in clusters:
            name = str(item["metadata"]["name"])
            edit = partial(_set_replicas, group=group, total=total, raises=raises)
            if not read(edit, item) or not self._holds():
                continue
            try:
                self._api.update(f"{self._users.clusters_path}/{name}", item)
            except KubernetesApiError as error:
                if error.status != CONFLICT:
                    raise
                # Somebody else was faster: the next look decides.
                continue
            updated += 1
            log("workers", group=group.rule.group, cluster=name, workers=total)
        return updated > 0

    def _end_requests(self, states: Mapping[str, GroupState], now: float) -> None:
        """Remove requests of `ops wake` and `ops sleep` that have ended, so that they end for good."""
        for group in self._groups:
            state = states[group.rule.group]
            # A doubt ends no request: it only delays one.
            seen = Seen(now, state.users, None, state.workers, state.pods)
            ended = [each for each in state.hands if is_over(each, group.rule, seen)]
            if self._dry_run or state.suspended or not ended:
                continue
            try:
                for item in self._read(group):
                    self._end_request(group, item, ended)
            except KubernetesApiError as error:
                self._failed("request", error)

    def _end_request(self, group: SleepingGroup, item: Object, ended: Sequence[Hand]) -> None:
        """Remove a request that has ended from a RayCluster, but no newer one. Raises ApiError."""
        name = group.rule.group
        try:
            hand = read(CurrentRayCluster.of, item).hand(name)
        except ValueError:
            # A doubt of the next look.
            return
        if hand not in ended or not self._holds():
            return
        del item["metadata"]["annotations"][f"{HAND}/{name}"]
        try:
            self._api.update(f"{self._users.clusters_path}/{item['metadata']['name']}", item)
        except KubernetesApiError as error:
            if error.status != CONFLICT:
                raise
            # Somebody else was faster: the next look decides.
            return
        log("request ended", group=name, cluster=item["metadata"]["name"], request=str(hand))

    def _holds(self) -> bool:
        """Return whether nobody else can hold the Lease before a step has ended."""
        return self._lease is not None and self._lease.seconds_left() >= _STEP_SECONDS

    def _note(self, decisions: Mapping[SleepingGroup, SleepDecision], now: float) -> None:
        """Note since when groups sleep, and what wakes them, for `ops status`."""
        for group, decision in decisions.items():
            name, target = group.rule.group, self._targets.get(group.rule.group)
            if target is not None and target <= group.rule.min:
                self._asleep.setdefault(name, now)
            elif target is not None:
                self._asleep.pop(name, None)
            if decision.action is Action.WAKE:
                self._woken[name] = decision.reason[:_REASON_CHARACTERS]
            elif name in self._asleep:
                self._woken.pop(name, None)

    def _save(self) -> None:
        """Renew the Lease. Raises ApiError and LeaseLostError."""
        if self._lease:
            groups = {name: asdict(memory) for name, memory in self._memories.items()}
            self._lease.save({"groups": groups, "asleep": self._asleep, "woken": self._woken}, {})

    def _create_events(self, group: SleepingGroup, verb: str, message: str) -> None:
        """Create an event for each RayCluster with workers on the group; nothing depends on them."""
        for cluster in map(self._users.live, group.clusters):
            if cluster is None:
                continue
            target = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster.name, "uid": cluster.uid}
            try:
                create_event(
                    self._api,
                    self._namespace,
                    target,
                    kind="Warning" if verb == "does not wake" else "Normal",
                    reason=_EVENTS[verb],
                    message=f"instance group {group.rule.group} {verb}, {message}",
                    component=NAME,
                )
            except KubernetesApiError as error:
                self._failed("event", error)

    def _failed(self, operation: str, error: Exception) -> None:
        self._metrics.add("ray_sleeper_errors_total", operation=operation)
        log("error", operation=operation, error=str(error))


def _wanted_nodes(rule: SleepRule, state: GroupState, now: float) -> int:
    """Return how many nodes users, a person or the hours want; a doubt wants none, and a pause keeps all away."""
    hand = in_force(state.hands, now)
    by_itself = rule.hours is not None and rule.hours.contain(now)
    wanted = state.users or (hand.awake if hand else by_itself)
    return rule.count if wanted and not state.suspended else 0


def _set_replicas(item: Object, *, group: SleepingGroup, total: int, raises: bool) -> bool:
    """Set a RayCluster's replicas for `total` workers on the group, which only raises or only lowers them.

    KubeRay keeps at least `minReplicas` workers, whatever `replicas` says. Return whether anything changed.
    """
    wanted = group.replicas(total)
    least = {(each.cluster, each.name): each.min_replicas for each in group.workers}
    changed = False
    for each in item["spec"]["workerGroupSpecs"]:
        key = item["metadata"]["name"], each["groupName"]
        if key not in wanted:
            continue
        replicas = (max if raises else min)(desired(each), wanted[key])
        new = {"replicas": replicas, "minReplicas": min(least[key], replicas)}
        changed = changed or any(each.get(field) != value for field, value in new.items())
        each.update(new)
    return changed


def _memory(saved: object) -> SleepMemory:
    """Return what the last holder remembered of a group; nothing if it cannot be read."""
    times = saved if isinstance(saved, dict) else {}
    found = {name: times.get(name) for name in ("seen_at", "idle_since", "waiting_since")}
    late = times.get("late", 0)
    if any(each is not None and not _is_time(each) for each in found.values()) or type(late) is not int or late < 0:
        return SleepMemory()
    return SleepMemory(**found, late=late)


def _known(saved: object, fits: Callable[[object], bool]) -> dict[str, Any]:
    """Return what of a saved mapping can be read."""
    return {name: value for name, value in saved.items() if fits(value)} if isinstance(saved, dict) else {}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _describe(metrics: Metrics, groups: Sequence[str]) -> None:
    samples = [{"group": group} for group in groups]
    metrics.describe("ray_sleeper_asleep", "gauge", "1 if the group has only the nodes that stay.", *samples)
    metrics.describe("ray_sleeper_target_nodes", "gauge", "Nodes that the group is to have.", *samples)
    metrics.describe("ray_sleeper_wakes_total", "counter", "How often this replica woke the group.", *samples)
    metrics.describe("ray_sleeper_sleeps_total", "counter", "How often this replica let the group sleep.", *samples)
    metrics.describe("ray_sleeper_refused", "gauge", "1 if the group does not get the nodes that it needs.", *samples)
    metrics.describe("ray_sleeper_wanted_nodes", "gauge", "Nodes that users of the group or its hours want.", *samples)
    states = [sample | {"state": state} for sample in samples for state in _NODE_STATES]
    metrics.describe(
        _NODE_SECONDS, "counter", "Seconds of nodes, used, idle or asleep, since this replica acts.", *states
    )
    metrics.describe("ray_sleeper_errors_total", "counter", "Requests that failed.", {"operation": "function"})
    metrics.describe("ray_sleeper_last_look_timestamp_seconds", "gauge", "When this replica last checked the groups.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Let instance groups sleep while nothing uses them.")
    parser.add_argument("--namespace", required=True, help="namespace of the RayClusters")
    parser.add_argument("--own-namespace", required=True, help="namespace of this program's Deployment and Lease")
    parser.add_argument(
        "--group", action="append", required=True, help="instance group that may sleep, in JSON; repeatable"
    )
    parser.add_argument(
        "--token", action="append", default=[], help="CLUSTER=SECRET/KEY: token that a head wants; repeatable"
    )
    parser.add_argument("--function", required=True, help="name of the Lambda function that sets counts of nodes")
    parser.add_argument("--region", required=True, help="AWS region of the function")
    parser.add_argument("--service-account", type=Path, required=True, help="folder with `token` and `ca.crt`")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics, /healthz and /readyz")
    parser.add_argument("--dry-run", action="store_true", help="log what would be done; change nothing")
    return parser.parse_args()


def _tokens(words: Sequence[str]) -> dict[str, TokenSecret]:
    """Return the tokens by RayCluster. Raises ValueError."""
    found = {}
    for word in words:
        cluster, _, place = word.partition("=")
        secret, _, key = place.partition("/")
        if not (cluster and secret and key):
            raise ValueError(f"{word!r} is invalid: a part is missing. Allowed: CLUSTER=SECRET/KEY")
        found[cluster] = TokenSecret(secret, key)
    return found


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    arguments = _arguments()
    try:
        groups = [SleepingGroup.read(each) for each in arguments.group]
        tokens = _tokens(arguments.token)
        access = AwsAccess.of_environment(arguments.region, os.environ)
    except ValueError as error:
        sys.exit(f"{NAME}: {error}")
    except KeyError as error:
        sys.exit(f"{NAME}: {error} is not set. Fix: annotate the service account with a role")
    holder = os.environ["HOSTNAME"]
    ending = threading.Event()
    end_on_signals(ending)
    metrics = GroupMetrics()
    sleeper = Sleeper(
        ApiServer.of_pod(arguments.service_account),
        metrics,
        groups,
        AwsApi(access, session=holder),
        function=arguments.function,
        namespace=arguments.namespace,
        own_namespace=arguments.own_namespace,
        holder=holder,
        tokens=tokens,
        dry_run=arguments.dry_run,
    )
    serve(arguments.listen, metrics, {"/healthz": sleeper.stall, "/readyz": sleeper.blocking_reason})
    log("started", groups=[each.rule.group for each in groups], dry_run=arguments.dry_run)
    sleeper.start()
    sleeper.run(ending)
    sleeper.stop()
    log("ended")


if __name__ == "__main__":
    main()
