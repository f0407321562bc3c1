"""Write the tables of docs/operate/observe.md: every query and every alert, with the source that feeds each."""

from collections.abc import Iterator
from typing import Final

from k8s_charts.in_cluster.alerts import ALERTS, RUNBOOK, Alert
from k8s_charts.in_cluster.dashboards import DASHBOARDS
from k8s_charts.in_cluster.sources import metrics, source
from ops.environment.generated import between, cell

_BEGIN: Final = "<!-- begin: queries and alerts, by `ops schema` -->"
_END: Final = "<!-- end: queries and alerts -->"


def tables() -> Iterator[str]:
    """Yield the lines of the two tables."""
    yield from ("| alert | fires if | for | fed by |", "|---|---|---|---|")
    for alert in ALERTS:
        linked = f"[{alert.name}]({_page(alert)}#{alert.anchor})"
        yield (f"| {linked} | `{cell(alert.expression)}` | {alert.seconds // 60} min | {_sources(alert.expression)} |")
    yield from ("", "| dashboard | panel | query | fed by |", "|---|---|---|---|")
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                asked = query.expression
                yield f"| {dashboard.title} | {panel.title} | `{cell(asked)}` | {_sources(asked)} |"


def with_tables(page: str) -> str:
    """Return the page with the current tables between its two markers. Raises ValueError if it lacks them."""
    return between(page, _BEGIN, _END, tables())


def _sources(expression: str) -> str:
    return "; ".join(dict.fromkeys(source(metric) for metric in metrics(expression)))


def _page(alert: Alert) -> str:
    return "" if alert.page == RUNBOOK else alert.page.rpartition("/")[2]
