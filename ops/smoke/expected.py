"""What the environment promises of a RayCluster's workers, and which pods there are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import kubernetes

from config import EksEnvironment
from config.facts.instance_types import catalogue
from ops.clients import REQUEST_TIMEOUT

_LABEL: Final = "ray.io/group"


@dataclass(frozen=True)
class ExpectedWorker:
    """A worker pod: its address, the GPUs and EFA interfaces that its pod should have, and its node's bandwidth."""

    pod: str
    node: str
    address: str
    gpus: int
    efa: int
    network_gbps: float | None = None
    """Nominal, of the instance type; None if it is unknown."""


@dataclass(frozen=True)
class Expected:
    """The workers of a RayCluster: those that have a pod, and how many it wants."""

    wanted: int
    workers: tuple[ExpectedWorker, ...]


def expected(environment: EksEnvironment, api: kubernetes.client.ApiClient, cluster: str) -> Expected:
    """Return what to expect of a RayCluster of the environment. Raises ApiException."""
    namespace = environment.ray.namespace
    found: Mapping[str, Any] = kubernetes.client.CustomObjectsApi(api).get_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayclusters", cluster, _request_timeout=REQUEST_TIMEOUT
    )
    groups = found["spec"].get("workerGroupSpecs", [])
    wanted = sum(int(group.get("replicas", 0)) * int(group.get("numOfHosts", 1)) for group in groups)
    selector = f"ray.io/cluster={cluster},ray.io/node-type=worker"
    pods = kubernetes.client.CoreV1Api(api).list_namespaced_pod(
        namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
    )
    devices = _devices(environment, cluster)
    return Expected(
        wanted,
        tuple(
            ExpectedWorker(
                pod.metadata.name,
                pod.spec.node_name,
                pod.status.pod_ip,
                *devices.get(pod.metadata.labels[_LABEL], (0, 0, None)),
            )
            for pod in pods.items
            if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        ),
    )


def _devices(environment: EksEnvironment, cluster: str) -> dict[str, tuple[int, int, float | None]]:
    """Return what a pod and its node have by worker group: what the file says, else what the instance type has."""
    [wanted] = [each for each in environment.ray.clusters if each.name == cluster]
    devices = {}
    for group in wanted.workers:
        kind = environment.instance_group(group.instance_group).type
        # A type has either GPUs or Neuron devices, which take no part.
        gpus = group.accelerators if kind.gpus and group.accelerators is not None else kind.gpus
        efa = kind.efa if group.efa is None else group.efa
        known = catalogue().get(kind.name)
        devices[group.name] = (gpus, efa, known.network_gbps if known else None)
    return devices
