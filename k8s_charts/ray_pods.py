"""The pod templates of Ray's head and workers, as plain mappings: a RayCluster embeds them."""

from collections.abc import Mapping
from typing import Any, Final

from config import labels
from config.capacity import Resources
from k8s_charts.names import PROMETHEUS_NAMESPACE, RAY_SERVICE_ACCOUNT

# The user and group `ray` of the rayproject/ray images (ray-project/ray: docker/base-deps/Dockerfile).
RAY_USER: Final = 1000
RAY_GROUP: Final = 100

# How long a Ray pod stays on a node that is lost; Kubernetes' default is five minutes.
LOST_NODE_SECONDS: Final = 30
# More than the 16 seconds that `ray stop` gives Ray's processes.
GRACE_SECONDS: Final = 30

# The dashboard's charts, with the release names of the walkthrough's kube-prometheus stack; Grafana's address for the
# browser is that of a port-forward.
DASHBOARD_ENV: Final = {
    "RAY_GRAFANA_IFRAME_HOST": "http://localhost:3000",
    "RAY_GRAFANA_HOST": f"http://prometheus-grafana.{PROMETHEUS_NAMESPACE}.svc:80",
    "RAY_PROMETHEUS_HOST": f"http://prometheus-kube-prometheus-prometheus.{PROMETHEUS_NAMESPACE}.svc:9090",
}


def pod(
    *,
    name: str,
    image: str,
    resources: Resources,
    instance_group: str,
    claim: str,
    mount_path: str,
    probe: Mapping[str, Any],
    env: Mapping[str, str],
) -> dict[str, Any]:
    """Return the pod spec that head and workers share; it keeps to Pod Security's `restricted` level."""
    amounts = _amounts(resources)
    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        # KubeRay's own probes wait 2 seconds, which a busy head exceeds (kuberay#2353). It adds none beside these.
        "readinessProbe": {**probe, "initialDelaySeconds": 10, "failureThreshold": 10},
        "livenessProbe": {**probe, "initialDelaySeconds": 30, "failureThreshold": 120},
        "volumeMounts": [
            {"name": "fsx-storage", "mountPath": mount_path},
            {"name": "ray-logs", "mountPath": "/tmp/ray"},  # noqa: S108  in the pod
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108  in the pod
        ],
    }
    return {
        "serviceAccountName": RAY_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": RAY_USER,
            "runAsGroup": RAY_GROUP,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # A container that ends leaves its pod Failed, which KubeRay replaces, elsewhere if need be. A restart in
        # place would try again on what may be the sick node.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {labels.INSTANCE_GROUP_LABEL: instance_group},
        "affinity": {"nodeAffinity": _on_healthy_nodes()},
        "tolerations": [_leave_after(LOST_NODE_SECONDS, condition) for condition in ("not-ready", "unreachable")],
        "containers": [container],
        "volumes": [
            {"name": "fsx-storage", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "ray-logs", "emptyDir": {}},
            {
                "name": "shared-memory",
                # Ray's object store takes 30 % of the memory and lives here, beside NCCL's and the data loaders'
                # segments. What is used counts against the container's memory limit.
                "emptyDir": {"medium": "Memory", "sizeLimit": f"{resources.memory_mib // 2}Mi"},
            },
        ],
    }


def worker_probe() -> dict[str, Any]:
    """The raylet's health, from its agent."""
    return _probe("http://localhost:52365/api/local_raylet_healthz")


def head_probe() -> dict[str, Any]:
    """The health of the head's raylet and of the cluster's metadata store."""
    return _probe("http://localhost:52365/api/local_raylet_healthz", "http://localhost:8265/api/gcs_healthz")


def network_env(resources: Resources) -> dict[str, str]:
    """Environment of NCCL and libfabric for a worker with these resources."""
    env = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    if resources.efa:
        # Huge pages make os.fork() of data loaders fail, and would have to be requested.
        env["FI_EFA_USE_HUGE_PAGE"] = "0"
    return env


def one_worker_per_node() -> dict[str, Any]:
    """Pod anti-affinity of workers, for instance types where two would fit."""
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }


def prefer_deep_checked() -> dict[str, Any]:
    """Node affinity towards nodes whose deep health checks passed; only preferred, as a check can be running."""
    passed = {"key": labels.DEEP_HEALTH_LABEL, "operator": "In", "values": [labels.DEEP_HEALTH_PASSED]}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [passed]}}
        ]
    }


def _on_healthy_nodes() -> dict[str, Any]:
    schedulable = {"key": labels.NODE_HEALTH_LABEL, "operator": "In", "values": [labels.NODE_SCHEDULABLE]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [schedulable]}]}
    }


def _leave_after(seconds: int, condition: str) -> dict[str, Any]:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def _probe(*urls: str) -> dict[str, Any]:
    # One try each: wget repeats 20 times by default, longer than any probe (kuberay#3468).
    checks = " && ".join(f"wget --tries 1 -T 4 -q -O- {url} | grep -q success" for url in urls)
    timeout = 5 * len(urls)
    return {"exec": {"command": ["/bin/sh", "-c", checks]}, "periodSeconds": timeout, "timeoutSeconds": timeout}


def _amounts(resources: Resources) -> dict[str, str]:
    cpu, rest = divmod(resources.cpu_millis, 1000)
    return {
        "cpu": f"{resources.cpu_millis}m" if rest else str(cpu),
        "memory": f"{resources.memory_mib}Mi" if resources.memory_mib % 1024 else f"{resources.memory_mib // 1024}Gi",
        **{name: str(count) for name, count in resources.devices.items()},
    }
