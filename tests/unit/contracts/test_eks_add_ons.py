"""The configuration of EKS add-ons, held against what our stacks write and against the simulator."""

import ast
import re
from typing import Any, Final

import pytest

from config.facts.add_ons import HYPERPOD, TRAINING_OPERATOR, known_add_ons
from config.facts.daemonsets import DAEMONSETS
from embedded_account.services.eks.add_ons import configurations, stand_ins
from ops.isolation import check
from rehearsal.paths import REPOSITORY
from tests.unit.contracts.contract import read

FACTS: Final = read("eks_add_ons")
OF_EVERY_CLUSTER: Final = (REPOSITORY / "stacks/eks/add_ons.py").read_text()
OF_HYPERPOD: Final = (REPOSITORY / "stacks/observability/hyperpod_observability/add_on.py").read_text()


def constant(text: str, name: str) -> Any:
    """Return a constant of a module as its source states it: an import of a stack would start CDK."""
    assigned = [each for each in ast.parse(text).body if isinstance(each, ast.AnnAssign)]
    [value] = [each.value for each in assigned if isinstance(each.target, ast.Name) and each.target.id == name]
    assert value
    return ast.literal_eval(value)


def test_product_gives_the_network_add_on_the_published_value() -> None:
    before_nodes = constant(OF_EVERY_CLUSTER, "_BEFORE_NODES")
    assert sorted(before_nodes) == FACTS["always"]
    assert before_nodes["vpc-cni"] == FACTS["network_policy"]


def test_product_reads_the_agents_argument_and_counts_both_containers() -> None:
    assert check._NODE_AGENT in FACTS["cni_containers"]
    assert FACTS["cni_argument"].format(**FACTS["network_policy"]) == check._ENFORCES
    [node] = [each for each in DAEMONSETS if each.name == "aws-node"]
    assert f"{node.cpu_millis // len(FACTS['cni_containers'])}m" == FACTS["cni_requests"]["cpu"]


def test_product_gives_hyperpods_add_on_the_published_keys() -> None:
    metrics = constant(OF_HYPERPOD, "_METRICS")
    assert sorted(metrics) == FACTS["metrics"]
    assert {*metrics.values()} <= {*FACTS["levels"]}
    assert constant(OF_HYPERPOD, "_SECONDS") == FACTS["scrape_interval"]
    written = ast.parse(OF_HYPERPOD[OF_HYPERPOD.index("def _configuration") :])
    keys = [
        [key.value for key in each.keys if isinstance(key, ast.Constant)]
        for each in ast.walk(written)
        if isinstance(each, ast.Dict)
    ]
    allowed = [FACTS["observability_keys"], FACTS["prometheus_keys"], FACTS["metric_keys"], FACTS["logging_keys"]]
    assert all(any({*each} <= {*known} for known in allowed) for each in keys)
    [endpoint] = re.findall(r'endpoint = f"(.*)"', OF_HYPERPOD)
    assert endpoint.endswith("/") is FACTS["endpoint_ends_with_slash"]


def test_both_know_who_assumes_the_add_ons_roles() -> None:
    known = known_add_ons()
    assert known[HYPERPOD].service_account == FACTS["observability_account"]
    assert known[TRAINING_OPERATOR].service_account == FACTS["training_operator_account"]
    assert stand_ins.SERVICE_ACCOUNTS[HYPERPOD].endswith(f":{FACTS['observability_account']}")


@pytest.mark.parametrize("enabled", [None, "true"])
def test_simulator_runs_the_network_add_ons_containers(enabled: str | None) -> None:
    given = {key: enabled for key in FACTS["network_policy"] if enabled}
    [_, daemon_set] = stand_ins.STAND_INS["vpc-cni"](given)
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == FACTS["cni_containers"]
    assert [each["resources"]["requests"] for each in containers] == [FACTS["cni_requests"]] * 2
    value = FACTS["cni_argument"].format(enableNetworkPolicy=enabled or FACTS["cni_default"])
    assert containers[1]["args"] == [value]


def test_simulator_knows_the_published_keys_of_hyperpods_add_on() -> None:
    assert {*FACTS["observability_keys"]} == configurations._HYPERPOD_KEYS
    assert {*FACTS["levels"]} <= {*configurations._LEVELS}
    assert {*FACTS["metrics"]} == configurations._METRICS
    assert {*FACTS["metric_keys"]} == configurations._METRIC_KEYS
