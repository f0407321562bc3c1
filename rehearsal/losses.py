"""Lose parts of a kept rehearsal: `make lose WHAT=node`.

A person practises what follows: docs/explain/recovery.md says who replaces what, and when.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from config import EksEnvironment, naming
from config.labels import INSTANCE_TYPE_LABEL
from embedded_account.kubernetes.api import KubernetesClient, Object
from embedded_account.machine.processes import ProcessError, living
from embedded_account.run_keys import RunKeys
from embedded_account.running import EmbeddedAccount
from rehearsal import runs
from rehearsal.drills.cluster import failures
from rehearsal.drills.cluster.subject import HERE, Subject
from rehearsal.drills.cluster.world import ClusterHistory
from rehearsal.paths import BINARIES, run_directory
from rehearsal.run import access
from rehearsal.run.account import rehearsal_account
from rehearsal.run.cluster import TimedOutError


@dataclass(frozen=True)
class KeptRehearsal:
    """A kept rehearsal with its first RayCluster."""

    environment: EksEnvironment
    account: EmbeddedAccount
    api: KubernetesClient
    ray: Subject

    @classmethod
    @contextmanager
    def opened(cls, environment: EksEnvironment) -> Iterator[Self]:
        """Yield the kept rehearsal of an environment. Raises ProcessError if there is none, or it has no RayCluster."""
        file = run_directory(environment.name) / access.ACCOUNT
        if not file.is_file() or not living(file.parent):
            kept = [each.name for each in runs.directories() if (each / access.ACCOUNT).is_file() and living(each)]
            fix = f"add ENV={kept[0]}" if kept else f"run `make rehearse KEEP=1 ENV={environment.name}`"
            raise ProcessError(f"no rehearsal of {environment.name} is kept. Fix: {fix}")
        if not environment.ray.clusters:
            raise ProcessError(f"{environment.name} has no RayCluster. Allowed: a rehearsal of an environment with one")
        reached = json.loads(file.read_text())
        account = rehearsal_account(
            Path(reached["directory"]), BINARIES, account_id=environment.account, region=environment.region
        )
        account.endpoint, account.keys = reached["endpoint"], RunKeys.of(reached)
        api = KubernetesClient.from_kubeconfig(account.admin_kubeconfig(naming.eks_cluster(environment)))
        world, cluster = ClusterHistory(api), environment.ray.clusters[0]
        workers = sum(group.replicas for group in cluster.workers)
        zone = environment.network.node_zones[0]
        world.start()
        try:
            yield cls(
                environment, account, api, Subject(HERE, environment.ray.namespace, cluster.name, workers, world, zone)
            )
        finally:
            world.stop()

    def a(self, role: str) -> Object:
        """Return a good pod of a role (`head`, `worker`). Raises ProcessError if there is none."""
        try:
            return self.ray.a(role)
        except TimedOutError as error:
            raise ProcessError(
                f"RayCluster {self.ray.name} has no healthy {role} to lose: {self.ray.state()}. Fix: wait until "
                f"`ops status --env {self.environment.name}` shows it ready"
            ) from error


@dataclass(frozen=True)
class Loss:
    """A part that a person can lose: `cause` returns in words what is lost."""

    what: str
    cause: Callable[[KeptRehearsal], str]


def _node(kept: KeptRehearsal) -> str:
    worker = kept.a("worker")
    name = str(worker["spec"]["nodeName"])
    fault = {"instance": name.partition("-")[2], "cluster": kept.environment.hyperpod.cluster_name, "heartbeat": False}
    kept.account.set_hyperpod_faults({"fail_node": fault})
    return f"node {name} is silent, and on it {worker['metadata']['name']}"


def _head(kept: KeptRehearsal) -> str:
    head = kept.a("head")
    failures.delete_at_once(kept.api, head)
    return f"{head['metadata']['name']} is deleted, and with it every job of RayCluster {kept.ray.name}"


def _disk(kept: KeptRehearsal) -> str:
    worker = kept.a("worker")
    failures.evict(kept.api, worker)
    return f"the disk of node {worker['spec']['nodeName']} is full, and {worker['metadata']['name']} is evicted"


def _capacity(kept: KeptRehearsal) -> str:
    node = kept.api.get(f"/api/v1/nodes/{kept.a('worker')['spec']['nodeName']}")
    kind = node["metadata"]["labels"][INSTANCE_TYPE_LABEL]
    kept.account.set_hyperpod_faults({"capacity": {kind: 0}})
    return f"{_node(kept)}; AWS has no {kind} to replace it"


def _nothing(kept: KeptRehearsal) -> str:
    kept.account.set_hyperpod_faults({"clear": True})
    return "nothing; AWS has enough instances"


LOSSES: Final = {
    "node": Loss("a worker's node: it falls silent, as when its power fails", _node),
    "head": Loss("the head's pod: somebody deletes it", _head),
    "disk": Loss("the disk of a worker's node: it is full, and the kubelet evicts the worker", _disk),
    "capacity": Loss("a worker's node, when AWS has no instance to replace it", _capacity),
    "nothing": Loss("nothing more: AWS has enough instances again, which ends `capacity`", _nothing),
}
"""What a person can lose, by the name that is typed."""


def lose(what: str, environment: EksEnvironment) -> str:
    """Lose a part of the environment's kept rehearsal; return in words what is lost. Raises ProcessError."""
    if what not in LOSSES:
        raise ProcessError(f"WHAT: {what!r} is invalid: it cannot be lost. Allowed: {', '.join(LOSSES)}")
    with KeptRehearsal.opened(environment) as kept:
        return LOSSES[what].cause(kept)
