"""RayCluster objects of KubeRay 1.2.0 (`ray.io/v1`).

The operator runs no admission webhook, and its CRD prunes unknown fields. So this module and the configuration's rules
prevent input that the operator would accept and misread.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cdk8s
from constructs import Construct

from config.facts.capacity import NodeResources
from config.labels import TEMPLATE_LABEL
from config.model import Autoscaling, RayWorkers
from k8s_charts.ray import pods as ray_pods
from k8s_charts.ray.autoscaler import autoscaler_options, give_token, restart_in_place
from k8s_charts.ray.pods import Common, Placement
from k8s_charts.ray.template_hash import labelled, templates_of
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import PULL_IF_ABSENT, explain

# These concern the RayCluster's pods. KubeRay does not copy the RayCluster's annotations to them.
_EXCEPTIONS: Final = {
    **PULL_IF_ABSENT,
    "CKV_K8S_22": "Ray and what training code calls write caches and compiled kernels into the user's home",
    "CKV_K8S_40": "1000 is the user that Ray's images are made for, and that owns files on the shared file system",
    "CKV_K8S_43": "a built image's tag is the hash of what it is built from, and immutable; image.uri takes a digest",
}


@dataclass(frozen=True)
class HeadPod:
    """The head pod."""

    place: Placement
    resources: NodeResources


@dataclass(frozen=True)
class WorkerGroup:
    """The worker pods of one group, one per node; `resources` are the resources of one pod.

    With `prefer_deep_checked` the pods prefer nodes whose deep health checks passed.
    """

    workers: RayWorkers
    place: Placement
    resources: NodeResources
    prefer_deep_checked: bool = False


@dataclass(frozen=True)
class RayClusterSpec:
    """A RayCluster whose image holds Ray `ray_version`; without `autoscaling` each group has its `replicas`."""

    name: str
    namespace: str
    ray_version: str
    pods: Common
    head: HeadPod
    workers: tuple[WorkerGroup, ...]
    autoscaling: Autoscaling | None = None
    auth_options: Mapping[str, str] | None = None
    """From KubeRay 1.5.1 on: the token that the head wants."""


class RayClusterChart(ProjectChart):
    """One RayCluster."""

    def __init__(self, scope: Construct, id: str, *, cluster: RayClusterSpec) -> None:
        super().__init__(scope, id)
        spec = ray_cluster_spec(cluster)
        resource = cdk8s.ApiObject(
            self,
            "cluster",
            api_version="ray.io/v1",
            kind="RayCluster",
            metadata=cdk8s.ApiObjectMetadata(
                name=cluster.name,
                namespace=cluster.namespace,
                annotations={TEMPLATE_LABEL: templates_of([spec["headGroupSpec"], *spec["workerGroupSpecs"]])},
            ),
        )
        resource.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))
        explain(resource, _EXCEPTIONS)


def ray_cluster_spec(cluster: RayClusterSpec) -> dict[str, Any]:
    """Return the `spec` of the RayCluster."""
    scaling = cluster.autoscaling
    autoscaler = {"autoscalerOptions": autoscaler_options(scaling, cluster.pods)} if scaling else {}
    auth = {"authOptions": dict(cluster.auth_options)} if cluster.auth_options else {}
    head = {
        "rayStartParams": {
            # Keep tasks off the head: the loss of the head ends every job.
            "num-cpus": "0",
            "num-gpus": "0",
            "dashboard-host": "0.0.0.0",  # noqa: S104  in the pod; network policies and no public service guard it
        },
        "template": {"spec": _head_pod(cluster)},
    }
    return {
        "rayVersion": cluster.ray_version,
        "enableInTreeAutoscaling": scaling is not None,
        **autoscaler,
        **auth,
        # KubeRay adds the autoscaler's container to the head pod, and the token to all.
        "headGroupSpec": labelled(head, **autoscaler, **auth),
        "workerGroupSpecs": [labelled(_worker_group(cluster, group), **auth) for group in cluster.workers],
    }


def _head_pod(cluster: RayClusterSpec) -> dict[str, Any]:
    pod = ray_pods.pod(
        cluster.pods,
        cluster.head.place,
        name="ray-head",
        resources=cluster.head.resources,
        probe=ray_pods.head_probe(),
        env=ray_pods.DASHBOARD_ENV,
    )
    pod["containers"][0]["ports"] = [
        {"name": "gcs-server", "containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client", "containerPort": 10001},
        {"name": "serve", "containerPort": 8000},
    ]
    if cluster.autoscaling:
        give_token(pod)
        restart_in_place(pod)
    return pod


def _worker_group(cluster: RayClusterSpec, group: WorkerGroup) -> dict[str, Any]:
    pod = ray_pods.pod(
        cluster.pods,
        group.place,
        name="ray-worker",
        resources=group.resources,
        probe=ray_pods.worker_probe(),
        env=ray_pods.network_env(group.resources),
    )
    pod["affinity"]["podAntiAffinity"] = ray_pods.one_worker_per_node()
    if group.prefer_deep_checked:
        ray_pods.prefer_deep_checked(pod["affinity"]["nodeAffinity"])
    return {
        "groupName": group.workers.name,
        "replicas": group.workers.replicas,
        "minReplicas": group.workers.min_replicas,
        "maxReplicas": group.workers.max_replicas,
        "rayStartParams": {"num-gpus": str(group.resources.gpus), **_neuron_cores(group.resources)},
        "template": {"spec": pod},
    }


def _neuron_cores(resources: NodeResources) -> dict[str, str]:
    """Return Ray's resource for Neuron, which KubeRay 1.2.0 does not derive from the container's resources.

    It is quoted for the shell in which KubeRay starts `ray`; Ray's autoscaler removes the same quotes.
    """
    if not resources.neuron_cores:
        return {}
    wanted = json.dumps({"neuron_cores": resources.neuron_cores})
    return {"resources": json.dumps(wanted)}
