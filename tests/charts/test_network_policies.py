"""Network policies of every pair of pods, relevant port and environment: Ray itself has no authentication."""

from collections.abc import Callable
from functools import partial

import pytest

from config import EksEnvironment, available, load
from config.model import TieredStorage
from k8s_charts.shared.names import CHECKPOINTS_HOST
from ops.isolation.plan import ALERTMANAGER_HOST, EFA_EXPORTER_HOST, GPU_EXPORTER_HOST, PROMETHEUS_HOST, plan
from tests.charts.support.connection_table import (
    RAY_PORTS,
    Connection,
    Matrix,
    with_aws_ray,
    with_hyperpod_ray,
    with_in_cluster,
    with_two_ray_clusters,
)
from tests.charts.support.facts import Object
from tests.charts.support.network_policies import Pod, Policies, connects
from tests.support.sleeping_environment import with_sleep

TURNED_ON: dict[str, Callable[[EksEnvironment], EksEnvironment]] = {
    "aws_ray": with_aws_ray,
    "in_cluster": partial(with_in_cluster, alertmanager=True),
    "hyperpod_ray": with_hyperpod_ray,
    "sleep": with_sleep,
    "sleep and in_cluster": lambda environment: with_sleep(with_in_cluster(environment)),
}


@pytest.fixture(scope="module", params=[*available(), *TURNED_ON])
def matrix(request: pytest.FixtureRequest) -> Matrix:
    """Return each environment with a second RayCluster, and dev also with each key that opens connections."""
    turned_on = TURNED_ON.get(request.param)
    environment = with_two_ray_clusters(load("dev" if turned_on else request.param))
    return Matrix(turned_on(environment) if turned_on else environment)


def passes(matrix: Matrix, policies: Policies, connection: Connection) -> bool:
    source, target, port, protocol = connection
    return policies.connect(matrix.pods[source], matrix.pods[target], port, protocol)


@pytest.fixture(scope="module")
def open_connections(matrix: Matrix) -> set[Connection]:
    """Return the connections that the policies allow."""
    policies = Policies(matrix.policies)
    return {connection for connection in matrix.connections if passes(matrix, policies, connection)}


def test_connections_of_the_table_are_open_and_all_others_closed(
    matrix: Matrix, open_connections: set[Connection]
) -> None:
    expected = matrix.allowed()
    assert sorted(expected - open_connections) == [], "the table allows these"
    assert sorted(open_connections - expected) == [], "the table does not allow these"


def test_only_members_reach_ports_that_run_code_and_only_submitters_and_the_operator_the_dashboard(
    matrix: Matrix, open_connections: set[Connection]
) -> None:
    """This test does not use the table: it must hold however the table is edited."""
    reached = {connection for connection in open_connections if connection[2] in RAY_PORTS}
    from_others = {c[:3] for c in reached if c[1].startswith("rayml-") and not c[0].startswith("rayml-")}
    asking = {"submitter", "supervisor", "operator", "sleeper"} & matrix.pods.keys()
    assert from_others == {(source, "rayml-head", 8265) for source in asking}


def test_two_ray_clusters_never_reach_each_other_and_a_ray_job_reaches_neither(
    open_connections: set[Connection],
) -> None:
    sides = [(source.partition("-")[0], target.partition("-")[0]) for source, target, *_ in open_connections]
    clusters = ("rayml", "other", "rayjob")
    between = {side for side in sides if set(side) <= set(clusters)}
    assert between == {(cluster, cluster) for cluster in clusters}


def test_nothing_comes_in_from_outside_of_the_cluster(matrix: Matrix, open_connections: set[Connection]) -> None:
    assert not [connection for connection in open_connections if not matrix.pods[connection[0]].is_selectable]


def test_every_namespace_denies_what_nothing_allows(matrix: Matrix) -> None:
    everything = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    closed = {policy["metadata"]["namespace"] for policy in matrix.policies if policy["spec"] == everything}
    assert closed == matrix.namespaces


def test_every_policy_is_needed() -> None:
    """Therefore, the test of the table detects the loss of any policy."""
    every_key = with_in_cluster(with_aws_ray(with_two_ray_clusters(load("dev"))), alertmanager=True)
    matrix = Matrix(with_hyperpod_ray(every_key))
    expected, surplus = matrix.allowed(), []
    for policy in matrix.policies:
        others = Policies(other for other in matrix.policies if other is not policy)
        own = matrix.pods_in(policy["metadata"]["namespace"])
        # A policy decides about pods of its namespace only.
        touched = [connection for connection in matrix.connections if own & set(connection[:2])]
        if all(passes(matrix, others, connection) == (connection in expected) for connection in touched):
            surplus.append((policy["metadata"]["namespace"], policy["metadata"]["name"]))
    assert surplus == []


def test_checkpoint_daemons_are_unreachable_until_their_key_is_on() -> None:
    off, on = Matrix(load("dev")), Matrix(with_aws_ray(load("dev")))
    connection = ("rayml-worker", "checkpoints", 9200, "TCP")
    assert not passes(off, Policies(off.policies), connection)
    assert passes(on, Policies(on.policies), connection)


def test_hyperpods_collector_reaches_metrics_from_the_kuberay_on_that_aws_supports() -> None:
    for kuberay, reached in (("1.2.0", False), ("1.6.2", True)):
        matrix = Matrix(with_hyperpod_ray(load("dev"), kuberay))
        for target in ("rayml-head", "rayml-worker", "operator"):
            assert passes(matrix, Policies(matrix.policies), ("collector", target, 8080, "TCP")) is reached


@pytest.mark.parametrize(
    ("address", "reached"),
    [(None, False), ("managed", False), ("https://mlflow.example.com", False), ("http://mlflow.mlflow.svc:5000", True)],
)
def test_port_of_an_mlflow_server_is_open_to_ray_only(address: str | None, *, reached: bool) -> None:
    matrix = Matrix(load("dev").model_copy(update={"mlflow": address}))
    for source in ("rayml-head", "rayml-worker"):
        assert passes(matrix, Policies(matrix.policies), (source, "another-node", 5000, "TCP")) is reached
    assert not passes(matrix, Policies(matrix.policies), ("submitter", "another-node", 5000, "TCP"))
    assert not passes(matrix, Policies(matrix.policies), ("another-node", "rayml-worker", 5000, "TCP"))


def test_memory_tier_of_the_cluster_is_reachable_without_a_further_key() -> None:
    dev = load("dev")
    hyperpod = dev.hyperpod.model_copy(update={"tiered_storage": TieredStorage()})
    on = Matrix(dev.model_copy(update={"hyperpod": hyperpod}))
    assert passes(on, Policies(on.policies), ("rayml-worker", "checkpoints", 9200, "TCP"))


@pytest.mark.parametrize(
    "dev",
    [load("dev"), with_in_cluster(with_aws_ray(load("dev")), alertmanager=True)],
    ids=["nothing", "every-key"],
)
def test_the_check_of_a_live_cluster_expects_what_the_policies_say(dev: EksEnvironment) -> None:
    matrix = Matrix(dev)
    hosts = {
        "head": matrix.pods["rayml-head"],
        "node": matrix.pods["another-node"],
        PROMETHEUS_HOST: matrix.pods["prometheus"],
        EFA_EXPORTER_HOST: matrix.pods.get("efa-exporter", matrix.pods["stranger"]),
        GPU_EXPORTER_HOST: matrix.pods.get("gpu-exporter", matrix.pods["stranger"]),
        ALERTMANAGER_HOST: matrix.pods.get("alertmanager", Pod(None)),
        CHECKPOINTS_HOST: matrix.pods["checkpoints"],
        "kubernetes.default.svc.cluster.local": matrix.pods["api-server"],
        "169.254.169.254": Pod(None, address="169.254.169.254"),
    }
    planned = plan(dev, {"rayml": "head"})
    for origin in planned:
        source = Pod(origin.namespace, origin.labels)
        for tried in origin.connections:
            assert connects(matrix.policies, source, hosts[tried.host], tried.port) is tried.open, tried
    assert {tried.open for origin in planned for tried in origin.connections} == {True, False}


class TestEvaluation:
    """Cases of the evaluator that the project's policies do not cover."""

    TARGET = Pod("a", {"app": "x"}, ports={"web": 8080})

    def admits(self, rule: Object, source: Pod, port: int = 80, protocol: str = "TCP") -> bool:
        policy = {"metadata": {"namespace": "a"}, "spec": {"podSelector": {}, "ingress": [rule]}}
        return connects([policy], source, self.TARGET, port, protocol)

    def test_namespace_and_pod_in_one_peer_must_both_match_and_in_two_either(self) -> None:
        namespace = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}
        pods = {"podSelector": {"matchLabels": {"app": "y"}}}
        both, either = {"from": [namespace | pods]}, {"from": [namespace, pods]}
        assert self.admits(both, Pod("b", {"app": "y"}))
        assert not self.admits(both, Pod("b"))
        assert not self.admits(both, Pod("a", {"app": "y"}))
        assert self.admits(either, Pod("b"))
        assert self.admits(either, Pod("a", {"app": "y"}))
        assert not self.admits(either, Pod("c", {"app": "y"})), "a pod selector alone means the policy's namespace"

    def test_block_leaves_out_its_exceptions_and_holds_pods_and_nodes_too(self) -> None:
        rule = {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}
        assert self.admits(rule, Pod(None, address="10.2.0.1"))
        assert self.admits(rule, Pod("b", address="10.2.0.1"))
        assert self.admits(rule, Pod("b", address="10.2.0.1", host_network=True))
        assert not self.admits(rule, Pod(None, address="10.1.0.1"))
        assert not self.admits(rule, Pod(None, address="192.0.2.1"))

    def test_pod_of_the_nodes_network_is_neither_chosen_nor_a_peer_by_its_labels(self) -> None:
        node = Pod("a", {"app": "x"}, host_network=True)
        closed = {"metadata": {"namespace": "a"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
        assert connects([closed], Pod(None), node, 80)
        assert not self.admits({"from": [{"podSelector": {}}]}, node)

    @pytest.mark.parametrize(
        ("port", "open_ports"),
        [
            ({"port": 80}, {80}),
            ({"port": "web"}, {8080}),
            ({"port": "other"}, set()),
            ({"port": 80, "endPort": 90}, {80, 90}),
            ({"port": 80, "protocol": "UDP"}, set()),
            ({}, {80, 90, 8080}),
        ],
    )
    def test_ports_by_number_name_range_and_protocol(self, port: Object, open_ports: set[int]) -> None:
        assert {number for number in (80, 90, 8080) if self.admits({"ports": [port]}, Pod("b"), number)} == open_ports

    @pytest.mark.parametrize(
        ("operator", "values", "matching"),
        [("In", ["x"], {"x"}), ("NotIn", ["x"], {"y", ""}), ("Exists", [], {"x", "y"}), ("DoesNotExist", [], {""})],
    )
    def test_expressions_of_selectors(self, operator: str, values: list[str], matching: set[str]) -> None:
        expression = {"key": "app", "operator": operator, **({"values": values} if values else {})}
        rule = {"from": [{"podSelector": {"matchExpressions": [expression]}}]}
        pods = {label: Pod("a", {"app": label} if label else {}) for label in ("x", "y", "")}
        assert {label for label, pod in pods.items() if self.admits(rule, pod)} == matching

    def test_policy_without_types_is_of_ingress_and_of_egress_where_it_has_such_rules(self) -> None:
        def policy(**rules: object) -> Object:
            return {"metadata": {"namespace": "a"}, "spec": {"podSelector": {}, **rules}}

        assert connects([policy()], self.TARGET, Pod("b"), 80)
        assert not connects([policy()], Pod("b"), self.TARGET, 80)
        to_nobody = [{"to": [{"podSelector": {"matchLabels": {"no": "pod"}}}]}]
        assert not connects([policy(egress=to_nobody)], self.TARGET, Pod("b"), 80)

    @pytest.mark.parametrize("spec", [{"podSelector": {}, "unknown": 1}, {"podSelector": {"matchFields": {}}}])
    def test_unsupported_fields_are_refused(self, spec: Object) -> None:
        with pytest.raises(AssertionError, match="not evaluated"):
            connects([{"metadata": {"namespace": "a"}, "spec": spec}], Pod("b"), self.TARGET, 80)
