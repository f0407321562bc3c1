"""The pod templates of Ray's head and workers, as plain mappings that a RayCluster embeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from config import labels
from config.facts.capacity import NodeResources
from config.model import ClaimVolume, SecretVariable, Taint
from k8s_charts.shared.names import (
    GRAFANA_SERVICE,
    PROMETHEUS_NAMESPACE,
    PROMETHEUS_PORT,
    PROMETHEUS_SERVICE,
    RAY_SERVICE_ACCOUNT,
)
from k8s_charts.shared.tolerations import tolerations

# The user and group `ray` of the rayproject/ray images (ray-project/ray: docker/base-deps/Dockerfile).
RAY_USER: Final = 1000
RAY_GROUP: Final = 100

# What `restricted` requires of every container in addition to the pod's settings.
CONTAINER_SECURITY: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

# How long a Ray pod stays on a lost node; Kubernetes' default is five minutes.
LOST_NODE_SECONDS: Final = 30
# How long a worker may be not Ready while its node and its head are. Ray's own processes give up a head that is gone
# after 60 s. Before the liveness probe ends the worker 600 s after its first failure, its runs have time to save.
UNWELL_SECONDS: Final = 240
# Longer than the 16 seconds that `ray stop` gives Ray's processes.
GRACE_SECONDS: Final = 30

# Addresses for the dashboard's charts, with the release names of the walkthrough's kube-prometheus stack. The browser
# reaches Grafana through a port-forward.
DASHBOARD_ENV: Final = {
    "RAY_GRAFANA_IFRAME_HOST": "http://localhost:3000",
    "RAY_GRAFANA_HOST": f"http://{GRAFANA_SERVICE}.{PROMETHEUS_NAMESPACE}.svc:80",
    "RAY_PROMETHEUS_HOST": f"http://{PROMETHEUS_SERVICE}.{PROMETHEUS_NAMESPACE}.svc:{PROMETHEUS_PORT}",
}


@dataclass(frozen=True)
class Placement:
    """Nodes of `instance_group` that also have the labels in `node_selector`; the pods tolerate `taints`.

    The groups of `stand_ins` take the pods, too, if `instance_group` has no node for them.
    """

    instance_group: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    stand_ins: tuple[str, ...] = ()

    def selector(self) -> dict[str, str]:
        """Return the pods' `nodeSelector`."""
        own = {} if self.stand_ins else {labels.INSTANCE_GROUP_LABEL: self.instance_group}
        return {**self.node_selector, **own}

    def affinity(self) -> dict[str, Any]:
        """Return the pods' `nodeAffinity`: healthy nodes, and of several groups the first ones."""
        schedulable = _in(labels.NODE_HEALTH_LABEL, labels.NODE_SCHEDULABLE)
        if not self.stand_ins:
            return {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [schedulable]}]}}
        groups = (self.instance_group, *self.stand_ins)
        either = [schedulable, _in(labels.INSTANCE_GROUP_LABEL, *groups)]
        order = [
            _preference(max(100 - 10 * n, 1), _in(labels.INSTANCE_GROUP_LABEL, group)) for n, group in enumerate(groups)
        ]
        return {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": either}]}, _PREFERRED: order}


@dataclass(frozen=True)
class Common:
    """What all pods of a RayCluster share: they run `image` and mount `claim` at `mount_path`.

    `node_address` is the name of the variable with the address of the pod's node.
    """

    image: str
    claim: str
    mount_path: str
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretVariable] = ()
    volumes: Sequence[ClaimVolume] = ()
    priority_class: str | None = None
    node_address: str | None = None

    def variables(self, env: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return a container's `env`: `env` has the variables of its role, which the RayCluster's own override."""
        plain = {**env, **self.env}
        taken = {*plain, *(secret.env for secret in self.secrets)}
        node = [] if self.node_address is None or self.node_address in taken else [_address(self.node_address)]
        return [*_plain(plain), *map(_from_secret, self.secrets), *node]


def pod(
    common: Common,
    place: Placement,
    *,
    name: str,
    resources: NodeResources,
    probe: Mapping[str, Any],
    env: Mapping[str, str],
) -> dict[str, Any]:
    """Return the pod spec of a head or a worker, with the variables of its role; it meets the `restricted` level."""
    further = [(f"claim-{n}", volume) for n, volume in enumerate(common.volumes)]
    amounts = _amounts(resources)
    container = {
        "name": name,
        "image": common.image,
        "imagePullPolicy": "IfNotPresent",
        "env": common.variables({**_no_gpus(resources), **env}),
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": CONTAINER_SECURITY,
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        # KubeRay's own probes time out after 2 seconds, which a busy head exceeds (kuberay#2353). With these probes
        # KubeRay adds none.
        "readinessProbe": {**probe, "initialDelaySeconds": 10, "failureThreshold": 10},
        "livenessProbe": {**probe, "initialDelaySeconds": 30, "failureThreshold": 120},
        "volumeMounts": [
            {"name": "fsx-storage", "mountPath": common.mount_path},
            {"name": "ray-logs", "mountPath": "/tmp/ray"},  # noqa: S108  in the pod
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108  in the pod
            *(_mount(name, volume) for name, volume in further),
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
        # If a container ends, its pod is Failed and KubeRay replaces it, on another node if necessary. A restart in
        # place would retry on a node that may be unhealthy.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        **({"priorityClassName": common.priority_class} if common.priority_class else {}),
        "nodeSelector": place.selector(),
        "affinity": {"nodeAffinity": place.affinity()},
        "tolerations": [
            *(_leave_after(LOST_NODE_SECONDS, condition) for condition in ("not-ready", "unreachable")),
            *tolerations(place.taints),
        ],
        "containers": [container],
        "volumes": [
            {"name": "fsx-storage", "persistentVolumeClaim": {"claimName": common.claim}},
            {"name": "ray-logs", "emptyDir": {}},
            {
                "name": "shared-memory",
                # Ray's object store takes 30 % of the memory and is here, like the segments of NCCL and the data
                # loaders. Used space counts against the container's memory limit.
                "emptyDir": {"medium": "Memory", "sizeLimit": f"{resources.memory_mib // 2}Mi"},
            },
            *({"name": name, "persistentVolumeClaim": {"claimName": volume.claim}} for name, volume in further),
        ],
    }


def worker_probe() -> dict[str, Any]:
    """Return a probe of the raylet's health, which its agent reports."""
    return _probe("http://localhost:52365/api/local_raylet_healthz")


def head_probe() -> dict[str, Any]:
    """Return a probe of the head's raylet and of the cluster's metadata store."""
    return _probe("http://localhost:52365/api/local_raylet_healthz", "http://localhost:8265/api/gcs_healthz")


def network_env(resources: NodeResources) -> dict[str, str]:
    """Return the variables of NCCL and libfabric for a worker with these resources."""
    env = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    if resources.efa:
        # With huge pages the os.fork() of data loaders fails; the pod would also have to request them.
        env["FI_EFA_USE_HUGE_PAGE"] = "0"
    return env


def one_worker_per_node() -> dict[str, Any]:
    """Return a pod anti-affinity between workers, for instance types on which two would fit."""
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }


def prefer_deep_checked(affinity: dict[str, Any]) -> None:
    """Add a preference for nodes whose deep health checks passed; no requirement, as a check may be running."""
    passed = _in(labels.DEEP_HEALTH_LABEL, labels.DEEP_HEALTH_PASSED)
    affinity.setdefault(_PREFERRED, []).append(_preference(100, passed))


def _plain(env: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in env.items()]


def _no_gpus(resources: NodeResources) -> dict[str, str]:
    """Return the variable that keeps GPUs out of a container without any.

    HyperPod's AMI injects all GPUs of the node into every container of a CUDA image, and fails if the node has none.
    """
    return {} if resources.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}


def _from_secret(variable: SecretVariable) -> dict[str, Any]:
    return {"name": variable.env, "valueFrom": {"secretKeyRef": {"name": variable.secret, "key": variable.key}}}


def _address(variable: str) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


def _mount(name: str, volume: ClaimVolume) -> dict[str, Any]:
    return {"name": name, "mountPath": volume.mount_path, **({"readOnly": True} if volume.read_only else {})}


def _preference(weight: int, expression: Mapping[str, Any]) -> dict[str, Any]:
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def _in(label: str, *values: str) -> dict[str, Any]:
    return {"key": label, "operator": "In", "values": list(values)}


def _leave_after(seconds: int, condition: str) -> dict[str, Any]:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def _probe(*urls: str) -> dict[str, Any]:
    # One attempt each: wget makes 20 by default, which takes longer than any probe (kuberay#3468).
    checks = " && ".join(f"wget --tries 1 -T 4 -q -O- {url} | grep -q success" for url in urls)
    timeout = 5 * len(urls)
    return {"exec": {"command": ["/bin/sh", "-c", checks]}, "periodSeconds": timeout, "timeoutSeconds": timeout}


def _amounts(resources: NodeResources) -> dict[str, str]:
    cpu, rest = divmod(resources.cpu_millis, 1000)
    return {
        "cpu": f"{resources.cpu_millis}m" if rest else str(cpu),
        "memory": f"{resources.memory_mib}Mi" if resources.memory_mib % 1024 else f"{resources.memory_mib // 1024}Gi",
        **{name: str(count) for name, count in resources.devices.items()},
    }
