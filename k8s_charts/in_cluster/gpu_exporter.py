"""The objects of NVIDIA's exporter (NVIDIA/dcgm-exporter 4.5.3-4.8.2) on nodes with GPUs.

It needs SYS_ADMIN for two reasons: DCGM reads the profiling counters only with it (the exporter's `capabilities.go`),
and NVIDIA's container toolkit gives the GPUs of a node to a pod that requests none only with it
(awslabs/amazon-eks-ami #2706). It needs root for the kubelet's socket, which says which pod uses which GPU.
"""

from collections.abc import Mapping
from typing import Any, Final

from k8s_charts.in_cluster.node_exporter import NodeExporter
from k8s_charts.in_cluster.parts import ObservabilityObject, WatchedNodes
from k8s_charts.shared.flows import DCGM_PODS
from k8s_charts.shared.names import DCGM_EXPORTER, DCGM_PORT, GPU_METRICS_NAMESPACE

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "Temperature of the GPU in degrees Celsius."),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "Temperature of its memory in degrees Celsius."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power in watts."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Memory in use in MiB."),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "Percent of the time in which a kernel ran."),
    "DCGM_FI_PROF_SM_ACTIVE": ("gauge", "Share of cycles in which a multiprocessor had work."),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Share of cycles in which the tensor cores had work."),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Share of cycles in which the memory was read or written."),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("gauge", "Bytes per second that the GPU sends over NVLink."),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("gauge", "Bytes per second that the GPU receives over NVLink."),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("counter", "Packets with a wrong checksum on NVLink."),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("counter", "Recoveries of an NVLink after errors."),
    "DCGM_EXP_CLOCK_EVENTS_COUNT": ("gauge", "Samples of the last five minutes with slower clocks for this reason."),
    "DCGM_EXP_XID_ERRORS_COUNT": ("gauge", "XID errors with this number in the last five minutes."),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("counter", "Corrected memory errors since the driver started."),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("counter", "Uncorrectable memory errors since the driver started."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "Rows of memory replaced after uncorrectable errors."),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", "Rows of memory replaced after corrected errors."),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "1 if a row of memory could not be replaced."),
}
"""Type and help text of each metric that a dashboard or an alert reads, by DCGM's name."""

_EXPORTER: Final = NodeExporter(DCGM_EXPORTER, GPU_METRICS_NAMESPACE, DCGM_PODS, DCGM_PORT)
_COUNTERS: Final = "counters.csv"
_FOLDER: Final = "/etc/ray-on-hyperpod"
_POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"
# The taint that the device plugin tolerates, too. The taint of deep health checks is not tolerated: NVIDIA's
# diagnostics then have a new node's GPUs for themselves. A fault later taints the node, but evicts no running pod.
_GPU_TAINT: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def gpu_exporter(nodes: WatchedNodes) -> list[ObservabilityObject]:
    """Return the objects of the exporter."""
    counters = {_COUNTERS: "".join(f"{name}, {kind}, {text}\n" for name, (kind, text) in METRICS.items())}
    pod = {
        "tolerations": [_GPU_TAINT, *nodes.tolerations],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(nodes)],
        "volumes": [
            {"name": "counters", "configMap": {"name": DCGM_EXPORTER}},
            {"name": "pod-resources", "hostPath": {"path": _POD_RESOURCES, "type": "Directory"}},
            {"name": "temporary", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "logs", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    return _EXPORTER.objects(nodes, counters, pod)


def _container(nodes: WatchedNodes) -> dict[str, Any]:
    health = {"path": "/health", "port": DCGM_PORT}
    return {
        "name": DCGM_EXPORTER,
        "image": nodes.image,
        # Without the host's name: Prometheus knows the node.
        "args": ["--no-hostname", "--collectors", f"{_FOLDER}/{_COUNTERS}"],
        "env": [
            {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
            {"name": "DCGM_EXPORTER_LISTEN", "value": f":{DCGM_PORT}"},
        ],
        "ports": [{"name": "metrics", "containerPort": DCGM_PORT}],
        # DCGM takes its time to start: the chart of the project waits 45 seconds, too.
        "startupProbe": {"httpGet": health, "periodSeconds": 10, "failureThreshold": 30},
        "readinessProbe": {"httpGet": health, "periodSeconds": 10},
        "livenessProbe": {"httpGet": health, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        },
        "volumeMounts": [
            {"name": "counters", "mountPath": _FOLDER, "readOnly": True},
            {"name": "pod-resources", "mountPath": _POD_RESOURCES, "readOnly": True},
            {"name": "temporary", "mountPath": "/tmp"},  # noqa: S108 - a folder of the container
            {"name": "logs", "mountPath": "/var/log"},
        ],
    }
