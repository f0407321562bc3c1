"""Build RayClusters for tests: a small one, and one with every key."""

from dataclasses import fields
from typing import Any

import cdk8s

from config import EksEnvironment
from config.facts.capacity import NodeResources
from config.facts.instance_types import GPU_RESOURCE
from config.model import Autoscaling, ClaimVolume, RayWorkers, SecretVariable, Taint
from k8s_charts.ray.cluster import HeadPod, RayClusterChart, RayClusterSpec, WorkerGroup
from k8s_charts.ray.pods import Common, Placement
from tests.charts.support.facts import Object

P5 = NodeResources(cpu_millis=90_000, memory_mib=1800 * 1024, accelerators=8, accelerator_resource=GPU_RESOURCE, efa=32)
SMALL = NodeResources(cpu_millis=2_500, memory_mib=8192)
TAINTS = (Taint(key="team", value="a", effect="NoSchedule"), Taint(key="reserved", effect="NoExecute"))


def a_worker_group(**changes: Any) -> WorkerGroup:
    """Return a group of four workers; `changes` may name fields of WorkerGroup and of RayWorkers."""
    sizes = {"replicas": 4, "min_replicas": 1, "max_replicas": 10}
    configured = {"name": "gpu-group", "instance_group": "worker-group-1", **sizes}
    own = {key: changes.pop(key) for key in changes.keys() & {each.name for each in fields(WorkerGroup)}}
    values: dict[str, Any] = {"place": Placement("worker-group-1"), "resources": P5, **own}
    return WorkerGroup(workers=RayWorkers.model_validate(configured | changes), **values)


def a_ray_cluster(*workers: WorkerGroup) -> RayClusterSpec:
    return RayClusterSpec(
        name="rayml",
        namespace="ray",
        ray_version="2.42.1",
        pods=Common(image="registry/repository:tag", claim="fsx-claim", mount_path="/fsx"),
        head=HeadPod(Placement("head-group"), SMALL),
        workers=workers or (a_worker_group(),),
    )


def rendered(cluster: RayClusterSpec) -> Object:
    """Return the RayCluster object as it is applied."""
    [manifest] = RayClusterChart(cdk8s.App(), "cluster", cluster=cluster).to_json()
    return dict(manifest)


def with_every_ray_key(environment: EksEnvironment) -> EksEnvironment:
    """Return the environment with every key of its RayCluster set, on tainted and labelled groups."""
    [cluster] = environment.ray.clusters
    [workers] = cluster.workers
    selector = {"team": "a"}
    stated = cluster.model_copy(
        update={
            "head": cluster.head.model_copy(update={"node_selector": selector}),
            "workers": (
                workers.model_copy(
                    update={"cpu": 4, "memory_gib": 32, "accelerators": 1, "efa": 0, "node_selector": selector}
                ),
            ),
            "autoscaling": Autoscaling(idle_timeout_seconds=120, upscaling="Conservative"),
            "env": {"NCCL_DEBUG": "WARN"},
            "secrets": (SecretVariable(env="HF_TOKEN", secret="hugging-face", key="token"),),
            "volumes": (ClaimVolume(claim="scratch", mount_path="/scratch", read_only=True),),
            "priority": 100,
        }
    )
    groups = tuple(
        group.model_copy(update={"labels": selector, "taints": TAINTS})
        for group in environment.hyperpod.instance_groups
    )
    return environment.model_copy(
        update={
            "hyperpod": environment.hyperpod.model_copy(update={"instance_groups": groups}),
            "ray": environment.ray.model_copy(update={"clusters": (stated,)}),
        }
    )
