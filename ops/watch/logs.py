"""Say where logs are: those of pods behind the Kubernetes API, those of nodes in HyperPod's CloudWatch log group."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from config import EksEnvironment
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE, JOB_SUPERVISOR, REAPER, SLEEPER

Say = Callable[[str], None]


class LogSource(StrEnum):
    """Whose logs."""

    HEAD = "head"
    WORKER = "worker"
    REAPER = "reaper"
    SLEEPER = "sleeper"
    SUPERVISOR = "supervisor"
    IMAGE_BUILD = "image-build"
    LIFECYCLE = "lifecycle"
    HEALTH = "health"


class NoLogsError(Exception):
    """There is nothing to print; the message says why and what to do."""


@dataclass(frozen=True)
class Pods:
    """The pods whose logs are printed: those of a namespace with these labels; `container` "" means all of a pod."""

    namespace: str
    selector: str
    container: str = ""


STREAMS: Final = {
    LogSource.LIFECYCLE: ("LifecycleConfig/",),
    LogSource.HEALTH: ("SagemakerHealthMonitoringAgent/", "DeepHealthCheckResults/"),
}
"""Prefixes of HyperPod's log streams (AWS docs: sagemaker-hyperpod-eks-cluster-observability)."""

_CONTROLLERS: Final = {LogSource.REAPER: REAPER, LogSource.SLEEPER: SLEEPER}
_RAY_CONTAINERS: Final = {LogSource.HEAD: "ray-head", LogSource.WORKER: "ray-worker"}


def pods_of(environment: EksEnvironment, source: LogSource, cluster: str | None) -> Pods:
    """Return the pods of a source that is no part of HyperPod; `cluster` None means every RayCluster."""
    ray = environment.ray.namespace
    if source in _RAY_CONTAINERS:
        of_cluster = f"ray.io/cluster={cluster}" if cluster else "ray.io/cluster"
        return Pods(ray, f"{of_cluster},ray.io/node-type={source}", _RAY_CONTAINERS[source])
    if source in _CONTROLLERS:
        return Pods(environment.kuberay.namespace, f"app.kubernetes.io/name={_CONTROLLERS[source]}")
    if source is LogSource.SUPERVISOR:
        return Pods(ray, f"app.kubernetes.io/name={JOB_SUPERVISOR}")
    return Pods(IMAGE_BUILD_NAMESPACE, "batch.kubernetes.io/job-name")


def log_group(cluster: Any) -> str:
    """Return the log group of a HyperPod cluster, from DescribeCluster's answer."""
    return f"/aws/sagemaker/Clusters/{cluster['ClusterName']}/{cluster['ClusterArn'].rpartition('/')[2]}"
