"""KubeRay's chart and kinds, held against our release and RayClusters, and against the stand-in of the chart."""

import json
import re
from typing import Final

import pytest
import yaml

import config
from config import EksEnvironment
from config.facts.versions import KUBERAY_VERSIONS
from config.load import EXAMPLES
from config.model.ray import Autoscaling
from k8s_charts.helm.kuberay import kuberay_release
from k8s_charts.ray.cluster import ray_cluster_spec
from k8s_charts.ray.from_environment import ray_cluster
from rehearsal.paths import REPOSITORY
from tests.unit.contracts.contract import read

FACTS: Final = read("kuberay")
VERSIONS: Final = ("1.2.0", "1.6.2")
CHART: Final = REPOSITORY / "rehearsal/stand_ins/charts/kuberay-operator"
PRODUCT: Final = ("config", "controllers", "k8s_charts", "ops")


@pytest.mark.parametrize("version", VERSIONS)
def test_product_gives_the_chart_values_and_gates_that_it_has(version: str) -> None:
    values = kuberay_release(version=version, namespace="kuberay", ray_pods=8).values
    gates = {gate["name"]: gate["enabled"] for gate in values["featureGates"]}
    assert set(values) <= {*FACTS["values"][version]}
    assert set(gates) <= {*KUBERAY_VERSIONS[version]} == {*FACTS["gates"][version]}
    assert values["image"] == {"repository": FACTS["repository"], "tag": FACTS["tag"].format(version=version)}


@pytest.mark.parametrize("version", VERSIONS)
def test_product_writes_rayclusters_of_the_fields_that_each_version_has(version: str) -> None:
    loaded = config.load_as(EksEnvironment, "small", EXAMPLES)
    kuberay = loaded.kuberay.model_copy(update={"version": version})
    [found, *_] = loaded.ray.clusters
    environment = loaded.model_copy(update={"kuberay": kuberay})
    for cluster in (found, found.model_copy(update={"autoscaling": Autoscaling()})):
        spec = ray_cluster_spec(ray_cluster(environment, cluster, "image"))
        assert set(spec) <= {*FACTS["spec"][version]}
        assert set(spec["headGroupSpec"]) <= {*FACTS["head"][version]}
        for workers in spec["workerGroupSpecs"]:
            assert set(workers) <= {*FACTS["workers"][version]}


def test_product_names_keys_and_states_of_kuberay() -> None:
    files = [file.read_text() for folder in PRODUCT for file in (REPOSITORY / folder).rglob("*.py")]
    named = {key for text in files for key in re.findall(r"(?<![\w.])ray\.io/[a-z-]{3,}", text)}
    assert named - {*FACTS["keys"]} == set()
    readiness = (REPOSITORY / "ops/readiness/workloads.py").read_text()
    assert set(re.findall(r'\bstate == "(\w+)"', readiness)) <= {*FACTS["states"]}


def test_simulator_accepts_only_values_of_both_charts() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    own = {key for key in schema["properties"] if key not in ("global", "standIn")}
    assert not schema["additionalProperties"]
    for version in VERSIONS:
        assert own <= {*FACTS["values"][version]}


def test_simulator_deploys_the_operator_as_the_chart_does() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = (CHART / "templates/operator.yaml").read_text()
    [container] = re.findall(r"^ {10}securityContext:\n((?: {12}.*\n)+)", text, re.MULTILINE)
    [probe] = re.findall(r"^ {10}readinessProbe: &probe\n((?: {12}.*\n)+)", text, re.MULTILINE)
    assert yaml.safe_load(container) == FACTS["container_security"]
    assert FACTS["probe"].items() <= yaml.safe_load(probe).items()
    assert {gate["name"]: gate["enabled"] for gate in values["featureGates"]} == FACTS["gates"]["1.2.0"]
    assert values["image"]["repository"] == FACTS["repository"]
    assert f"name: {FACTS['name']}\n" in text
    assert f"port: {FACTS['service_port']}, targetPort: http" in text
