"""A cluster with an instance group that may sleep, as the sleeper sees it: fakes of the API server and the function."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controllers.aws_api import NO_ANSWER, AwsApiError
from tests.support.fake_kubernetes import ALL_PODS, JOBS, NODES, RAY_CLUSTERS, SECRETS, FakeKubernetes, Object

OWN = "kuberay"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OWN}/deployments"
OWN_PODS = f"/api/v1/namespaces/{OWN}/pods"
LABEL = "sagemaker.amazonaws.com/instance-group-name"
COUNT = 2


@dataclass
class FakeFunction:
    """The function that alone changes counts; `targets` are HyperPod's, which `current` follows at once."""

    targets: dict[str, int]
    current: dict[str, int] = field(default_factory=dict)
    """Where they differ from the targets."""
    refused: str = ""
    fails: bool = False
    fails_to_change: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] | None = None

    def invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of `GroupCounts`."""
        assert function == "counts"
        self.events.append(dict(event))
        if self.fails or (self.fails_to_change and event):
            raise AwsApiError(NO_ANSWER, "no answer")
        if self.answer is not None:
            return self.answer
        if not self.refused:
            self.targets |= event.get("counts", {})
        groups = {
            name: {"target": target, "current": self.current.get(name, target)} for name, target in self.targets.items()
        }
        return {"cluster": "InService", "groups": groups, "refused": self.refused if event else ""}

    @property
    def changes(self) -> list[dict[str, int]]:
        """Return the counts that were requested."""
        return [event["counts"] for event in self.events if event]


class SleepingCluster:
    """Objects of a cluster in which RayCluster `rayml` has its workers on the group `gpu`; nodes and pods follow."""

    def __init__(self, kubernetes: FakeKubernetes, head: str) -> None:
        self.kubernetes = kubernetes
        self.function = FakeFunction({"gpu": COUNT})
        for path in (ALL_PODS, RAY_CLUSTERS, LEASES, DEPLOYMENTS, OWN_PODS):
            kubernetes.collections.setdefault(path, {})
        kubernetes.live |= {ALL_PODS, RAY_CLUSTERS, NODES, JOBS}
        kubernetes.put(DEPLOYMENTS, {"metadata": {"name": "sleeper", "uid": "d-1", "resourceVersion": "1"}})
        kubernetes.put(RAY_CLUSTERS, a_ray_cluster())
        kubernetes.put(NODES, a_node("system", "system"))
        self.put_pod(a_pod("rayml-head", node="system", owner="RayCluster/rayml", role="head", address=head))
        self.put_pod(a_pod("agent", namespace="aws-hyperpod", node="gpu-0", owner="DaemonSet/agent"))
        self.put_pod(a_pod("proxy", namespace="kube-system", node="gpu-0", owner="Node/gpu-0"))
        self.put_pod(a_pod("coredns", namespace="kube-system", node="system", owner="ReplicaSet/coredns"))
        self.follow()

    @property
    def replicas(self) -> int:
        """Return the replicas that the RayCluster asks for."""
        found = self.kubernetes.collections[RAY_CLUSTERS]["rayml"]["spec"]["workerGroupSpecs"][0]
        assert found["minReplicas"] <= found["replicas"]
        return int(found["replicas"])

    @property
    def target(self) -> int:
        """Return HyperPod's TargetCount of the group."""
        return self.function.targets["gpu"]

    @property
    def asleep(self) -> bool:
        """Return whether the group has neither nodes nor workers."""
        return (self.target, self.replicas) == (0, 0)

    def put_pod(self, pod: Object) -> None:
        """Add or replace a pod."""
        # Live collections are keyed by name alone.
        self.kubernetes.collections[ALL_PODS][f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = pod

    def remove_pod(self, name: str) -> None:
        """Remove a pod of Ray's namespace."""
        del self.kubernetes.collections[ALL_PODS][f"ray/{name}"]

    def follow(self) -> None:
        """Let nodes follow HyperPod's count, and KubeRay's workers the replicas and nodes."""
        nodes, pods = self.kubernetes.collections[NODES], self.kubernetes.collections[ALL_PODS]
        for n in range(COUNT):
            if n < self.target:
                nodes.setdefault(f"gpu-{n}", a_node(f"gpu-{n}", "gpu"))
            else:
                nodes.pop(f"gpu-{n}", None)
            if n < self.replicas:
                where = f"gpu-{n}" if n < self.target else ""
                self.put_pod(a_pod(f"worker-{n}", node=where, owner="RayCluster/rayml", role="worker", selects="gpu"))
            else:
                pods.pop(f"ray/worker-{n}", None)


def a_ray_cluster(**spec: Any) -> Object:
    """Return a RayCluster as it is when the group is awake."""
    workers = {"groupName": "gpu-workers", "replicas": COUNT, "minReplicas": 1, "maxReplicas": COUNT}
    return {
        "metadata": {"name": "rayml", "namespace": "ray", "uid": "c-1", "resourceVersion": "1"},
        "spec": {"workerGroupSpecs": [workers], **spec},
    }


def a_node(name: str, group: str) -> Object:
    """Return a node of an instance group."""
    return {"metadata": {"name": name, "resourceVersion": "1", "labels": {LABEL: group}}}


def a_pod(
    name: str,
    *,
    namespace: str = "ray",
    node: str = "",
    owner: str = "",
    role: str = "",
    address: str = "",
    selects: str = "",
    **spec: Any,
) -> Object:
    """Return a pod that runs on a node, or waits for one; `owner` is KIND/NAME."""
    kind, _, of = owner.partition("/")
    owners = [{"kind": kind, "name": of, "controller": True}] if owner else []
    labels = {"ray.io/node-type": role, "ray.io/cluster": of} if role else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "resourceVersion": "1",
            "labels": labels,
            "ownerReferences": owners,
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            **({"nodeSelector": {LABEL: selects}} if selects else {}),
            **spec,
        },
        "status": {"phase": "Running" if node else "Pending", **({"podIP": address} if address else {})},
    }


def a_run(name: str = "train-7", cluster: str = "rayml", **condition: str) -> Object:
    """Return the Job of a run; it has ended if a condition says so."""
    labels = {"ray-on-hyperpod/run": name, "ray-on-hyperpod/cluster": cluster}
    return {
        "metadata": {"name": name, "namespace": "ray", "resourceVersion": "1", "labels": labels},
        "spec": {},
        "status": {"conditions": [condition]} if condition else {},
    }


def with_token(cluster: SleepingCluster, token: str) -> None:
    """Add the Secret of the head's token."""
    data = {"auth_token": base64.b64encode(token.encode()).decode()}
    cluster.kubernetes.put(SECRETS, {"metadata": {"name": "rayml", "resourceVersion": "1"}, "data": data})
