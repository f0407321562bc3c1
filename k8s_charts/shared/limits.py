"""ResourceQuotas of namespaces, and the disruption budget of a head.

Ray's workers have no budget: a job survives their loss, and a budget would block every drain. The operator has none
either, because its only pod could then never leave its node. The reaper's chart has its own budget. Ray's namespace has
no quota of CPU or accelerators: the nodes are the limit, and a quota that is too small would prevent the replacement of
a lost worker.
"""

from collections.abc import Mapping
from typing import Final

import cdk8s
from constructs import Construct

from config.facts.instance_types import EFA_RESOURCE, GPU_RESOURCE

# A LoadBalancer or an Ingress would expose services without authentication to traffic that no NetworkPolicy filters.
NO_PUBLIC_SERVICE: Final = {
    "services.loadbalancers": "0",
    "services.nodeports": "0",
    "count/ingresses.networking.k8s.io": "0",
}

# The build's namespace is the only one that allows what Pod Security calls privileged, so an intruder must not get far.
# Three pods: the builds of a change and of the change before it, and a retry of one of them. None needs a GPU.
IMAGE_BUILD_QUOTA: Final = {"pods": "3", f"requests.{GPU_RESOURCE}": "0", f"requests.{EFA_RESOURCE}": "0"}


def quota(scope: Construct, *, namespace: str, hard: Mapping[str, str]) -> cdk8s.ApiObject:
    """Add the ResourceQuota `project` with these hard limits to a namespace."""
    metadata = cdk8s.ApiObjectMetadata(name="project", namespace=namespace)
    made = cdk8s.ApiObject(scope, "quota", api_version="v1", kind="ResourceQuota", metadata=metadata)
    made.add_json_patch(cdk8s.JsonPatch.add("/spec", {"hard": dict(hard)}))
    return made


def head_budget(scope: Construct, *, namespace: str, cluster: str) -> None:
    """Add a budget that keeps a RayCluster's head on its node during a drain, which would end all of its jobs.

    To move a head on purpose, delete its pod. The budget is a number of pods: percentages and `maxUnavailable` need a
    scale subresource, which a RayCluster lacks (Kubernetes docs: "Arbitrary workloads and arbitrary selectors").
    """
    budget = {
        "minAvailable": 1,
        "selector": {"matchLabels": {"ray.io/cluster": cluster, "ray.io/node-type": "head"}},
        # A head that is not ready needs no protection.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    metadata = cdk8s.ApiObjectMetadata(name=f"{cluster}-head", namespace=namespace)
    made = cdk8s.ApiObject(scope, "head", api_version="policy/v1", kind="PodDisruptionBudget", metadata=metadata)
    made.add_json_patch(cdk8s.JsonPatch.add("/spec", budget))
