"""The objects of the exporter of EFA's counters (`controllers/in_cluster/efa_exporter.py`) on nodes with EFA.

It reads the node's sysfs: a container's own shows the devices without counters, because Linux gives those only to the
network namespace that the devices belong to (drivers/infiniband/core/sysfs.c, `setup_port`).
"""

from typing import Any, Final

from k8s_charts.controllers.code import POD_SECURITY, code_of, code_volume, python
from k8s_charts.in_cluster.node_exporter import NodeExporter
from k8s_charts.in_cluster.parts import ObservabilityObject, WatchedNodes
from k8s_charts.shared.flows import EFA_PODS
from k8s_charts.shared.names import EFA_EXPORTER, EFA_METRICS_NAMESPACE, METRICS_PORT

_EXPORTER: Final = NodeExporter(EFA_EXPORTER, EFA_METRICS_NAMESPACE, EFA_PODS, METRICS_PORT)
_MODULE: Final = "efa_exporter"
_SYS: Final = "/host/sys"
# A device is a link from the first into the second. The first exists on every node, its `infiniband` only beside a
# driver: the pod starts without one, and says so.
_FOLDERS: Final = ("class", "devices")


def efa_exporter(nodes: WatchedNodes) -> list[ObservabilityObject]:
    """Return the objects of the exporter."""
    pod = {
        "securityContext": POD_SECURITY,
        "containers": [_container(nodes)],
        "volumes": [
            code_volume(EFA_EXPORTER),
            *({"name": name, "hostPath": {"path": f"/sys/{name}", "type": "Directory"}} for name in _FOLDERS),
        ],
    }
    return _EXPORTER.objects(nodes, code_of(_MODULE), pod)


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
