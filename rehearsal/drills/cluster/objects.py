"""Build what drills apply: the environment's own objects, and RayClusters of stock KubeRay."""

from collections.abc import Sequence
from typing import Any, Final

from config import EksEnvironment, labels
from config.facts.capacity import allocatable
from config.model import InstanceGroup, Taint
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.nodes import NodeSpec
from k8s_charts.platform_objects import PlatformFacts, PlatformObjects
from k8s_charts.platform_objects import platform_objects as platform_of
from k8s_charts.ray_objects import ImageBuildFacts, RayFacts, RayObjects
from k8s_charts.ray_objects import ray_objects as ray_of
from k8s_charts.storage.volumes import FileSystemAddress

STOCK_NAMESPACE: Final = "stock"
STOCK: Final[Object] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STOCK_NAMESPACE}}

_STOCK_LABEL: Final = "rehearsal/stock-group"
_ZONE_LABEL: Final = "topology.kubernetes.io/zone"
# What a deployment would know; the drills ask AWS for none of it.
_ROLE: Final = "arn:aws:iam::111122223333:role/rehearsal"
_FILE_SYSTEM: Final = FileSystemAddress("fs-0123456789abcdef0", "fs-0123456789abcdef0.fsx.example.invalid", "abcdefgh")
# A c6i.2xlarge or larger: its other pods are not applied here.
_SYSTEM_NODE: Final = {"cpu": "7900m", "memory": "14Gi", "pods": "58"}


def platform_objects(environment: EksEnvironment) -> PlatformObjects:
    """Return what the platform stack applies."""
    return platform_of(environment, PlatformFacts(_ROLE, "subnet-0123456789abcdef0", "sg-0123456789abcdef0"))


def ray_objects(environment: EksEnvironment) -> RayObjects:
    """Return what the ray stack applies."""
    return ray_of(environment, RayFacts(_FILE_SYSTEM, _ROLE, ImageBuildFacts(_ROLE, "s3://rehearsal/context.zip")))


def stock_cluster(cluster: Object, name: str, *, same_nodes: bool = False) -> Object:
    """Return the RayCluster `cluster` with only what KubeRay's own examples state: image, resources, placement.

    Kubernetes gives its pods a toleration of 300 seconds for a lost node. They run on `stock_nodes` or, with
    `same_nodes`, on the nodes of `cluster`.
    """
    spec = cluster["spec"]
    workers = spec["workerGroupSpecs"][0]
    sizes = {key: workers[key] for key in ("groupName", "replicas", "minReplicas", "maxReplicas")}
    return {
        "apiVersion": cluster["apiVersion"],
        "kind": cluster["kind"],
        "metadata": {"name": name, "namespace": STOCK_NAMESPACE},
        "spec": {
            "rayVersion": spec["rayVersion"],
            "headGroupSpec": _stock_group(spec["headGroupSpec"], None if same_nodes else f"{name}-head"),
            "workerGroupSpecs": [{**sizes, **_stock_group(workers, None if same_nodes else f"{name}-workers")}],
        },
    }


def stock_nodes(environment: EksEnvironment, name: str, *, workers: int) -> list[NodeSpec]:
    """Return nodes for the stock RayCluster `name`: `workers` worker nodes and two for heads, in their own zone.

    Kubernetes evicts the pods of one lost node per zone every ten seconds: RayClusters must not wait for each other.
    """
    head, worker = _groups(environment)
    places = {f"{name}-head": (head, 2), f"{name}-workers": (worker, workers)}
    return [
        _node(group, f"{place}-{number}", {_STOCK_LABEL: place, _ZONE_LABEL: name}, taints=())
        for place, (group, count) in places.items()
        for number in range(1, count + 1)
    ]


def hyperpod_nodes(environment: EksEnvironment, *, workers: int) -> list[NodeSpec]:
    """Return nodes for the environment's RayCluster: `workers` of its worker group and two of its head's."""
    return [
        hyperpod_node(environment, group, f"hyperpod-{group.name}-{number}")
        for group, count in zip(_groups(environment), (2, workers), strict=True)
        for number in range(1, count + 1)
    ]


def hyperpod_node(environment: EksEnvironment, group: InstanceGroup, name: str) -> NodeSpec:
    """Return a node as it joins from HyperPod: allocatable resources, labels."""
    own = {
        labels.INSTANCE_GROUP_LABEL: group.name,
        labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE,
        _ZONE_LABEL: environment.network.node_zones[0],
    }
    return _node(group, name, {**own, **group.labels}, group.taints)


def worker_group(environment: EksEnvironment) -> InstanceGroup:
    """Return the instance group of the first RayCluster's first worker group."""
    return _groups(environment)[1]


def system_nodes() -> list[NodeSpec]:
    """Return the nodes of operator and reaper."""
    own = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    return [
        NodeSpec(name=f"system-{number}", labels=own, allocatable=_SYSTEM_NODE, capacity=_SYSTEM_NODE)
        for number in (1, 2)
    ]


def _groups(environment: EksEnvironment) -> tuple[InstanceGroup, InstanceGroup]:
    by_name = {group.name: group for group in environment.hyperpod.instance_groups}
    cluster = environment.ray.clusters[0]
    return by_name[cluster.head.instance_group], by_name[cluster.workers[0].instance_group]


def _node(group: InstanceGroup, name: str, own: dict[str, str], taints: Sequence[Taint]) -> NodeSpec:
    room = allocatable(group.type, group.threads_per_core)
    amounts = {"cpu": f"{room.cpu_millis}m", "memory": f"{room.memory_mib}Mi", "pods": str(room.pods)}
    amounts |= {resource: str(count) for resource, count in room.devices.items()}
    given = [taint.model_dump() for taint in taints]
    return NodeSpec(name=name, labels=own, allocatable=amounts, capacity=amounts, taints=given)


def _stock_group(group: Object, place: str | None) -> dict[str, Any]:
    given = group["template"]["spec"]
    stated = {key: given["containers"][0][key] for key in ("name", "image", "resources")}
    pod = {"containers": [stated], "nodeSelector": {_STOCK_LABEL: place} if place else given["nodeSelector"]}
    return {"rayStartParams": group["rayStartParams"], "template": {"spec": pod}}
