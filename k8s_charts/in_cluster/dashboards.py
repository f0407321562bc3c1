"""Grafana's dashboards, written in Python and rendered as small JSON.

A dashboard's source of data is the provisioned one. The panels of RAY have the ids that Ray's own dashboard embeds, so
that it shows them (ray 2.42.1: dashboard/modules/metrics/dashboards/default_dashboard_panels.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from config.estimates.costs import prices
from k8s_charts.in_cluster.hardware_panels import EFA_PANELS, GPU_PANELS
from k8s_charts.in_cluster.scrape import CLUSTER_LABEL, EVERY_SECONDS

# Rows of two panels on Grafana's grid of 24 columns.
_WIDTH: Final = 12
_HEIGHT: Final = 8
_CLUSTER: Final = f'{CLUSTER_LABEL}=~"$cluster"'
_SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}


@dataclass(frozen=True)
class Query:
    """A PromQL expression and the legend of its series."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """A chart of queries in one of Grafana's units; with `now` their present values as numbers. `note` explains it."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    id: int
    note: str = ""
    now: bool = False


@dataclass(frozen=True)
class GrafanaDashboard:
    """A page of panels; `choice` is the label whose values its visitor can choose from, of the series `of`."""

    uid: str
    title: str
    choice: str
    of: str
    panels: tuple[Panel, ...]


def _panel(id: int, title: str, unit: str, *queries: tuple[str, str], note: str = "", now: bool = False) -> Panel:
    return Panel(title, unit, tuple(Query(expression, legend) for expression, legend in queries), id, note, now)


RAY: Final = GrafanaDashboard(
    uid="rayDefaultDashboard",
    title="Ray",
    choice="cluster",
    of=f'label_values(up{{job="ray"}}, {CLUSTER_LABEL})',
    panels=(
        _panel(24, "Nodes", "short", (f'count by (node_type) (up{{job="ray",{_CLUSTER}}} == 1)', "{{node_type}}")),
        _panel(26, "Tasks by state", "short", (f"sum by (State) (ray_tasks{{{_CLUSTER}}})", "{{State}}")),
        _panel(
            33, "Actors by state", "short", (f'sum by (State) (ray_actors{{Source="gcs",{_CLUSTER}}})', "{{State}}")
        ),
        _panel(
            27, "CPUs (logical)", "short", (f'sum by (State) (ray_resources{{Name="CPU",{_CLUSTER}}})', "{{State}}")
        ),
        _panel(
            28, "GPUs (logical)", "short", (f'sum by (State) (ray_resources{{Name="GPU",{_CLUSTER}}})', "{{State}}")
        ),
        _panel(
            29, "Object store", "bytes", (f"sum by (Location) (ray_object_store_memory{{{_CLUSTER}}})", "{{Location}}")
        ),
        _panel(2, "CPU of each node", "percent", (f"ray_node_cpu_utilization{{{_CLUSTER}}}", "{{node}}")),
        _panel(
            4,
            "Memory of each node",
            "percentunit",
            (f"ray_node_mem_used{{{_CLUSTER}}} / ray_node_mem_total{{{_CLUSTER}}}", "{{node}}"),
        ),
        _panel(8, "Each GPU", "percent", (f"ray_node_gpus_utilization{{{_CLUSTER}}}", "{{node}} {{GpuIndex}}")),
        _panel(
            18,
            "Memory of each GPU",
            "bytes",
            # Ray counts MiB.
            (f"ray_node_gram_used{{{_CLUSTER}}} * 1024 * 1024", "{{node}} {{GpuIndex}}"),
        ),
        _panel(
            6,
            "Disk of each node",
            "percentunit",
            (
                f"ray_node_disk_usage{{{_CLUSTER}}}"
                f" / (ray_node_disk_usage{{{_CLUSTER}}} + ray_node_disk_free{{{_CLUSTER}}})",
                "{{node}}",
            ),
        ),
        _panel(
            20,
            "Network of each node",
            "Bps",
            (f"ray_node_network_receive_speed{{{_CLUSTER}}}", "{{node}} receives"),
            (f"ray_node_network_send_speed{{{_CLUSTER}}}", "{{node}} sends"),
        ),
    ),
)

_RUN: Final = 'run=~"$run"'

JOBS: Final = GrafanaDashboard(
    uid="jobs",
    title="Jobs",
    choice="run",
    of="label_values(ray_run_trains, run)",
    panels=(
        _panel(1, "Trains (1) or waits (0)", "short", (f"ray_run_trains{{{_RUN}}}", "{{run}}")),
        _panel(2, "Step", "short", (f"ray_run_step{{{_RUN}}}", "{{run}}")),
        _panel(3, "Steps per second", "short", (f"ray_run_steps_per_second{{{_RUN}}}", "{{run}}")),
        _panel(4, "Goodput", "percentunit", (f"ray_run_goodput_ratio{{{_RUN}}}", "{{run}}")),
        _panel(
            5,
            "Age of the last checkpoint",
            "s",
            (f"time() - ray_run_checkpoint_timestamp_seconds{{{_RUN}}}", "{{run}}"),
        ),
        _panel(6, "Failures without progress", "short", (f"ray_run_failures_without_progress{{{_RUN}}}", "{{run}}")),
        _panel(7, "Loss", "short", (f"ray_training_loss{{{_RUN}}}", "{{run}}")),
        _panel(8, "Tokens per second", "short", (f"ray_training_tokens_per_second{{{_RUN}}}", "{{run}}")),
        _panel(
            9,
            "Time of worker 0 in the last interval",
            "s",
            (f"sum by (run, part) (ray_training_interval_seconds{{{_RUN}}})", "{{run}} {{part}}"),
        ),
        _panel(10, "MFU", "percentunit", (f"ray_training_mfu_ratio{{{_RUN}}}", "{{run}}")),
        _panel(
            11,
            "Attempts that each supervisor submitted",
            "short",
            ("sum by (pod) (job_supervisor_submissions_total)", "{{pod}}"),
        ),
    ),
)

_GROUP: Final = 'instance_group=~"$group"'

NODES: Final = GrafanaDashboard(
    uid="nodes",
    title="HyperPod nodes",
    choice="group",
    of="label_values(hyperpod_node_ready, instance_group)",
    panels=(
        _panel(
            1,
            "Ready nodes",
            "short",
            (f"sum by (instance_group) (hyperpod_node_ready{{{_GROUP}}})", "{{instance_group}} ready"),
            (f"count by (instance_group) (hyperpod_node_ready{{{_GROUP}}})", "{{instance_group}} all"),
        ),
        _panel(
            2,
            "Nodes by health",
            "short",
            (f"count by (status) (hyperpod_node_schedulable{{{_GROUP}}})", "{{status}}"),
        ),
        _panel(
            3,
            "Nodes by deep health check",
            "short",
            (f"count by (status) (hyperpod_node_deep_health_check{{{_GROUP}}})", "{{status}}"),
        ),
        _panel(4, "Ray pods on lost nodes", "short", ("max(ray_reaper_stuck_pods)", "stuck")),
        _panel(
            5,
            "Pods that the reaper deleted",
            "short",
            ("sum by (action) (increase(ray_reaper_deletions_total[1h]))", "{{action}} in an hour"),
        ),
        _panel(6, "Pods that answer Prometheus", "short", ("sum by (job) (up)", "{{job}}")),
    ),
)

GPUS: Final = GrafanaDashboard(
    uid="gpus",
    title="GPUs",
    choice="group",
    of="label_values(DCGM_FI_DEV_GPU_TEMP, instance_group)",
    panels=tuple(_panel(*each) for each in GPU_PANELS),
)

EFA: Final = GrafanaDashboard(
    uid="efa",
    title="EFA",
    choice="group",
    of="label_values(efa_devices, instance_group)",
    panels=tuple(_panel(*each) for each in EFA_PANELS),
)


_PRICE: Final = f"hyperpod_node_usd_per_hour{{{_GROUP}}}"
_NO_BILL: Final = (
    f"On-demand list prices of {prices()['region']} as of {prices()['date']}, of nodes only: no file system, network,"
    " discount, Savings Plan or training plan. A type without a price is missing. No bill."
)
_SUM: Final = (
    f"Each sample counts for {EVERY_SECONDS} seconds: gaps, and the time before this Prometheus, cost nothing."
)


def _paid(window: str) -> tuple[str, str]:
    summed = f"sum by (instance_group) (sum_over_time({_PRICE}[{window}]))"
    return f"{summed} * {EVERY_SECONDS} / 3600", "{{instance_group}}"


COST: Final = GrafanaDashboard(
    uid="cost",
    title="Cost",
    choice="group",
    of="label_values(hyperpod_node_usd_per_hour, instance_group)",
    panels=(
        _panel(
            1,
            "US$ per hour",
            "currencyUSD",
            (f"sum by (instance_group) ({_PRICE})", "{{instance_group}}"),
            (f"sum({_PRICE})", "all"),
            note=_NO_BILL,
        ),
        _panel(
            2,
            "US$ per hour of HyperPod nodes out of service",
            "currencyUSD",
            (
                f"sum by (instance_group) ({_PRICE} * on (node) group_left ()"
                " (1 - min by (node) (hyperpod_node_ready or hyperpod_node_schedulable)))",
                "{{instance_group}}",
            ),
            note=f"Nodes that are not Ready, or that HyperPod does not call Schedulable. {_NO_BILL}",
        ),
        _panel(3, "US$ of 24 hours", "currencyUSD", _paid("24h"), note=f"{_SUM} {_NO_BILL}", now=True),
        _panel(4, "US$ of 30 days", "currencyUSD", _paid("30d"), note=f"{_SUM} {_NO_BILL}", now=True),
    ),
)

_OF_GROUP: Final = 'group=~"$group"'
_NODE_TIME: Final = f"ray_sleeper_node_seconds_total{{{_OF_GROUP}}}"
_COUNTED: Final = "Counted by the sleeper that acts; what no sleeper saw is missing. A node asleep costs nothing."


def _hours(window: str) -> tuple[str, str]:
    return f"sum by (group, state) (increase({_NODE_TIME}[{window}])) / 3600", "{{group}} {{state}}"


SLEEP: Final = GrafanaDashboard(
    uid="sleep",
    title="Sleeping groups",
    choice="group",
    of="label_values(ray_sleeper_target_nodes, group)",
    panels=(
        _panel(
            1,
            "Nodes used, idle and asleep",
            "short",
            (f"sum by (group, state) (rate({_NODE_TIME}[5m]))", "{{group}} {{state}}"),
            note=_COUNTED,
        ),
        _panel(
            2,
            "Nodes wanted, and nodes that HyperPod is to have",
            "short",
            (f"max by (group) (ray_sleeper_wanted_nodes{{{_OF_GROUP}}})", "{{group}} wanted"),
            (f"max by (group) (ray_sleeper_target_nodes{{{_OF_GROUP}}})", "{{group}} target"),
            note="Wanted by users or hours: 0 of an idle group, whose nodes stay until it falls asleep.",
        ),
        _panel(3, "Node-hours of 24 hours", "short", _hours("24h"), note=_COUNTED, now=True),
        _panel(4, "Node-hours of 30 days", "short", _hours("30d"), note=_COUNTED, now=True),
        _panel(
            5,
            "Asleep (1), and refused changes (1)",
            "short",
            (f"max by (group) (ray_sleeper_asleep{{{_OF_GROUP}}})", "{{group}} asleep"),
            (f"max by (group) (ray_sleeper_refused{{{_OF_GROUP}}})", "{{group}} refused"),
        ),
        _panel(
            6,
            "Wakes and sleeps in an hour",
            "short",
            (f"sum by (group) (increase(ray_sleeper_wakes_total{{{_OF_GROUP}}}[1h]))", "{{group}} wakes"),
            (f"sum by (group) (increase(ray_sleeper_sleeps_total{{{_OF_GROUP}}}[1h]))", "{{group}} sleeps"),
        ),
    ),
)

DASHBOARDS: Final = (RAY, JOBS, NODES, GPUS, EFA, COST, SLEEP)


def dashboards(*, gpus: bool, efa: bool, sleep: bool) -> dict[str, dict[str, Any]]:
    """Return each dashboard as Grafana's JSON model, by uid; those of GPUs, EFA and sleep only with these."""
    without = [board for board, wanted in ((GPUS, gpus), (EFA, efa), (SLEEP, sleep)) if not wanted]
    return {dashboard.uid: _model(dashboard) for dashboard in DASHBOARDS if dashboard not in without}


def _model(dashboard: GrafanaDashboard) -> dict[str, Any]:
    # `allValue` also matches series without the label.
    everything = {"selected": True, "text": "All", "value": "$__all"}
    variable = {
        "name": dashboard.choice,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": dashboard.of, "refId": "values"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": everything,
    }
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [variable]},
        "panels": [_chart(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _chart(number: int, panel: Panel) -> Mapping[str, Any]:
    row, column = divmod(number, 2)
    return {
        "id": panel.id,
        "type": "stat" if panel.now else "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + n),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                **({"instant": True, "range": False} if panel.now else {}),
            }
            for n, query in enumerate(panel.queries)
        ],
        **({"description": panel.note} if panel.note else {}),
        # Each group's name beside its value; Grafana's default hides the name of a single one.
        **({"options": {"textMode": "value_and_name"}} if panel.now else {}),
    }
