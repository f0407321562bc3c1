"""The chart of Prometheus and Grafana, and of the exporters on nodes with GPUs and EFA.

The stack applies it as a Helm release whose chart is an asset: dashboards and code are too long for a template.
"""

from typing import Final

from constructs import Construct

from k8s_charts.in_cluster.efa_exporter import efa_exporter
from k8s_charts.in_cluster.gpu_exporter import gpu_exporter
from k8s_charts.in_cluster.grafana import grafana
from k8s_charts.in_cluster.parts import Settings, add_parts
from k8s_charts.in_cluster.prometheus import prometheus
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.names import DCGM_EXPORTER, EFA_EXPORTER

RELEASE: Final = "observability"

_NO_CPU_LIMIT: Final = {"CKV_K8S_11": "a query may take what is idle; memory and disk are limited"}
_NO_DELAY: Final = {"CKV_K8S_11": "a limit of CPU would delay every scrape; memory is limited"}
_EXCEPTIONS: Final = {
    "prometheus": {**_NO_CPU_LIMIT, **PULL_IF_ABSENT, **NEEDS_THE_API, **TAG_UNTIL_SETTLED},
    "grafana": _NO_CPU_LIMIT,
    EFA_EXPORTER: {**_NO_DELAY, **PULL_IF_ABSENT, **TAG_UNTIL_SETTLED},
    DCGM_EXPORTER: {
        **_NO_DELAY,
        **dict.fromkeys(
            ("CKV_K8S_25", "CKV_K8S_39"),
            "DCGM reads the GPUs' profiling counters only with SYS_ADMIN, without which newer nodes give it no GPU",
        ),
        **dict.fromkeys(("CKV_K8S_23", "CKV_K8S_40"), "the kubelet's socket, which names each GPU's pod, is root's"),
    },
}


class ObservabilityChart(ProjectChart):
    """Prometheus with the exporter, Grafana with the dashboards, and the exporters of GPUs and EFA."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        gpus = gpu_exporter(settings.gpus) if settings.gpus else ()
        efa = efa_exporter(settings.efa) if settings.efa else ()
        for part, made in add_parts(self, (*prometheus(settings), *grafana(settings), *gpus, *efa)):
            if part.kind in ("Deployment", "DaemonSet"):
                explain(made, _EXCEPTIONS[part.name])
