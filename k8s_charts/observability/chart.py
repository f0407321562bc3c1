"""The chart of Prometheus and Grafana.

The stack applies it as a Helm release whose chart is an asset: dashboards and code are too long for a template.
"""

from typing import Final

from constructs import Construct

from k8s_charts.observability.grafana import grafana
from k8s_charts.observability.parts import Settings, add_parts
from k8s_charts.observability.prometheus import prometheus
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain

RELEASE: Final = "observability"

_NO_CPU_LIMIT: Final = {"CKV_K8S_11": "a query may take what is idle; memory and disk are limited"}
_EXCEPTIONS: Final = {
    "prometheus": {**_NO_CPU_LIMIT, **PULL_IF_ABSENT, **NEEDS_THE_API, **TAG_UNTIL_SETTLED},
    "grafana": _NO_CPU_LIMIT,
}


class ObservabilityChart(ProjectChart):
    """Prometheus with the exporter, and Grafana with the dashboards."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        for part, made in add_parts(self, (*prometheus(settings), *grafana(settings))):
            if part.kind == "Deployment":
                explain(made, _EXCEPTIONS[part.name])
