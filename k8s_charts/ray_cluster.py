"""RayCluster objects of KubeRay 1.2.0 (`ray.io/v1`).

The operator runs no admission webhook and its CRD prunes unknown fields, so what it would accept and misread is
prevented here and by the configuration's own rules.
"""

from dataclasses import dataclass
from typing import Any

import cdk8s
from constructs import Construct

from config.capacity import Resources
from k8s_charts import ray_pods
from k8s_charts.base import ProjectChart


@dataclass(frozen=True)
class Head:
    """The head pod, on nodes of `instance_group`."""

    instance_group: str
    resources: Resources


@dataclass(frozen=True)
class WorkerGroup:
    """`replicas` worker pods, one per node of `instance_group`; `resources` are those of one pod.

    `prefer_deep_checked` prefers nodes whose deep health checks passed.
    """

    name: str
    instance_group: str
    replicas: int
    min_replicas: int
    max_replicas: int
    resources: Resources
    prefer_deep_checked: bool = False


@dataclass(frozen=True)
class RayCluster:
    """A RayCluster whose pods all run `image`, which holds Ray `ray_version`, and mount `claim` at `mount_path`."""

    name: str
    namespace: str
    ray_version: str
    image: str
    claim: str
    mount_path: str
    head: Head
    workers: tuple[WorkerGroup, ...]


class RayClusterChart(ProjectChart):
    """One RayCluster."""

    def __init__(self, scope: Construct, id: str, *, cluster: RayCluster) -> None:
        super().__init__(scope, id)
        resource = cdk8s.ApiObject(
            self,
            "cluster",
            api_version="ray.io/v1",
            kind="RayCluster",
            metadata=cdk8s.ApiObjectMetadata(name=cluster.name, namespace=cluster.namespace),
        )
        resource.add_json_patch(cdk8s.JsonPatch.add("/spec", ray_cluster_spec(cluster)))


def ray_cluster_spec(cluster: RayCluster) -> dict[str, Any]:
    """Return the `spec` of the RayCluster."""
    return {
        "rayVersion": cluster.ray_version,
        "enableInTreeAutoscaling": False,
        "headGroupSpec": {
            "rayStartParams": {
                # Tasks stay off the head: its loss ends every job.
                "num-cpus": "0",
                "num-gpus": "0",
                "dashboard-host": "0.0.0.0",  # noqa: S104  in the pod; network policies and no public service guard it
            },
            "template": {"spec": _head_pod(cluster)},
        },
        "workerGroupSpecs": [_worker_group(cluster, group) for group in cluster.workers],
    }


def _head_pod(cluster: RayCluster) -> dict[str, Any]:
    head = cluster.head
    pod = ray_pods.pod(
        name="ray-head",
        image=cluster.image,
        resources=head.resources,
        instance_group=head.instance_group,
        claim=cluster.claim,
        mount_path=cluster.mount_path,
        probe=ray_pods.head_probe(),
        env={
            # HyperPod's AMI injects GPUs into every container of a CUDA image and fails on a node that has none.
            "NVIDIA_VISIBLE_DEVICES": "void",
            **ray_pods.DASHBOARD_ENV,
        },
    )
    pod["containers"][0]["ports"] = [
        {"name": "gcs-server", "containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client", "containerPort": 10001},
        {"name": "serve", "containerPort": 8000},
    ]
    return pod


def _worker_group(cluster: RayCluster, group: WorkerGroup) -> dict[str, Any]:
    pod = ray_pods.pod(
        name="ray-worker",
        image=cluster.image,
        resources=group.resources,
        instance_group=group.instance_group,
        claim=cluster.claim,
        mount_path=cluster.mount_path,
        probe=ray_pods.worker_probe(),
        env=ray_pods.network_env(group.resources),
    )
    pod["affinity"]["podAntiAffinity"] = ray_pods.one_worker_per_node()
    if group.prefer_deep_checked:
        pod["affinity"]["nodeAffinity"] |= ray_pods.prefer_deep_checked()
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.min_replicas,
        "maxReplicas": group.max_replicas,
        "rayStartParams": {"num-gpus": str(group.resources.gpus)},
        "template": {"spec": pod},
    }
