"""Every query of every dashboard and alert, asked of a real Prometheus that scrapes real controllers.

`make test-observability` runs this folder and the tests of the exporter.
"""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import create_autospec

import kubernetes
import pytest

from config import load
from config.model import InCluster, Observability
from k8s_charts.in_cluster.alerts import ALERTS, Alert, rule_groups
from k8s_charts.in_cluster.dashboards import DASHBOARDS
from k8s_charts.in_cluster.sources import metrics, source
from ops.smoke import gpu_health
from tests.charts.in_cluster import scraped
from tests.support.prometheus import Prometheus, running
from tests.support.waiting import wait_until

QUERIES = [
    (dashboard, panel, query) for dashboard in DASHBOARDS for panel in dashboard.panels for query in panel.queries
]


def expanded(expression: str) -> str:
    """Return the expression as Grafana asks it if the visitor has chosen nothing."""
    for dashboard in DASHBOARDS:
        expression = expression.replace(f"${dashboard.choice}", ".*")
    return expression


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Return a Prometheus with the project's configuration that has scraped everything more than once."""
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        scraped.cluster(folder) as ports,
        running(scraped.files(ports, {"groups": rule_groups(gpus=True, efa=True, sleep=True)}), folder) as started,
    ):
        wait_until(lambda: started.healthy_targets() == scraped.SCRAPED, "an answer of every target")
        wait_until(
            lambda: bool(started.series("min(count_over_time(up[1m])) > 2")), "samples over which a rate has a value"
        )
        yield started


def test_every_query_of_every_dashboard_returns_data_whose_legend_is_known(prometheus: Prometheus) -> None:
    missing, nameless = [], []
    for dashboard, panel, query in QUERIES:
        found = prometheus.series(expanded(query.expression))
        if not found:
            missing.append((dashboard.title, panel.title, query.expression))
        wanted = {word.partition("}}")[0] for word in query.legend.split("{{")[1:]}
        # The pods of this test are on no node.
        lacking = wanted - {"node", *(found[0]["metric"] if found else ())}
        nameless += [(panel.title, label) for label in lacking]
    assert missing == []
    assert nameless == []


def test_the_value_of_every_alert_is_there_without_a_fault_and_no_alert_fires(prometheus: Prometheus) -> None:
    assert [alert.name for alert in ALERTS if not prometheus.series(alert.value)] == []
    assert prometheus.series('ALERTS{alertstate="firing"}') == []
    assert prometheus.series("ray_run_trains == 1"), "what alerts of runs are bound to"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ray_run_step", 120),
        ("ray_run_goodput_ratio", 0.931),
        ("sum(hyperpod_node_ready)", 1),
        ('hyperpod_node_usd_per_hour{instance_group="gpus",instance_type="ml.p5.48xlarge"}', 63.296),
        ('hyperpod_node_usd_per_hour{instance_group="system nodes",instance_type="m5.xlarge"}', 0.192),
        ('count(up{job="ray"})', 2),
        ('count by (node_type) (up{job="ray",ray_io_cluster="rayml"})', 1),
        ('ray_resources{Name="CPU",State="USED",node_type="head"}', 0),
        ('max by (node) (DCGM_FI_DEV_GPU_TEMP{node="hyperpod-i-0",instance_group="gpus"})', 61),
        ('node_amazonefa_rx_drops{node="hyperpod-i-0",instance_group="gpus",device="rdmap79s0",port="1"}', 3),
        ('sum by (node) (efa_devices{instance_group="gpus"})', 1),
        # The pod that uses the GPU, not the exporter's.
        ('DCGM_FI_DEV_FB_USED{gpu="0",pod="rayml-gpu-group-worker-x7k2p",namespace="ray"}', 61440),
    ],
)
def test_series_have_the_values_and_labels_of_what_was_scraped(
    prometheus: Prometheus, expression: str, value: float
) -> None:
    values = [float(series["value"][1]) for series in prometheus.series(expression)]
    assert values == [pytest.approx(value)] * len(values) != []


def test_pods_that_have_not_started_and_pods_of_others_are_not_scraped(prometheus: Prometheus) -> None:
    addresses = {target["__address__"] for target in prometheus.dropped()}
    assert {"starting:1", "stranger:1"} <= addresses
    assert {float(series["value"][1]) for series in prometheus.series("count by (job) (up)")} == {1, 2}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_metric_of_an_alert_has_a_source(alert: Alert) -> None:
    assert all(source(metric) for metric in metrics(alert.expression))
    assert metrics(alert.expression)


def test_every_metric_of_a_dashboard_has_a_source() -> None:
    for _, panel, query in QUERIES:
        assert metrics(query.expression), panel.title
        assert all(source(metric) for metric in metrics(query.expression))


def test_a_metric_that_nothing_feeds_is_refused() -> None:
    with pytest.raises(LookupError, match="kube_node_info: nothing feeds it"):
        source("kube_node_info")


def test_ops_smoke_finds_the_watched_nodes_and_no_fault_of_their_gpus(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ("127.0.0.1", int(prometheus.address.rpartition(":")[2]))
    forward = SimpleNamespace(socket=lambda _: socket.create_connection(address), close=lambda: None)
    pod = SimpleNamespace(
        metadata=SimpleNamespace(name="prometheus-0", deletion_timestamp=None), status=SimpleNamespace(phase="Running")
    )
    core = SimpleNamespace(list_namespaced_pod=lambda *_, **__: SimpleNamespace(items=[pod]))
    monkeypatch.setattr(gpu_health, "open_port_forward", lambda *_: forward)
    monkeypatch.setattr("kubernetes.client.CoreV1Api", lambda _: core)
    dev = load("dev").model_copy(update={"observability": Observability(in_cluster=InCluster())})

    # An application's XID error is in what the exporter says, and no fault.
    found = gpu_health.health(dev, create_autospec(kubernetes.client.ApiClient), {"hyperpod-i-0", "hyperpod-i-1"})
    assert found == gpu_health.GpuHealth(frozenset({"hyperpod-i-0"}), ())

    everything = {"XidError": "max by (node, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT) > 0"}
    monkeypatch.setattr(gpu_health, "_FAULTS", everything)
    found = gpu_health.health(dev, create_autospec(kubernetes.client.ApiClient), {"hyperpod-i-0"})
    assert found.problems == ("XidError 13 on GPU 0 of hyperpod-i-0",)
