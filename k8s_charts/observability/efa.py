"""The objects of the exporter of EFA's counters (`controllers/observability/efa_exporter.py`) on nodes with EFA.

It reads the node's sysfs: a container's own shows the devices without counters, because Linux gives those only to the
network namespace that the devices belong to (drivers/infiniband/core/sysfs.c, `setup_port`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from config.labels import INSTANCE_GROUP_LABEL
from k8s_charts.controllers.code import POD_SECURITY, code_of, code_volume, digest, python
from k8s_charts.observability.parts import SERVES, Part, WatchedNodes
from k8s_charts.shared.flows import EFA_PODS
from k8s_charts.shared.names import EFA_EXPORTER, EFA_METRICS_NAMESPACE, METRICS_PORT

_MODULE: Final = "efa_exporter"
_SYS: Final = "/host/sys"
# A device is a link from the first into the second. The first exists on every node, its `infiniband` only beside a
# driver: the pod starts without one, and says so.
_FOLDERS: Final = ("class", "devices")


def efa_exporter(nodes: WatchedNodes) -> Iterator[Part]:
    """Yield the objects of the exporter."""
    code = code_of(_MODULE)
    yield _part("v1", "ServiceAccount", {"automountServiceAccountToken": False})
    yield _part("v1", "ConfigMap", {"data": code})
    labels = {**EFA_PODS, **SERVES}
    # Without an address: Prometheus discovers the pods, and `ops isolation-check` looks one up by name.
    ports = [{"name": "metrics", "port": METRICS_PORT, "targetPort": METRICS_PORT}]
    yield _part("v1", "Service", {"spec": {"clusterIP": "None", "selector": labels, "ports": ports}})
    metadata = {"labels": labels, "annotations": {"ray-on-hyperpod/configuration": digest(code)}}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": metadata, "spec": _pod(nodes)},
        # The exporters of a large cluster must not wait for each other: no job needs them.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
    }
    yield _part("apps/v1", "DaemonSet", {"spec": spec})


def _part(api_version: str, kind: str, body: Mapping[str, Any]) -> Part:
    return Part(api_version, kind, EFA_EXPORTER, body, EFA_METRICS_NAMESPACE)


def _pod(nodes: WatchedNodes) -> dict[str, Any]:
    in_groups = {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": list(nodes.groups)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [in_groups]}]}
    return {
        "serviceAccountName": EFA_EXPORTER,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": list(nodes.tolerations),
        "securityContext": POD_SECURITY,
        "containers": [_container(nodes)],
        "volumes": [
            code_volume(EFA_EXPORTER),
            *({"name": name, "hostPath": {"path": f"/sys/{name}", "type": "Directory"}} for name in _FOLDERS),
        ],
    }


def _container(nodes: WatchedNodes) -> dict[str, Any]:
    program = python(_MODULE)
    health = {"path": "/healthz", "port": METRICS_PORT}
    return {
        "name": EFA_EXPORTER,
        "image": nodes.image,
        **program,
        "args": [f"--sys={_SYS}", f"--listen=:{METRICS_PORT}"],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "readinessProbe": {"httpGet": health, "periodSeconds": 10},
        "livenessProbe": {"httpGet": health, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [
            *program["volumeMounts"],
            *({"name": name, "mountPath": f"{_SYS}/{name}", "readOnly": True} for name in _FOLDERS),
        ],
    }
