"""Who uses an instance group that may sleep: what pods, runs, RayClusters and their heads say.

What cannot be asked is a doubt: a group with doubts does not fall asleep. The collections are watched (`WatchCache`);
before workers or nodes go, `users_now` asks again.
"""

import base64
import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

from controllers.busy_gpus import EXPORTERS_NAMESPACE, GpuExporters
from controllers.hand import HAND, Hand
from controllers.kubernetes_api import (
    NOT_FOUND,
    ApiServer,
    KubernetesApi,
    KubernetesApiError,
    Object,
    WatchCache,
    name_of,
    read,
    text,
)
from controllers.ray_jobs_api import ENDED, HeadUnavailableError, RayError, RayJobs
from controllers.sleep_decision import Hours, SleepRule

INSTANCE_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
RUN_LABEL: Final = "ray-on-hyperpod/run"
RUN_CLUSTER_LABEL: Final = "ray-on-hyperpod/cluster"
PAUSED: Final = "ray-on-hyperpod/paused"
"""Annotation of a RayCluster that `ops pause` suspended."""
SHELL: Final = "ray-on-hyperpod/shell-"
"""Beginning of a node's annotations, one for each shell of `ops node shell`: until when they count, and whose it is."""

_NODE_TYPE_LABEL: Final = "ray.io/node-type"
# After this time without an answer a copy is out of date, as the reaper's.
_DEAF_SECONDS: Final = 90.0
_NODES_PATH: Final = "/api/v1/nodes"
_ASKED_AT_ONCE: Final = 8
_PAGE: Final = 250
# Ray's answer about Serve if the image lacks it (ray: dashboard/modules/serve/serve_head.py, validate_endpoint).
_NO_SERVE: Final = 501


@dataclass(frozen=True)
class WorkersOfGroup:
    """A worker group of a RayCluster on the instance group, as the environment's file has it."""

    cluster: str
    name: str
    replicas: int
    min_replicas: int


@dataclass(frozen=True)
class SleepingGroup:
    """An instance group that may sleep, and the worker groups on it."""

    rule: SleepRule
    workers: tuple[WorkersOfGroup, ...]
    gpus: bool = False
    """Whether exporters of the GPUs run on its nodes."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a group from JSON. Raises ValueError."""
        try:
            found = json.loads(text)
            workers = tuple(WorkersOfGroup(**each) for each in found.pop("workers"))
            hours, gpus = found.pop("hours", None), found.pop("gpus", False)
            total, wake = sum(each.replicas for each in workers), tuple(found.pop("wake", ()))
            rule = SleepRule(**found, hours=Hours.read(hours) if hours else None, workers=total, wake=wake)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{text!r} is invalid: {error!r}. Allowed: the JSON of a group") from error
        return cls(rule, workers, gpus)

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the names of the RayClusters with workers on the group."""
        return tuple(dict.fromkeys(each.cluster for each in self.workers))

    def replicas(self, total: int) -> dict[tuple[str, str], int]:
        """Return the replicas by RayCluster and worker group of `total` workers: the first groups keep theirs."""
        made = {}
        for each in self.workers:
            made[each.cluster, each.name] = min(each.replicas, total)
            total -= made[each.cluster, each.name]
        return made


@dataclass(frozen=True)
class TokenSecret:
    """The key of a Secret of Ray's namespace with the token that a head wants."""

    secret: str
    key: str


@dataclass(frozen=True)
class GroupState:
    """What was read of a group."""

    users: tuple[str, ...]
    doubts: tuple[str, ...]
    """What could not be asked."""
    workers: int
    """Replicas that the RayClusters ask for on the group."""
    pods: int
    """Pods of their workers that still exist."""
    suspended: str
    """The first of its RayClusters that is suspended; empty for none."""
    hands: tuple[Hand, ...] = ()
    """What a person asked of the group on its RayClusters."""
    kept_by: tuple[str, ...] = ()
    """What needs the nodes that are there, and no others: it keeps the group awake, but does not wake it."""


@dataclass(frozen=True)
class CurrentRayCluster:
    """A RayCluster as it is now: `replicas` by worker group, as KubeRay computes them."""

    name: str
    uid: str
    suspended: bool
    replicas: Mapping[str, int]
    hands: Mapping[str, str]
    """The annotations of `ops wake` and `ops sleep` by instance group."""

    @classmethod
    def of(cls, item: Object) -> Self:
        """Return the fields of an object."""
        metadata, spec = item["metadata"], item["spec"]
        annotations = metadata.get("annotations") or {}
        return cls(
            name=text(metadata["name"]),
            uid=text(metadata["uid"]),
            suspended=bool(spec.get("suspend")) or PAUSED in annotations,
            replicas={text(each["groupName"]): desired(each) for each in spec.get("workerGroupSpecs") or []},
            hands={
                key.removeprefix(f"{HAND}/"): text(value)
                for key, value in annotations.items()
                if key.startswith(f"{HAND}/")
            },
        )

    def hand(self, group: str) -> Hand | None:
        """Return what a person asked of an instance group on this RayCluster. Raises ValueError."""
        return Hand.read(self.hands[group]) if group in self.hands else None


def desired(worker_group: Object) -> int:
    """Return the replicas within the group's bounds (kuberay: utils.GetWorkerGroupDesiredReplicas)."""
    least, most = worker_group.get("minReplicas") or 0, worker_group.get("maxReplicas")
    wanted = max(worker_group.get("replicas") or 0, least)
    return int(wanted if most is None else min(wanted, most))


@dataclass(frozen=True)
class _Pod:
    namespace: str
    node: str
    """Empty until the pod is scheduled."""
    waits_for: frozenset[str]
    """The instance groups that a pod without a node names; empty if it can run elsewhere, too."""
    ended: bool
    on_each_node: bool
    """Whether the pod belongs to a DaemonSet, or is static."""
    cluster: str
    """The RayCluster that owns the pod; empty for other pods."""
    role: str
    """`head` or `worker` of that RayCluster."""
    address: str
    """Of a running pod."""

    @classmethod
    def of(cls, pod: Object) -> Self:
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        owners = [each for each in metadata.get("ownerReferences") or [] if each.get("controller")]
        kind, owner = (owners[0]["kind"], owners[0]["name"]) if owners else ("", "")
        phase = status.get("phase") or "Pending"
        runs = phase == "Running" and "deletionTimestamp" not in metadata
        gated = bool(spec.get("schedulingGates"))
        return cls(
            namespace=text(metadata["namespace"]),
            node=text(spec.get("nodeName") or ""),
            waits_for=frozenset() if gated else _named_groups(spec),
            ended=phase in ("Succeeded", "Failed"),
            on_each_node=kind in ("DaemonSet", "Node"),
            cluster=text(owner) if kind == "RayCluster" else "",
            role=text((metadata.get("labels") or {}).get(_NODE_TYPE_LABEL) or ""),
            address=text(status.get("podIP") or "") if runs else "",
        )


def _named_groups(spec: Object) -> frozenset[str]:
    """Return the instance groups on which alone a pod can run; empty if it can run elsewhere, too."""
    if name := (spec.get("nodeSelector") or {}).get(INSTANCE_GROUP_LABEL):
        return frozenset({text(name)})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # One of the terms must hold, and of a term each expression.
    terms = [list(_values(term)) for term in required.get("nodeSelectorTerms") or []]
    if not terms or not all(terms):
        return frozenset()
    return frozenset[str]().union(*(frozenset.intersection(*term) for term in terms))


def _values(term: Object) -> Iterator[frozenset[str]]:
    for each in term.get("matchExpressions") or []:
        if each["key"] == INSTANCE_GROUP_LABEL and each["operator"] == "In":
            yield frozenset(map(text, each["values"]))


@dataclass(frozen=True)
class _Run:
    name: str
    cluster: str
    """Empty for other Jobs."""
    ended: bool

    @classmethod
    def of(cls, job: Object) -> Self:
        metadata = job["metadata"]
        labels = metadata.get("labels") or {}
        conditions = (job.get("status") or {}).get("conditions") or []
        return cls(
            name=text(labels.get(RUN_LABEL) or metadata["name"]),
            cluster=text(labels.get(RUN_CLUSTER_LABEL) or ""),
            ended=any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions),
        )


@dataclass(frozen=True)
class _Node:
    group: str
    """Its instance group; empty for others."""
    shells: tuple[tuple[str, float], ...]
    """Who has a shell open there, and until when that counts, in seconds since the epoch."""

    @classmethod
    def of(cls, node: Object) -> Self:
        metadata = node["metadata"]
        marks = sorted((metadata.get("annotations") or {}).items())
        return cls(
            group=text((metadata.get("labels") or {}).get(INSTANCE_GROUP_LABEL) or ""),
            shells=tuple(_shell(value) for key, value in marks if key.startswith(SHELL)),
        )


def _shell(mark: object) -> tuple[str, float]:
    """Return what an annotation says; one that cannot be read counts for as long as it is there."""
    until, _, who = str(mark).partition(" ")
    try:
        return who, datetime.strptime(until, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return "somebody, whose mark cannot be read,", math.inf


def _groups(nodes: Mapping[str, _Node]) -> dict[str, str]:
    return {name: node.group for name, node in nodes.items()}


def _open_shells(group: SleepingGroup, nodes: Mapping[str, _Node]) -> list[str]:
    """Return the shells that are open on the group's nodes, in words."""
    now = time.time()
    own = sorted((name, node) for name, node in nodes.items() if node.group == group.rule.group)
    return [f"shell of {who} on node {name}" for name, node in own for who, until in node.shells if until > now]


class QuestionedHead(RayJobs):
    """The head of a RayCluster."""

    def users(self) -> list[str]:
        """Return the unfinished jobs, drivers too, and Serve's applications. Raises what `RayJobs` raises."""
        return [*self._jobs(), *self._applications()]

    def _jobs(self) -> Iterator[str]:
        answer = self._json("GET", "/api/jobs/")
        try:
            for job in answer:
                if text(job["status"]) not in ENDED:
                    name = job.get("submission_id")
                    yield f"job {name}" if name else f"driver {job.get('job_id')}"
        except (AttributeError, KeyError, TypeError) as error:
            raise HeadUnavailableError(f"Ray's answer cannot be read: {error!r}") from error

    def _applications(self) -> Iterator[str]:
        try:
            answer = self._json("GET", "/api/serve/applications/")
            for name in dict(answer["applications"]):
                yield f"Serve application {name}"
        except RayError as error:
            if error.status != _NO_SERVE:
                raise
        except (KeyError, TypeError, ValueError) as error:
            raise HeadUnavailableError(f"Ray's answer cannot be read: {error!r}") from error


class _QualifiedApi(KubernetesApi):
    """An API that names objects of all namespaces `NAMESPACE/NAME`: `WatchCache` keeps objects by name."""

    def get(self, path: str, **query: str) -> Object:
        page = super().get(path, **query)
        for item in page.get("items") or []:
            _qualify(item)
        return page

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[tuple[str, Object]]:
        for kind, item in super().watch(path, seconds, **query):
            _qualify(item)
            yield kind, item


def _qualify(item: Any) -> None:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if isinstance(metadata, dict) and "namespace" in metadata and "name" in metadata:
        metadata["name"] = f"{metadata['namespace']}/{metadata['name']}"


class _AllNamespaces(WatchCache[_Pod]):
    def __init__(self, server: ApiServer, path: str, failed: Callable[[KubernetesApiError], None]) -> None:
        super().__init__(server, path, _Pod.of, failed)
        self._api = _QualifiedApi(server)


class GroupUsers:
    """The watched collections of the cluster, and the heads; `failed` is called with each error and its operation."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        groups: Sequence[SleepingGroup],
        tokens: Mapping[str, TokenSecret],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """Take Ray's namespace, and the tokens by RayCluster."""
        self._api = KubernetesApi(server)
        self._server = server
        self._namespace = namespace
        self._groups = groups
        self._clusters = tuple(dict.fromkeys(name for group in groups for name in group.clusters))
        self._tokens = tokens
        self._failed = failed
        self._gpus = GpuExporters(partial(failed, "ask exporters"))
        self._homes = {group.rule.group: frozenset(group.rule.wake) for group in groups if group.rule.wake}
        self._jobs_path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.clusters_path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
        watch = partial(failed, "watch")
        self._pods = _AllNamespaces(server, "/api/v1/pods", watch)
        self._nodes = WatchCache(server, _NODES_PATH, _Node.of, watch)
        self._runs = WatchCache(server, self._jobs_path, _Run.of, watch)
        self._live = WatchCache(server, self.clusters_path, CurrentRayCluster.of, watch)
        self._watches: tuple[WatchCache[Any], ...] = (self._pods, self._nodes, self._runs, self._live)

    def start(self) -> None:
        """Start watching."""
        for each in self._watches:
            each.start()

    def stop(self) -> None:
        """Stop watching."""
        for each in self._watches:
            each.stop()

    def close(self) -> None:
        """Close the connection for fresh questions."""
        self._api.close()

    @property
    def ended(self) -> list[str]:
        """Return which watches have ended although nobody stopped them."""
        return [each.name for each in self._watches if each.ended]

    @property
    def deaf(self) -> list[str]:
        """Return which watches got no answer for too long, or none yet."""
        return [each.name for each in self._watches if each.silence() > _DEAF_SECONDS]

    def live(self, cluster: str) -> CurrentRayCluster | None:
        """Return a RayCluster as the watch shows it; None if there is none."""
        return self._live.snapshot().get(cluster)

    def poll(self) -> dict[str, GroupState]:
        """Ask all heads, and return the state of each group."""
        live, pods, seen = self._live.snapshot(), self._pods.snapshot(), self._nodes.snapshot()
        nodes = _groups(seen)
        suspended = {name for name in self._clusters if name in live and live[name].suspended}
        heads = self._ask([name for name in self._clusters if name in live and name not in suspended], pods)
        doubts = list(self._doubts())
        found = {}
        for group in self._groups:
            users, unknown = self._users_of(group, pods, nodes, self._runs.snapshot().values())
            for cluster in group.clusters:
                users += heads[cluster][0] if cluster in heads else []
                unknown += heads[cluster][1] if cluster in heads else []
            present = [live[name] for name in group.clusters if name in live]
            hands, unread = _hands_of(group, present)
            found[group.rule.group] = GroupState(
                users=tuple(users),
                doubts=(*doubts, *unknown, *unread),
                workers=sum(
                    each.replicas.get(own.name, 0)
                    for each in present
                    for own in group.workers
                    if own.cluster == each.name
                ),
                pods=sum(self._is_worker(pod) and self._place(pod, nodes) == group.rule.group for pod in pods.values()),
                suspended=next((name for name in group.clusters if name in suspended), ""),
                hands=hands,
                kept_by=(*_open_shells(group, seen), *self._guests(group, pods, nodes)),
            )
        return self._with_gpus(found, pods, nodes)

    def users_now(self, group: SleepingGroup, now: float, *, on_nodes: bool) -> list[str]:
        """Ask freshly who uses a group: runs, heads, persons, shells, GPUs and, with `on_nodes`, pods.

        Doubts are among the answers, and RayClusters that somebody has suspended.
        """
        try:
            found = [read(CurrentRayCluster.of, item) for item in map(self.ray_cluster, group.clusters) if item]
            runs = [read(_Run.of, job) for job in self._api.list(self._jobs_path)]
            nodes = self._nodes_now(group)
            on_them = self._pods_now(nodes) if on_nodes else {}
            users, doubts = self._users_of(group, on_them, _groups(self._nodes.snapshot() | nodes), runs)
        except KubernetesApiError as error:
            return [_unasked(str(error))]
        pods = self._pods.snapshot()
        for more_users, more_doubts in self._ask([each.name for each in found], pods).values():
            users += more_users
            doubts += more_doubts
        hands, unread = _hands_of(group, found)
        users += [each.in_words(now) for each in hands if each.wakes(now)]
        users += [*_open_shells(group, nodes), *self._guests(group, on_them, _groups(nodes)), *doubts, *unread]
        users += [f"RayCluster {each.name} is suspended" for each in found if each.suspended]
        if group.gpus and not users:
            busy, unknown = self._busy_gpus([group], pods, _groups(nodes), fresh=True)[group]
            users += [*busy, *unknown]
        return users

    def _with_gpus(
        self, states: Mapping[str, GroupState], pods: Mapping[str, _Pod], nodes: Mapping[str, str]
    ) -> dict[str, GroupState]:
        """Return the states with what the GPUs say of groups that would be idle without them."""
        now = time.time()
        idle = []
        for group in self._groups:
            state = states[group.rule.group]
            used = state.users or state.kept_by or state.doubts or state.suspended
            if group.gpus and not used and not (group.rule.hours and group.rule.hours.contain(now)):
                idle.append(group)
        found = dict(states)
        for group, (busy, unknown) in self._busy_gpus(idle, pods, nodes).items():
            found[group.rule.group] = replace(states[group.rule.group], kept_by=tuple(busy), doubts=tuple(unknown))
        return found

    def _busy_gpus(
        self,
        groups: Sequence[SleepingGroup],
        pods: Mapping[str, _Pod],
        nodes: Mapping[str, str],
        *,
        fresh: bool = False,
    ) -> dict[SleepingGroup, tuple[list[str], list[str]]]:
        """Return the nodes of each group with busy GPUs, and those of which it is unknown, in words."""
        wanted = {group.rule.group for group in groups}
        exporters = {
            pod.node: pod.address
            for pod in pods.values()
            if pod.namespace == EXPORTERS_NAMESPACE and pod.on_each_node and pod.address
        }
        of_groups = {node: exporters[node] for node, own in nodes.items() if own in wanted and node in exporters}
        answers = self._gpus.ask(of_groups, fresh=fresh)
        found: dict[SleepingGroup, tuple[list[str], list[str]]] = {}
        for group in groups:
            busy, unknown = found[group] = [], []
            for node in sorted(node for node, own in nodes.items() if own == group.rule.group):
                answer = answers.get(node)
                if answer is None or answer.problem:
                    why = answer.problem if answer else "no exporter runs there"
                    unknown.append(_unasked(f"GPUs of node {node}: {why}"))
                elif answer.busy:
                    busy.append(f"busy GPUs of node {node}")
        return found

    def _nodes_now(self, group: SleepingGroup) -> dict[str, _Node]:
        """Return the group's nodes. Raises ApiError."""
        items = self._api.list(_NODES_PATH, labelSelector=f"{INSTANCE_GROUP_LABEL}={group.rule.group}")
        return {name_of(item): read(_Node.of, item) for item in items}

    def _pods_now(self, nodes: Collection[str]) -> dict[str, _Pod]:
        """Return the pods on nodes. Raises ApiError.

        All pods are listed: a request for each of many nodes would take longer than the Lease lasts.
        """
        found, query = {}, {"limit": str(_PAGE)}
        while True:
            page = self._api.get("/api/v1/pods", **query)
            for item in read(lambda each: list(each["items"]), page):
                if read(lambda pod: pod["spec"].get("nodeName"), item) in nodes:
                    _qualify(item)
                    found[name_of(item)] = read(_Pod.of, item)
            if not (token := read(lambda each: each["metadata"].get("continue"), page)):
                return found
            query["continue"] = token

    def _users_of(
        self, group: SleepingGroup, pods: Mapping[str, _Pod], nodes: Mapping[str, str], runs: Iterable[_Run]
    ) -> tuple[list[str], list[str]]:
        """Return the runs and pods that use a group, and pods of which nobody knows whether they do."""
        users = sorted(f"run {run.name}" for run in runs if run.cluster in group.clusters and not run.ended)
        doubts = []
        for name, pod in sorted(pods.items()):
            if pod.ended or pod.on_each_node or self._is_worker(pod):
                continue
            if pod.node and pod.node not in nodes:
                doubts.append(_unasked(f"pod {name} is on node {pod.node}, which is unknown"))
            elif (place := self._place(pod, nodes)) == group.rule.group or (
                not pod.node and not place and group.rule.group in pod.waits_for
            ):
                users.append(f"pod {name}")
        return users, doubts

    def _guests(self, group: SleepingGroup, pods: Mapping[str, _Pod], nodes: Mapping[str, str]) -> list[str]:
        """Return the Ray workers on the group's nodes that are another group's, in words."""
        return sorted(
            f"Ray worker {name}"
            for name, pod in pods.items()
            if self._is_worker(pod)
            and not pod.ended
            and pod.cluster not in group.clusters
            and nodes.get(pod.node) == group.rule.group
        )

    def _is_worker(self, pod: _Pod) -> bool:
        return pod.namespace == self._namespace and pod.cluster in self._clusters and pod.role == "worker"

    def _place(self, pod: _Pod, nodes: Mapping[str, str]) -> str:
        """Return the instance group of a pod's node; of a pod without one, that which its nodes are to come from.

        This is the only group that the pod can run on, or the one for which the others stand in.
        """
        if pod.node in nodes:
            return nodes[pod.node]
        if len(pod.waits_for) == 1:
            return next(iter(pod.waits_for))
        homes = (name for name, others in self._homes.items() if name in pod.waits_for <= others | {name})
        return next(homes, "")

    def _doubts(self) -> Iterator[str]:
        """Yield what of the watched collections is unknown."""
        for each in self._watches:
            if each.silence() > _DEAF_SECONDS:
                yield _unasked(f"{each.name}: no answer")
            for name in sorted(each.unreadable()):
                yield _unasked(f"{each.name}: {name} cannot be read")

    def _ask(self, clusters: Sequence[str], pods: Mapping[str, _Pod]) -> dict[str, tuple[list[str], list[str]]]:
        """Return the users and doubts of RayClusters; a head that hangs delays the others only as long as one does."""
        heads = {name: self._address(name, pods) for name in clusters}
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            return dict(zip(heads, pool.map(self._ask_head, heads, heads.values()), strict=True))

    def _address(self, cluster: str, pods: Mapping[str, _Pod]) -> str:
        own = (pod for pod in pods.values() if pod.namespace == self._namespace and pod.cluster == cluster)
        return next((pod.address for pod in own if pod.role == "head" and pod.address), "")

    def _ask_head(self, cluster: str, address: str) -> tuple[list[str], list[str]]:
        if not address:
            return [], [_unasked(f"RayCluster {cluster} has no running head")]
        try:
            head = QuestionedHead(address, token=self._token(cluster))
            return [f"{user} on {cluster}" for user in head.users()], []
        # ValueError: a token that no header can have.
        except (HeadUnavailableError, RayError, KubernetesApiError, ValueError) as error:
            self._failed("ask head", error)
            return [], [_unasked(f"RayCluster {cluster}: {error}")]

    def _token(self, cluster: str) -> str:
        """Return the token that a head wants, '' for none. Raises ApiError."""
        if cluster not in self._tokens:
            return ""
        wanted = self._tokens[cluster]
        # Its own connection: heads are asked in parallel.
        api = KubernetesApi(self._server)
        try:
            found = api.get(f"/api/v1/namespaces/{self._namespace}/secrets/{wanted.secret}")
            return read(lambda item: base64.b64decode(item["data"][wanted.key]).decode().strip(), found)
        finally:
            api.close()

    def ray_cluster(self, name: str) -> Object | None:
        """Return the object of a RayCluster as it is now; None if there is none. Raises ApiError."""
        try:
            return self._api.get(f"{self.clusters_path}/{name}")
        except KubernetesApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def _hands_of(group: SleepingGroup, clusters: Iterable[CurrentRayCluster]) -> tuple[tuple[Hand, ...], list[str]]:
    """Return what a person asked of a group, and the doubts about what cannot be read."""
    hands, doubts = [], []
    for each in clusters:
        try:
            if hand := each.hand(group.rule.group):
                hands.append(hand)
        except ValueError as error:
            doubts.append(_unasked(f"RayCluster {each.name}: annotation {HAND}/{group.rule.group}: {error}"))
    return tuple(hands), doubts


def _unasked(what: str) -> str:
    return f"cannot be asked: {what}"
