"""Drill: a RayCluster, then a worker group, is removed from the environment; nothing of either stays."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config import naming
from embedded_account.kubernetes.api import KubernetesClient
from ops.policy.role import PersonRole
from rehearsal.drills.cluster.auditor import DEPLOYMENTS
from rehearsal.drills.cluster.cluster import OPERATOR
from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run import owner
from rehearsal.run.project import Document
from rehearsal.run.steps import RehearsalError

SECOND: Final = "second"
EXTRA: Final = "extra-group"

_CORE: Final = "/api/v1/namespaces/{}"
# Pods are counted, because their names are new each time. Events and endpoints follow the others.
_KINDS: Final = (
    f"{_CORE}/services",
    f"{_CORE}/configmaps",
    f"{_CORE}/secrets",
    f"{_CORE}/serviceaccounts",
    f"{_CORE}/persistentvolumeclaims",
    "/apis/ray.io/v1/namespaces/{}/rayclusters",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)


def play(context: DrillContext) -> None:
    """Deploy a second RayCluster and a worker group, remove one after the other, and compare with the state before."""
    context.deploy()
    context.ops("wait", "--timeout", "15m", "--interval", "1s")
    api = KubernetesClient.from_kubeconfig(_kubeconfig(context))
    before = Counter(_inventory(api, context.environment.ray.namespace))

    context.edit("one more RayCluster, worker group and head node", _add)
    context.deploy()
    context.ops("wait", "--timeout", "15m", "--interval", "1s")

    with context.audited() as auditor:
        auditor.permit("generic-garbage-collector", lambda pod: pod.labels.get("ray.io/cluster") == SECOND)
        # The operator's memory follows the number of Ray pods (k8s_charts/helm/kuberay.py):
        # its Deployment replaces its pod.
        auditor.permit(DEPLOYMENTS, lambda pod: pod.name.startswith(OPERATOR))
        context.edit(f"RayCluster {SECOND} removed", _remove_second)
        context.deploy("ray")
        with context.step(f"nothing of RayCluster {SECOND} is left"):
            left = [name for name in _inventory(api, context.environment.ray.namespace) if SECOND in name]
            if left:
                raise RehearsalError(f"these are left: {', '.join(left)}")

        role = owner.name_of(context.environment, PersonRole.OPERATOR)
        auditor.permit(f"assumed-role/{role}/rehearsal", lambda pod: pod.labels.get("ray.io/group") == EXTRA)
        context.edit(f"worker group {EXTRA} removed", _remove_extra)
        context.deploy("ray")
        if EXTRA not in (printed := context.ops("status", expect=(0, 1))):
            raise RehearsalError(f"`ops status` must say that pods of {EXTRA} are left:\n{printed}")
        context.ops("rollout", "--yes", "--timeout", "5m")
        context.ops("wait", "--timeout", "15m", "--interval", "1s")
        with context.step("everything is as before"):
            after = Counter(_inventory(api, context.environment.ray.namespace))
            if after != before:
                raise RehearsalError(f"left: {sorted(after - before)}; missing: {sorted(before - after)}")


def _add(document: Document) -> None:
    [head_group, *_] = document["hyperpod"]["instance_groups"]
    head_group["count"] += 1
    [first] = document["ray"]["clusters"]
    [workers] = first["workers"]
    workers["replicas"] -= 1
    first["workers"].append({**workers, "name": EXTRA, "replicas": 1, "min_replicas": 0, "max_replicas": 1})
    idle = {**workers, "replicas": 0, "min_replicas": 0}
    document["ray"]["clusters"].append({"name": SECOND, "head": dict(first["head"]), "workers": [idle]})


def _remove_second(document: Document) -> None:
    document["ray"]["clusters"].pop()


def _remove_extra(document: Document) -> None:
    [first] = document["ray"]["clusters"]
    first["workers"].pop()
    first["workers"][0]["replicas"] += 1


def _inventory(api: KubernetesClient, namespace: str) -> Iterator[str]:
    for kind in _KINDS:
        for item in api.get(kind.format(namespace))["items"]:
            yield f"{kind.rpartition('/')[2]} {item['metadata']['name']}"
    for pod in api.get(f"{_CORE.format(namespace)}/pods")["items"]:
        labels = pod["metadata"].get("labels", {})
        yield f"pod of {labels.get('ray.io/cluster')} {labels.get('ray.io/group')}"


def _kubeconfig(context: DrillContext) -> Path:
    return context.rehearsal.account.admin_kubeconfig(naming.eks_cluster(context.environment))


DRILL: Final = Drill(
    name="removals",
    promise="A RayCluster is removed from the environment file: its deployment leaves nothing of it. A worker group is "
    "removed: KubeRay leaves its pods, `ops status` shows them, and `ops rollout` removes only these.",
    play=play,
    context=DrillContext,
)
