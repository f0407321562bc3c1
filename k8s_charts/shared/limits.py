"""What a namespace may never hold, and what may not be drained.

There is no budget for Ray's workers: a job survives their loss, and a budget would hold up every drain; none for the
operator, whose only pod could then never leave its node. The reaper has one of its own. There is no quota of CPU or
accelerators in Ray's namespace: the nodes are the quota, and one that is too small would keep a lost worker from being
replaced.
"""

from collections.abc import Mapping
from typing import Final

import cdk8s
from constructs import Construct

from config.facts.instance_types import EFA_RESOURCE, GPU_RESOURCE

# A LoadBalancer or an Ingress would put what has no authentication into a network that no NetworkPolicy sees.
NO_PUBLIC_SERVICE: Final = {
    "services.loadbalancers": "0",
    "services.nodeports": "0",
    "count/ingresses.networking.k8s.io": "0",
}

# Its namespace is the one that allows what Pod Security calls privileged: a foothold there shall not get far. Two
# builds, that of a change and the one before it, and the next try of one of them; none needs a GPU.
IMAGE_BUILD_QUOTA: Final = {"pods": "3", f"requests.{GPU_RESOURCE}": "0", f"requests.{EFA_RESOURCE}": "0"}


def quota(scope: Construct, *, namespace: str, hard: Mapping[str, str]) -> cdk8s.ApiObject:
    """Add the ResourceQuota `project` with these hard limits to a namespace."""
    metadata = cdk8s.ApiObjectMetadata(name="project", namespace=namespace)
    made = cdk8s.ApiObject(scope, "quota", api_version="v1", kind="ResourceQuota", metadata=metadata)
    made.add_json_patch(cdk8s.JsonPatch.add("/spec", {"hard": dict(hard)}))
    return made


def head_budget(scope: Construct, *, namespace: str, cluster: str) -> None:
    """Hold the head of a RayCluster on its node against a drain, which would end all of its jobs.

    To move it on purpose its pod is deleted. In numbers of pods: a RayCluster has no scale subresource, of which
    percentages and `maxUnavailable` would be taken (Kubernetes docs: "Arbitrary workloads and arbitrary selectors").
    """
    budget = {
        "minAvailable": 1,
        "selector": {"matchLabels": {"ray.io/cluster": cluster, "ray.io/node-type": "head"}},
        # One that is not ready protects nothing.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    metadata = cdk8s.ApiObjectMetadata(name=f"{cluster}-head", namespace=namespace)
    made = cdk8s.ApiObject(scope, "head", api_version="policy/v1", kind="PodDisruptionBudget", metadata=metadata)
    made.add_json_patch(cdk8s.JsonPatch.add("/spec", budget))
