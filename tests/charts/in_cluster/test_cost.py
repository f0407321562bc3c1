"""The dashboard of costs: prices of one place and one date, and sums that Prometheus' own program calculates."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from config import load
from config.estimates.costs import prices, prices_of_nodes
from k8s_charts.in_cluster.dashboards import COST, dashboards
from k8s_charts.ray_objects import ray_objects
from tests.charts.support.connection_table import with_in_cluster
from tests.charts.support.facts import RAY_FACTS
from tests.support.prometheus import programs

PRICED = "hyperpod_node_usd_per_hour"
NODES = {
    # One hour of 30 s, an hour in which nothing was scraped, and two hours more.
    f'{PRICED}{{node="works",instance_group="gpus"}}': "10x119 _x120 10x239",
    f'{PRICED}{{node="lost",instance_group="gpus"}}': "10x479",
    f'{PRICED}{{node="drained",instance_group="spare"}}': "2x479",
    f'{PRICED}{{node="system",instance_group="system nodes"}}': "0.5x479",
    'hyperpod_node_ready{node="works",instance_group="gpus"}': "1x479",
    'hyperpod_node_ready{node="lost",instance_group="gpus"}': "0x479",
    'hyperpod_node_ready{node="drained",instance_group="spare"}': "1x479",
    'hyperpod_node_schedulable{node="works",instance_group="gpus",status="Schedulable"}': "1x479",
    'hyperpod_node_schedulable{node="lost",instance_group="gpus",status="Schedulable"}': "1x479",
    'hyperpod_node_schedulable{node="drained",instance_group="spare",status="Unschedulable"}': "0x479",
}
"""Four hours of four nodes."""

SHOWN: dict[tuple[str, int], dict[str, float]] = {
    ("US$ per hour", 0): {"gpus": 20, "spare": 2, "system nodes": 0.5},
    ("US$ per hour", 1): {"": 22.5},
    ("US$ per hour of HyperPod nodes out of service", 0): {"gpus": 10, "spare": 2},
    ("US$ of 24 hours", 0): {"gpus": 30 + 40, "spare": 8, "system nodes": 2},
    ("US$ of 30 days", 0): {"gpus": 30 + 40, "spare": 8, "system nodes": 2},
}


def test_each_panel_shows_what_the_nodes_cost_and_nothing_for_the_time_without_samples(tmp_path: Path) -> None:
    asked = {
        (panel.title, number): query.expression.replace("$group", ".*")
        for panel in COST.panels
        for number, query in enumerate(panel.queries)
    }
    assert asked.keys() == SHOWN.keys()
    tests = [
        {
            "expr": expression,
            "eval_time": "3h59m30s",
            "exp_samples": [
                {"labels": f'{{instance_group="{group}"}}' if group else "{}", "value": value}
                for group, value in SHOWN[shown].items()
            ],
        }
        for shown, expression in asked.items()
    ]
    inputs = [{"series": series, "values": values} for series, values in NODES.items()]
    case = {"interval": "30s", "input_series": inputs, "promql_expr_test": tests}
    (tmp_path / "tests.json").write_text(json.dumps({"evaluation_interval": "30s", "tests": [case]}))
    argv = [str(programs()["promtool"]), "test", "rules", "tests.json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def exporter_of(name: str) -> list[str]:
    """Return the arguments of the exporter in this environment."""
    charts = ray_objects(with_in_cluster(load(name)), RAY_FACTS).observability
    [pod] = [
        item["spec"]["template"]["spec"]
        for item in charts["programs"].to_json()
        if (item["kind"], item["metadata"]["name"]) == ("Deployment", "prometheus")
    ]
    [found] = [container["args"] for container in pod["containers"] if container["name"] == "exporter"]
    return list(found)


@pytest.mark.parametrize("name", ["dev", "closed"])
def test_the_exporter_knows_the_prices_that_ops_cost_uses_for_this_environments_nodes_only(name: str) -> None:
    environment = load(name)
    [given] = [json.loads(each.partition("=")[2]) for each in exporter_of(name) if each.startswith("--prices=")]
    kinds = {group.instance_type for group in environment.hyperpod.instance_groups}
    kinds.add(environment.eks.system_nodes.instance_type)
    assert given == {kind: prices()["instances"][kind] for kind in kinds if kind in prices()["instances"]} != {}
    assert given == prices_of_nodes(environment)


def test_each_panel_says_that_it_is_no_bill_and_how_old_its_prices_are() -> None:
    board: dict[str, Any] = dashboards(gpus=False, efa=False, sleep=False)["cost"]
    for panel in board["panels"]:
        assert f"as of {prices()['date']}" in panel["description"]
        assert "No bill." in panel["description"]
    sums = [panel for panel in board["panels"] if panel["type"] == "stat"]
    assert all("Each sample counts for 30 seconds" in panel["description"] for panel in sums)
    assert [target["instant"] for panel in sums for target in panel["targets"]] == [True, True]
