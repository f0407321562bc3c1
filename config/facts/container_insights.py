"""What Container Insights runs on HyperPod nodes."""

from typing import Final

from config.facts.daemonsets import DaemonSet, NodeScope

_SOURCE: Final = "EKS add-on amazon-cloudwatch-observability (aws-observability/helm-charts, its expected objects)"

DAEMONSETS: Final = (
    DaemonSet("cloudwatch-agent", 250, 128, NodeScope.ALL, _SOURCE),
    DaemonSet("fluent-bit", 400, 250, NodeScope.ALL, _SOURCE),
    DaemonSet("dcgm-exporter", 250, 128, NodeScope.GPU, _SOURCE),
    DaemonSet("neuron-monitor", 256, 128, NodeScope.NEURON, _SOURCE),
)
