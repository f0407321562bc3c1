"""What `observability.in_cluster` runs on HyperPod nodes."""

from typing import Final

from config.facts.daemonsets import DaemonSet, NodeScope

DAEMONSETS: Final = (
    DaemonSet("dcgm-exporter", 100, 128, NodeScope.GPU, "dcgm-exporter 4.5.3-4.8.2, its chart's values.yaml"),
    DaemonSet("efa-exporter", 20, 64, NodeScope.EFA, "k8s_charts/in_cluster/efa_exporter.py"),
)
