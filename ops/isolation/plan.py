"""What `ops isolation-check` tries: from which pods, to what, and what must come of it.

A pod for each place from where somebody could try, and in it a container for each connection, whose exit code is the
answer: nothing has to be read but the pod's status. Each pod is a Job's, for two reasons: the VPC CNI applies policies
to pods that have an owner only (EKS user guide, network policies), and Kubernetes removes a finished Job by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from config import Environment
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.shared.names import (
    CHECKPOINTS_HOST,
    CHECKPOINTS_PORT,
    CLIENT_PORT,
    DASHBOARD_PORT,
    GCS_PORT,
    IMAGE_BUILD_NAMESPACE,
    JOB_MONITORING_PORT,
    METRICS_PORT,
    OBSERVABILITY_NAMESPACE,
    RAY_NODE,
    SUBMITTER_LABEL,
)
from ops.isolation import probe

SUBMITTER: Final = "submitter"
LABEL: Final = {"app.kubernetes.io/name": "isolation-check"}
# Of a finished Job that nobody removed: a laptop that was closed.
_FORGOTTEN_SECONDS: Final = 300
_PROGRAM: Final = Path(probe.__file__)
# Each runs what it is sent.
_HEAD_PORTS: Final = (DASHBOARD_PORT, GCS_PORT, CLIENT_PORT)
# Any that is nobody's on the nodes.
_USER: Final = 65532


@dataclass(frozen=True)
class Connection:
    """A connection from `origin` to `host`, called `target`, and whether it must be `open` or must not."""

    origin: str
    target: str
    host: str
    port: int
    open: bool

    @property
    def container(self) -> str:
        """Name of the container that tries it."""
        return f"{self.target}-{self.port}".replace(".", "-")


@dataclass(frozen=True)
class Origin:
    """A pod of `namespace` that tries `connections`, called `name`: nobody's, but for its `labels`."""

    name: str
    namespace: str
    connections: tuple[Connection, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    """Addresses of a RayCluster's head pod and of the node that it runs on."""

    address: str
    node: str


def plan(environment: Environment, heads: Mapping[str, Head]) -> list[Origin]:
    """Return what is tried; `heads` are the RayClusters' by the RayCluster's name.

    That a RayCluster's own pods reach its head, their readiness shows.
    """
    ray = environment.ray.namespace
    places = {"pod-beside-ray": ray, "pod-elsewhere": "default"}
    if environment.image.built:
        places["image-build"] = IMAGE_BUILD_NAMESPACE
    strangers = [
        Origin(name, namespace, tuple(_to_heads(name, heads, open_ports=()))) for name, namespace in places.items()
    ]
    own = (
        *_to_heads(SUBMITTER, heads, open_ports=(DASHBOARD_PORT,)),
        # By its name: that of DNS, too.
        Connection(SUBMITTER, "kubernetes", "kubernetes.default.svc.cluster.local", 443, open=True),
        Connection(SUBMITTER, "instance-metadata", "169.254.169.254", 80, open=False),
    )
    return [Origin(SUBMITTER, ray, own, {SUBMITTER_LABEL: "true"}), *strangers, *_aws_ray(environment, heads)]


def _aws_ray(environment: Environment, heads: Mapping[str, Head]) -> Iterator[Origin]:
    """Yield those that AWS's features for Ray need, where they are on."""
    on, name = environment.aws_ray, "pod-of-ray"
    # Without `ray.io/cluster`: no RayCluster's Service or policy takes the pod for its own.
    out = [
        Connection(name, f"{cluster}-node", head.node, JOB_MONITORING_PORT, open=True)
        for cluster, head in heads.items()
        if on.hang_detection
    ]
    if on.tiered_checkpoints:
        out.append(Connection(name, "checkpoints", CHECKPOINTS_HOST, CHECKPOINTS_PORT, open=True))
    if out:
        yield Origin(name, environment.ray.namespace, tuple(out), RAY_NODE)
    if on.metrics:
        collector = "metrics-collector"
        tried = _to_heads(collector, heads, ports=(METRICS_PORT, *_HEAD_PORTS), open_ports=(METRICS_PORT,))
        yield Origin(collector, OBSERVABILITY_NAMESPACE, tuple(tried))


def job(origin: Origin, *, name: str, image: str, settle: float, timeout: float) -> dict[str, Any]:
    """Return the Job of an origin: no token, no root, nothing writable, gone by itself; times in seconds."""
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
    origin: str, heads: Mapping[str, Head], *, open_ports: tuple[int, ...], ports: tuple[int, ...] = _HEAD_PORTS
) -> list[Connection]:
    return [
        Connection(origin, f"{cluster}-head", head.address, port, open=port in open_ports)
        for cluster, head in heads.items()
        for port in ports
    ]


def _container(connection: Connection, image: str, settle: float) -> dict[str, Any]:
    env = {"HOST": connection.host, "PORT": str(connection.port), "SETTLE": str(settle)}
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
