"""Drain, reboot, replace or check one node, and follow the change until Ray's pods run again."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import kubernetes

from config import EksEnvironment, Environment
from config.model import InstanceGroup
from ops.change.drain import DrainTimeoutError, Say, cordon
from ops.change.drain import drain as evict
from ops.change.scale import in_service
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.durations import elapsed, until_next_poll
from ops.errors import NoAnswerError, RefusedError, in_plain_words
from ops.nodes.listing import RUNNING, ClusterNode, nodes, ray_pods
from ops.readiness.conditions import is_ready

DRAINED: Final = "ray-on-hyperpod/drained"
"""Annotation of a node that a person drained; `ops scale` chooses by a mark of its own."""

_SHOWN: Final = 10
_SILENCE_SECONDS: Final = 60
_DEFAULT_CHECKS: Final = ("InstanceStress",)


class FailedCheckError(Exception):
    """The node has failed its deep health checks; the message says what follows."""


class NodeAction(StrEnum):
    """What is done to the node."""

    DRAIN = "drain"
    REBOOT = "reboot"
    REPLACE = "replace"
    CHECK = "check"


@dataclass(frozen=True)
class Before:
    """The node before the change, and what must be back after it.

    `boot` is the id of the node's boot, which a reboot changes. `ready` counts, for each RayCluster (namespace, name)
    with pods on the node, the pods that must be Ready afterwards.
    """

    node: ClusterNode
    boot: str
    ready: Counter[tuple[str, str]]


def find(environment: EksEnvironment, clients: Clients, wanted: str) -> ClusterNode:
    """Return the node by instance id or Kubernetes name. Raises RefusedError if the cluster has none."""
    listed = nodes(environment, clients)
    found = next((node for node in listed if wanted in {node.instance, node.name}), None)
    if found is None:
        names = [node.instance for node in listed]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        allowed = ", ".join(names[:_SHOWN]) + more or "no node yet"
        raise RefusedError(f"cluster {environment.hyperpod.cluster_name} has no node {wanted}. Allowed: {allowed}")
    return found


def describe_node(environment: EksEnvironment, clients: Clients, action: NodeAction, wanted: str) -> Before:
    """Return the node and what runs on it. Raises RefusedError if the action is not possible now."""
    in_service(clients.sagemaker, environment.hyperpod.cluster_name)
    node = find(environment, clients, wanted)
    if action is NodeAction.CHECK:
        _refuse_check(environment, node)
    return _before(clients, node)


def describe(action: NodeAction, before: Before, checks: Sequence[str]) -> list[str]:
    """Return the plan, one line each."""
    node = before.node
    what = {
        NodeAction.DRAIN: "cordon, evict its pods",
        NodeAction.REBOOT: "BatchRebootClusterNodes: its processes end, its id stays",
        NodeAction.REPLACE: "BatchReplaceClusterNodes: its disks are lost, another instance takes its place",
        NodeAction.CHECK: f"StartClusterHealthCheck: {', '.join(checks)}; it takes no new pods meanwhile",
    }[action]
    return [f"node {node.instance} of {node.group} ({node.type}, {node.status}): {what}", *map(_runs, node.pods)]


def checks_of(environment: Environment, node: ClusterNode) -> tuple[str, ...]:
    """Return the deep health checks of the node's group; InstanceStress if the environment sets none."""
    group = _group(environment, node)
    return (group.deep_health_checks if group else ()) or _DEFAULT_CHECKS


def drain(clients: Clients, before: Before, say: Say, *, timeout: float, interval: float) -> None:
    """Cordon the node and evict its pods. Raises RefusedError at the timeout; rerunning the command resumes."""
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    cordon(core, before.node.name, DRAINED)
    say(f"cordoned {before.node.name}")
    try:
        evict(core, before.node.name, say, deadline=time.monotonic() + timeout, interval=interval)
    except DrainTimeoutError as error:
        raise RefusedError(str(error)) from error
    say(f"drained {before.node.name}; to use it again: `kubectl uncordon {before.node.name}`")


def begin(
    environment: Environment, sagemaker: Any, action: NodeAction, node: ClusterNode, checks: Sequence[str]
) -> None:
    """Request the reboot, the replacement or the checks. Raises RefusedError if HyperPod refuses the node."""
    name = environment.hyperpod.cluster_name
    if action is NodeAction.CHECK:
        wanted = {
            "InstanceGroupName": node.group,
            "InstanceIds": [node.instance],
            "DeepHealthChecks": list(checks),
        }
        sagemaker.start_cluster_health_check(ClusterName=name, DeepHealthCheckConfigurations=[wanted])
        return
    call = (
        sagemaker.batch_reboot_cluster_nodes if action is NodeAction.REBOOT else sagemaker.batch_replace_cluster_nodes
    )
    if failed := call(ClusterName=name, NodeIds=[node.instance]).get("Failed", []):
        reasons = "; ".join(f"{each['ErrorCode']}: {each['Message']}" for each in failed)
        raise RefusedError(
            f"HyperPod refuses to {action} {node.instance}: {reasons}. Fix: solve this, then rerun this command"
        )


@dataclass
class NodeFollower:
    """Follows a change until the node, or the one in its place, and Ray's pods are back; `say` gets the progress."""

    environment: EksEnvironment
    clients: Clients
    action: NodeAction
    before: Before
    say: Say
    timeout: float
    interval: float = 5
    _was_away: bool = False

    def follow(self) -> None:
        """Raise RefusedError at the timeout, FailedCheckError if the node fails its checks, and UnreachableError."""
        started = reported_at = time.monotonic()
        reported = ""
        while True:
            try:
                with in_plain_words():
                    missing = self._missing()
            except NoAnswerError as error:
                missing = f"no answer, retrying: {error.what}"
            now = time.monotonic()
            if not missing:
                self.say(f"── {elapsed(now - started)}: {self._done()}")
                return
            if missing != reported or now - reported_at >= _SILENCE_SECONDS:
                self.say(f"── {elapsed(now - started)}: {missing}")
                reported, reported_at = missing, now
            if now - started >= self.timeout:
                raise RefusedError(
                    f"not back after {elapsed(now - started)}: {missing}. HyperPod continues. "
                    f"Fix: see `ops wait --env {self.environment.name}`"
                )
            time.sleep(until_next_poll(now - started, self.interval))

    def _missing(self) -> str:
        """Return what is not back yet, or ""."""
        node = self.before.node
        listed = nodes(self.environment, self.clients)
        now = next((each for each in listed if each.instance == node.instance), None)
        return self._node_missing(now, listed) or self._pods_missing()

    def _node_missing(self, now: ClusterNode | None, listed: Sequence[ClusterNode]) -> str:
        node = self.before.node
        if self.action is NodeAction.REPLACE:
            others = [each for each in listed if each.group == node.group and each.instance != node.instance]
            if now is not None:
                return f"{node.instance} is {now.status}, {now.health or 'without a health label'}"
            target = self._target()
            usable = sum(each.is_usable for each in others)
            return f"{usable} of {target} nodes of {node.group} are usable" if usable < target else ""
        if now is None or now.deep_check == "Failed":
            if self.action is NodeAction.CHECK:
                raise FailedCheckError(
                    f"{node.instance} failed its deep health checks; HyperPod replaces it if node_recovery is "
                    f"Automatic. Fix: `ops logs health --env {self.environment.name}` shows the reason"
                )
            return f"{node.instance} is not in the cluster"
        boot = _boot(self.clients, node.name) if self.action is NodeAction.REBOOT else ""
        self._was_away = self._was_away or not now.is_usable or boot != self.before.boot
        if not self._was_away:
            return f"{node.instance}: HyperPod has not begun"
        return f"{node.instance} is {now.trouble}" if now.trouble else ""

    def _pods_missing(self) -> str:
        # Until its garbage is collected, a pod of a node that is gone still says that it is Ready.
        gone = self.before.node.name if self.action is NodeAction.REPLACE else ""
        ready = _ready(self.clients, without=gone)
        short = [
            f"RayCluster {namespace}/{name} has {ready[namespace, name]} of {count} pods ready"
            for (namespace, name), count in sorted(self.before.ready.items())
            if ready[namespace, name] < count
        ]
        return "; ".join(short)

    def _target(self) -> int:
        cluster = self.clients.sagemaker.describe_cluster(ClusterName=self.environment.hyperpod.cluster_name)
        groups = {group["InstanceGroupName"]: int(group["TargetCount"]) for group in cluster["InstanceGroups"]}
        return groups.get(self.before.node.group, 0)

    def _done(self) -> str:
        ray = " and its Ray pods are back" if self.before.ready else " is back"
        what = {
            NodeAction.REBOOT: f"{self.before.node.instance}{ray}",
            NodeAction.REPLACE: f"the node in place of {self.before.node.instance}{ray}",
            NodeAction.CHECK: f"{self.before.node.instance} passed its deep health checks",
        }
        return what[self.action]


def _before(clients: Clients, node: ClusterNode) -> Before:
    """Count on each RayCluster of the node its pods there, whatever their state, and the Ready ones elsewhere."""
    wanted: Counter[tuple[str, str]] = Counter()
    pods = ray_pods(clients.kubernetes)
    affected = {_cluster(pod) for pod in pods if pod.spec.node_name == node.name}
    for pod in pods:
        if _cluster(pod) in affected and (pod.spec.node_name == node.name or is_ready(pod)):
            wanted[_cluster(pod)] += 1
    return Before(node, _boot(clients, node.name), wanted)


def _ready(clients: Clients, *, without: str) -> Counter[tuple[str, str]]:
    pods = ray_pods(clients.kubernetes)
    return Counter(_cluster(pod) for pod in pods if is_ready(pod) and pod.spec.node_name != without)


def _cluster(pod: Any) -> tuple[str, str]:
    return str(pod.metadata.namespace), str(pod.metadata.labels["ray.io/cluster"])


def _boot(clients: Clients, node: str) -> str:
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    listed = core.list_node(field_selector=f"metadata.name={node}", _request_timeout=REQUEST_TIMEOUT).items
    return next((str(each.status.node_info.boot_id) for each in listed if each.status.node_info), "")


def _refuse_check(environment: Environment, node: ClusterNode) -> None:
    group = _group(environment, node)
    if group and not group.type.accelerators:
        raise RefusedError(
            f"deep health checks do not support {node.type} of {node.instance}. Allowed: types with accelerators"
        )
    if node.status != RUNNING:
        raise RefusedError(f"{node.instance} is {node.status}. Allowed: Running. Fix: `ops wait`")


def _group(environment: Environment, node: ClusterNode) -> InstanceGroup | None:
    return next((each for each in environment.hyperpod.instance_groups if each.name == node.group), None)


def _runs(pod: str) -> str:
    return f"it runs {pod}"


def carry_out(
    environment: EksEnvironment,
    clients: Clients,
    action: NodeAction,
    before: Before,
    say: Say,
    *,
    saved: bool,
    wait: bool,
    timeout: float,
    interval: float = 5,
) -> None:
    """Carry out the action; unless `wait` is false, follow it to its end. Raises RefusedError and FailedCheckError.

    `saved`: jobs have saved, and their workers wait. A node to replace is drained then: nobody knows when HyperPod
    begins, and the workers wait for minutes only.
    """
    if action is NodeAction.DRAIN or (action is NodeAction.REPLACE and saved):
        drain(clients, before, say, timeout=timeout, interval=interval)
    if action is NodeAction.DRAIN:
        return
    begin(environment, clients.sagemaker, action, before.node, checks_of(environment, before.node))
    say(f"requested: {action} {before.node.instance}")
    if wait:
        NodeFollower(environment, clients, action, before, say, timeout, interval).follow()
