"""Plan `ops isolation-check`: which pods connect to which targets, and the expected results.

Each origin is a pod, and each of its connections a container whose exit code is the result: reading the pod's status is
enough. Each pod belongs to a Job, for two reasons: the VPC CNI applies policies only to pods with an owner (EKS user
guide, network policies), and Kubernetes removes a finished Job automatically.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from config import EksEnvironment, Environment
from config.model import port_of
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.shared.flows import PROMETHEUS_PODS, enabled
from k8s_charts.shared.names import (
    ALERTMANAGER,
    ALERTMANAGER_PORT,
    CHECKPOINTS_HOST,
    CHECKPOINTS_PORT,
    CLIENT_PORT,
    DASHBOARD_PORT,
    DCGM_EXPORTER,
    DCGM_PORT,
    EFA_EXPORTER,
    EFA_METRICS_NAMESPACE,
    GCS_PORT,
    GPU_METRICS_NAMESPACE,
    IMAGE_BUILD_NAMESPACE,
    METRICS_PORT,
    PROMETHEUS_NAMESPACE,
    PROMETHEUS_PORT,
    PROMETHEUS_SERVICE,
    RAY_NODE,
    SUBMITTER_LABEL,
)
from ops.isolation import probe

SUBMITTER: Final = "submitter"
LABEL: Final = {"app.kubernetes.io/name": "isolation-check"}
# Kubernetes removes a finished Job after this time if `ops` could not, such as on a closed laptop.
_FORGOTTEN_SECONDS: Final = 300
_PROGRAM: Final = Path(probe.__file__)
# Each of these ports runs the code that it receives.
_HEAD_PORTS: Final = (DASHBOARD_PORT, GCS_PORT, CLIENT_PORT)
PROMETHEUS_HOST: Final = f"{PROMETHEUS_SERVICE}.{PROMETHEUS_NAMESPACE}.svc.cluster.local"
GPU_EXPORTER_HOST: Final = f"{DCGM_EXPORTER}.{GPU_METRICS_NAMESPACE}.svc.cluster.local"
EFA_EXPORTER_HOST: Final = f"{EFA_EXPORTER}.{EFA_METRICS_NAMESPACE}.svc.cluster.local"
ALERTMANAGER_HOST: Final = f"{ALERTMANAGER}.{PROMETHEUS_NAMESPACE}.svc.cluster.local"
# A user id that no user of the nodes has.
_USER: Final = 65532


@dataclass(frozen=True)
class Connection:
    """A connection from `origin` to `host` (shown as `target`); `open` says whether it must succeed or fail.

    With `token`, what listens must refuse a request that has none.
    """

    origin: str
    target: str
    host: str
    port: int
    open: bool
    token: bool = False

    @property
    def container(self) -> str:
        """The name of the container that tries the connection."""
        return f"{self.target}-{self.port}".replace(".", "-")


@dataclass(frozen=True)
class Origin:
    """A probe pod in `namespace` that tries `connections`. Only its `labels` give it an identity."""

    name: str
    namespace: str
    connections: tuple[Connection, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


def plan(environment: EksEnvironment, heads: Mapping[str, str]) -> list[Origin]:
    """Return the probe pods; `heads` maps each RayCluster's name to its head's address.

    No probe tests whether a RayCluster's own pods reach its head: their readiness shows it.
    """
    ray = environment.ray.namespace
    places = {"pod-beside-ray": ray, "pod-elsewhere": "default"}
    if environment.image.built:
        places["image-build"] = IMAGE_BUILD_NAMESPACE
    strangers = [
        Origin(name, namespace, (*_to_heads(name, heads, open_ports=()), *_to_monitoring(name, environment)))
        for name, namespace in places.items()
    ]
    guarded = {cluster.name for cluster in environment.ray.clusters if cluster.wants_token}
    own = (
        *_to_heads(SUBMITTER, heads, open_ports=(DASHBOARD_PORT,), guarded=guarded),
        # By host name, which tests DNS too.
        Connection(SUBMITTER, "kubernetes", "kubernetes.default.svc.cluster.local", 443, open=True),
        Connection(SUBMITTER, "instance-metadata", "169.254.169.254", 80, open=False),
    )
    return [
        Origin(SUBMITTER, ray, own, {SUBMITTER_LABEL: "true"}),
        *strangers,
        *_pod_of_ray(environment),
        *_prometheus(environment, heads),
    ]


def _pod_of_ray(environment: EksEnvironment) -> Iterator[Origin]:
    """Yield the probe pod for what the environment lets only Ray's pods reach."""
    # Without the label `ray.io/cluster`, no RayCluster's Service or policy selects the pod.
    name, out = "pod-of-ray", []
    if enabled("tiered_checkpoints", environment):
        out.append(Connection(name, "checkpoints", CHECKPOINTS_HOST, CHECKPOINTS_PORT, open=True))
    if enabled("mlflow", environment):
        server = urlsplit(str(environment.mlflow))
        out.append(Connection(name, "mlflow", str(server.hostname), port_of(server.geturl()), open=True))
    if out:
        yield Origin(name, environment.ray.namespace, tuple(out), RAY_NODE)


def _prometheus(environment: EksEnvironment, heads: Mapping[str, str]) -> Iterator[Origin]:
    """Yield the probe pod that has Prometheus' label, if the environment installs Prometheus."""
    if environment.observability.in_cluster:
        name = "prometheus"
        tried = _to_heads(name, heads, ports=(METRICS_PORT, *_HEAD_PORTS), open_ports=(METRICS_PORT,))
        tried += _to_exporters(name, environment, reachable=True)
        tried += _to_alertmanager(name, environment, reachable=True)
        yield Origin(name, PROMETHEUS_NAMESPACE, tuple(tried), PROMETHEUS_PODS)


def _to_monitoring(origin: str, environment: EksEnvironment) -> Iterator[Connection]:
    if environment.observability.in_cluster:
        yield Connection(origin, "prometheus", PROMETHEUS_HOST, PROMETHEUS_PORT, open=False)
    yield from _to_exporters(origin, environment, reachable=False)
    yield from _to_alertmanager(origin, environment, reachable=False)


def _to_exporters(origin: str, environment: EksEnvironment, *, reachable: bool) -> Iterator[Connection]:
    # Without a node there is no exporter.
    if any(group.count for group in environment.observed_gpu_groups):
        yield Connection(origin, "gpu-exporter", GPU_EXPORTER_HOST, DCGM_PORT, open=reachable)
    if any(group.count for group in environment.observed_efa_groups):
        yield Connection(origin, "efa-exporter", EFA_EXPORTER_HOST, METRICS_PORT, open=reachable)


def _to_alertmanager(origin: str, environment: Environment, *, reachable: bool) -> Iterator[Connection]:
    if environment.alertmanager:
        yield Connection(origin, ALERTMANAGER, ALERTMANAGER_HOST, ALERTMANAGER_PORT, open=reachable)


def job(origin: Origin, *, name: str, image: str, settle: float, timeout: float) -> dict[str, Any]:
    """Return the Job of an origin: no token, no root, read-only, removed automatically. Times are in seconds."""
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": on_system_nodes(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(connection, image, settle) for connection in origin.connections],
    }
    labels = {**LABEL, **origin.labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": origin.namespace, "labels": dict(LABEL)},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(timeout),
            "ttlSecondsAfterFinished": _FORGOTTEN_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _to_heads(
    origin: str,
    heads: Mapping[str, str],
    *,
    open_ports: tuple[int, ...],
    ports: tuple[int, ...] = _HEAD_PORTS,
    guarded: Collection[str] = (),
) -> list[Connection]:
    return [
        Connection(origin, f"{cluster}-head", head, port, port in open_ports, port in open_ports and cluster in guarded)
        for cluster, head in heads.items()
        for port in ports
    ]


def _container(connection: Connection, image: str, settle: float) -> dict[str, Any]:
    env = {"HOST": connection.host, "PORT": str(connection.port), "SETTLE": str(settle)}
    if connection.token:
        env["TOKEN"] = "wanted"  # noqa: S105 - a switch
    return {
        "name": connection.container,
        "image": image,
        "command": ["python", "-c", _PROGRAM.read_text()],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": {"requests": {"cpu": "10m", "memory": "24Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
