"""The FSx CSI driver and its chart, held against our release, objects and roles, and against the simulator."""

import json
import re
from typing import Any, Final

import cdk8s
import pytest
import yaml

import config
from config import EksEnvironment
from config.facts.daemonsets import DAEMONSETS
from config.load import EXAMPLES
from embedded_account.services.fsx import driver, driver_controller, driver_requests
from k8s_charts.helm.fsx_csi import fsx_csi_release
from k8s_charts.shared import names
from k8s_charts.storage.storage_class import FileSystemClass, FileSystemClassChart
from k8s_charts.storage.volumes import FileSystemAddress, FileSystemVolume, FileSystemVolumeChart
from rehearsal.paths import REPOSITORY
from tests.unit.contracts.contract import read

FACTS: Final = read("fsx_csi")
CHART: Final = REPOSITORY / "rehearsal/stand_ins/charts/aws-fsx-csi-driver"
TEMPLATE: Final = (CHART / "templates/driver.yaml").read_text()
VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text())
# AWS docs, associate-service-account-role: the trust policy's conditions.
TRUST: Final = (REPOSITORY / "stacks/shared/irsa.py").read_text()


def test_product_gives_the_chart_values_that_its_templates_read() -> None:
    values = fsx_csi_release(region="us-west-2", file_system_tags={"team": "a"}).values
    controller, node = values["controller"], values["node"]
    assert set(controller) <= {*FACTS["controller_values"]}
    assert set(node) <= {*FACTS["node_values"]}
    assert controller["serviceAccount"] == {"create": False, "name": FACTS["controller_account"]}
    assert controller["resources"]["requests"] == FACTS["driver_requests"]
    assert node["resources"]["requests"] == FACTS["driver_requests"]
    assert node["tolerateAllTaints"] is FACTS["tolerates_all_taints"]


def test_product_gives_its_role_to_the_charts_service_account() -> None:
    assert (FACTS["controller_account"], FACTS["namespace"]) == (names.FSX_CSI_SERVICE_ACCOUNT, names.SYSTEM_NAMESPACE)
    assert '"${Issuer}:aud": "sts.amazonaws.com"' in TRUST
    assert '"${Issuer}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"' in TRUST


def test_product_counts_what_the_charts_node_pods_request() -> None:
    sidecars = len(FACTS["node_containers"]) - 1
    requests = [FACTS["driver_requests"], *[FACTS["sidecar_requests"]] * sidecars]
    [node] = [each for each in DAEMONSETS if each.name == FACTS["node"]]
    assert node.cpu_millis == sum(int(each["cpu"].removesuffix("m")) for each in requests)
    assert node.memory_mib == sum(int(each["memory"].removesuffix("Mi")) for each in requests)


def test_product_writes_volumes_and_classes_with_the_drivers_attributes() -> None:
    address = FileSystemAddress("fs-0", "fs-0.fsx.us-west-2.amazonaws.com", "abc")
    volume = FileSystemVolume(namespace="ray", claim="fsx", capacity_gib=1200, file_system=address)
    found = FileSystemVolumeChart(cdk8s.App(), "volume", volume=volume).to_json()[0]["spec"]["csi"]
    assert found["driver"] == FACTS["driver"]["name"] == names.FSX_CSI_DRIVER
    assert sorted(found["volumeAttributes"]) == FACTS["attributes"]
    settings = config.load_as(EksEnvironment, "small", EXAMPLES).fsx.model_copy(update={"efa": True})
    place = FileSystemClass(settings, "subnet-0", "sg-0", kms_key="key")
    [made] = FileSystemClassChart(cdk8s.App(), "class", file_systems=place).to_json()
    assert set(made["parameters"]) <= {*FACTS["parameters"]}
    assert made["provisioner"] == FACTS["driver"]["name"]


def test_simulators_driver_knows_only_the_drivers_parameters() -> None:
    assert {*FACTS["parameters"]} >= driver_requests._KNOWN
    assert FACTS["driver"]["name"] == driver.DRIVER
    found = (driver_controller.NAMESPACE, driver_controller.DEPLOYMENT, driver_controller.CONTAINER)
    assert found == (FACTS["namespace"], FACTS["controller"], FACTS["controller_containers"][0])


def documents() -> dict[str, dict[str, Any]]:
    """Return the stand-in's objects by kind and name, without what Helm fills in."""
    text = re.sub(r"^\s*\{\{.*\}\}\n", "", TEMPLATE, flags=re.MULTILINE)
    text = re.sub(r"\{\{[^}]*\}\}", "filled", text)
    found = [each for each in yaml.safe_load_all(text) if each]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


@pytest.mark.parametrize(
    ("kind", "name", "containers", "priority", "account"),
    [
        ("Deployment", "controller", "controller_containers", "controller_priority", None),
        ("DaemonSet", "node", "node_containers", "node_priority", "node_account"),
    ],
)
def test_simulator_deploys_the_charts_pods(
    kind: str, name: str, containers: str, priority: str, account: str | None
) -> None:
    facts = {
        **{"controller": FACTS["controller"], "node": FACTS["node"], "node_account": FACTS["node_account"]},
        **{"controller_containers": FACTS["controller_containers"], "node_containers": FACTS["node_containers"]},
        **{"controller_priority": FACTS["controller_priority"], "node_priority": FACTS["node_priority"]},
    }
    spec = documents()[f"{kind} {facts[name]}"]["spec"]["template"]["spec"]
    first, *sidecars = spec["containers"]
    assert [first["name"], *(each["name"] for each in sidecars)] == facts[containers]
    assert [each["resources"]["requests"] for each in sidecars] == [FACTS["sidecar_requests"]] * len(sidecars)
    assert spec["priorityClassName"] == facts[priority]
    assert FACTS["node_selector"].items() <= spec["nodeSelector"].items()
    if account:
        assert spec["serviceAccountName"] == facts[account]
        assert f"ServiceAccount {facts[account]}" in documents()


def test_simulator_has_the_charts_driver_budget_and_values() -> None:
    found = documents()
    of_driver = found[f"CSIDriver {FACTS['driver']['name']}"]
    assert of_driver["spec"] | {"name": of_driver["metadata"]["name"]} == FACTS["driver"]
    budget = found[f"PodDisruptionBudget {FACTS['budget']['name']}"]
    assert budget["spec"]["maxUnavailable"] == FACTS["budget"]["maxUnavailable"]
    assert VALUES["controller"]["replicaCount"] == FACTS["controller_replicas"]
    assert VALUES["controller"]["serviceAccount"]["name"] == FACTS["controller_account"]
    assert VALUES["image"]["tag"] == FACTS["image"]["tag"]
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(schema["controller"]["properties"]) <= {*FACTS["controller_values"]}
    assert set(schema["node"]["properties"]) <= {*FACTS["node_values"]}
