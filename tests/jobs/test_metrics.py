"""The dashboard of Ray's metrics, asked of a real Prometheus that scrapes a real Ray."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Final

import pytest
from ray.dashboard.modules.metrics.dashboards import default_dashboard_panels

from k8s_charts.in_cluster.dashboards import JOBS, RAY, Panel
from k8s_charts.in_cluster.sources import metrics
from tests.jobs.support.paths import MODULES
from tests.support.prometheus import Prometheus, running
from tests.support.waiting import wait_until

# Metrics of GPUs, and a share of their peak, are there only with GPUs.
_WITH_GPUS: Final = {8, 18, 28}
_LIBRARY: Final = ("ray_training_loss", "ray_training_interval_seconds")

PROGRAM: Final = """
import sys, time, ray
from ray.util.metrics import Gauge

ray.init(num_cpus=2, object_store_memory=80 * 1024**2, include_dashboard=False)

@ray.remote
class Worker:
    def __init__(self):
        # As the library's meter exports them (ray_resume/telemetry/meter.py).
        self.gauges = [Gauge("training_loss", "", ("run",)), Gauge("training_interval_seconds", "", ("run", "part"))]
        self.gauges[0].set(0.5, {"run": "train-1"})
        self.gauges[1].set(2.0, {"run": "train-1", "part": "data"})

    def ready(self):
        return True

@ray.remote
def task():
    return bytes(1_000_000)

worker, kept = Worker.remote(), ray.get(task.remote())
ray.get(worker.ready.remote())
kept = ray.put(bytes(2_000_000))
node = ray.nodes()[0]
print(f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where a head of a Ray of its own exports its metrics: that of the other tests reports nothing of nodes."""
    script = tmp_path_factory.mktemp("ray") / "program.py"
    script.write_text(PROGRAM)
    # What other tests' nodes set would let this program join their Ray.
    others = ("REPORTER_UPDATE_INTERVAL_MS", "RAY_ADDRESS", "RAY_TMPDIR")
    own = {key: value for key, value in os.environ.items() if key not in others}
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**own, "PYTHONPATH": MODULES},
    ) as process:
        assert process.stdout
        assert process.stdin
        try:
            found = process.stdout.readline().strip()
            assert found, "the program ended; its errors are above"
            wait_until(lambda: _exports(found), "the metrics of node and worker")
            yield found
        finally:
            process.stdin.close()


def _exports(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return False
    # Ray exports each family on its own.
    return all(name in text for name in ("ray_node_mem_used", "ray_tasks{", "ray_actors{", *_LIBRARY))


@pytest.fixture(scope="module")
def prometheus(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    labels = '{"ray_io_cluster": "rayml", "node_type": "head"}'
    job = f'{{"job_name": "ray", "static_configs": [{{"targets": ["{address}"], "labels": {labels}}}]}}'
    text = f'{{"global": {{"scrape_interval": "1s"}}, "scrape_configs": [{job}]}}'
    with running({"prometheus.yaml": text}, tmp_path_factory.mktemp("prometheus")) as started:
        wait_until(lambda: bool(started.series("ray_node_mem_used")), "a scrape")
        yield started


@pytest.mark.sampled(2, of="runs on real Ray")
def test_every_chart_of_ray_and_of_the_library_has_data_of_a_real_ray(prometheus: Prometheus) -> None:
    panels: list[Panel] = [panel for panel in RAY.panels if panel.id not in _WITH_GPUS]
    panels += [panel for panel in JOBS.panels if {*_LIBRARY} & {*metrics(panel.queries[0].expression)}]
    asked = [query.expression for panel in panels for query in panel.queries]
    assert len(asked) > 10

    def missing() -> list[str]:
        return [each for each in asked if not prometheus.series(each.replace("$cluster", ".*").replace("$run", ".*"))]

    wait_until(lambda: not missing(), "data of every query")


def test_panels_have_the_ids_that_rays_own_dashboard_embeds() -> None:
    # Newer Ray has rows of panels.
    rows = getattr(default_dashboard_panels, "DEFAULT_GRAFANA_ROWS", [])
    panels = [panel for row in rows for panel in row.panels] or default_dashboard_panels.DEFAULT_GRAFANA_PANELS
    rays = {panel.id: panel.title.lower() for panel in panels}
    # A word of each of our titles is in Ray's title of that id.
    words = {panel.id: panel.title.lower().split()[0].rstrip("s") for panel in RAY.panels}
    words[8], words[18] = "gpu", "gpu memory"
    assert {id: word for id, word in words.items() if word not in rays.get(id, "")} == {}
