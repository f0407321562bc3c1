"""`ops isolation-check` on a real control plane: its pods really run, and really connect, as processes of this machine.

No network policy is enforced here. So the check must say so; that it tells a closed port from an open one is shown by
what listens, and what does not, at the address that stands for the head's pod.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import kubernetes
import pytest

from config import EksEnvironment, labels, load
from config.facts.versions import PYTHON_IMAGE
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.machine.processes import free_port
from embedded_account.testing.cluster import GENERAL, Kubectl, Object
from k8s_charts.shared.names import CLIENT_PORT, DASHBOARD_PORT, GCS_PORT
from ops.errors import UnreachableError
from ops.isolation import check
from ops.isolation.check import ProbeError, ProbeOutcome, Prober, enforcement, heads, verdict
from ops.isolation.plan import LABEL, SUBMITTER, Origin, plan
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.product

RAY = "isolated-ray"
# An address of this machine alone.
HEAD = "127.7.7.7"
# Free ports of this machine in the place of Ray's, which somebody may use.
PORTS = {port: free_port() for port in (DASHBOARD_PORT, GCS_PORT, CLIENT_PORT)}


@pytest.fixture(scope="module")
def environment() -> EksEnvironment:
    """dev, with an image that exists, in a namespace that no other test has."""
    dev = load("dev")
    image = dev.image.model_copy(update={"repository": None, "uri": "example.invalid/ray:1"})
    return dev.model_copy(update={"image": image, "ray": dev.ray.model_copy(update={"namespace": RAY})})


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def cluster(nodes: Nodes, kubectl: Kubectl) -> Iterator[None]:
    """Ray's namespace, which admits what is restricted only, with a head; and a node for the probes."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RAY, "labels": restricted}})
    place = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    nodes.add("probing", labels=place, allocatable=GENERAL, capacity=GENERAL)
    yield
    kubectl("delete", "namespace", RAY, "--wait=false")
    nodes.remove("probing")


@pytest.fixture(scope="module")
def origins(environment: EksEnvironment) -> list[Origin]:
    """What is tried, without what is outside of this machine."""
    return [
        replace(origin, connections=tuple(replace(c, port=PORTS[c.port]) for c in origin.connections if c.host == HEAD))
        for origin in plan(environment, {"rayml": HEAD})
    ]


@pytest.fixture
def prober(api: kubernetes.client.ApiClient) -> Prober:
    return Prober(api, PYTHON_IMAGE, timeout=PATIENCE_SECONDS, settle=0, interval=0.2)


@pytest.fixture
def listening(request: pytest.FixtureRequest) -> Iterator[None]:
    """Something listens on these of Ray's ports at the head's address."""
    with ExitStack() as open_sockets:
        for port in request.param:
            open_sockets.enter_context(socket.create_server((HEAD, PORTS[port])))
        yield


def left(kubectl: Kubectl) -> list[Object]:
    selector = ",".join(f"{key}={value}" for key, value in LABEL.items())
    items: list[Object] = kubectl.get("jobs,pods", "-A", "-l", selector)["items"]
    return items


def opened(outcomes: Sequence[ProbeOutcome]) -> set[tuple[str, int]]:
    return {(outcome.connection.origin, outcome.connection.port) for outcome in outcomes if outcome.open}


@pytest.mark.parametrize("listening", [tuple(PORTS)], indirect=True)
@pytest.mark.usefixtures("listening")
def test_policies_that_nothing_enforces_are_told_as_such(
    prober: Prober, origins: list[Origin], kubectl: Kubectl
) -> None:
    said: list[str] = []
    outcomes = prober.try_all(origins, said.append)
    assert opened(outcomes) == {(origin.name, port) for origin in origins for port in PORTS.values()}
    assert verdict(outcomes) == ["the NetworkPolicies are not enforced: every connection that they forbid is open"]
    assert left(kubectl) == []
    assert [line.partition("-check-")[2].partition("-")[0] for line in said] == ["submitter", "pod", "pod", ""]


@pytest.mark.parametrize("listening", [()], indirect=True)
@pytest.mark.usefixtures("listening")
def test_a_head_that_its_submitters_cannot_reach_is_wrong_too(prober: Prober, origins: list[Origin]) -> None:
    outcomes = prober.try_all(origins, lambda _: None)
    assert opened(outcomes) == set()
    assert verdict(outcomes) == [f"submitter → rayml-head:{PORTS[DASHBOARD_PORT]} is closed: refused, but must be open"]


def test_an_interrupted_check_leaves_no_pods(prober: Prober, origins: list[Origin], kubectl: Kubectl) -> None:
    def interrupt(line: str) -> None:
        if SUBMITTER in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prober.try_all(origins, interrupt)
    assert left(kubectl) == []


def test_pods_that_find_no_place_say_why_and_are_removed(
    prober: Prober, origins: list[Origin], kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = False

    def moment() -> float:
        """Stand still until the scheduler has found no place for any pod; then the time is over."""
        nonlocal begun
        if begun and unplaced(kubectl) == len(origins):
            return PATIENCE_SECONDS
        begun = True
        return 0

    monkeypatch.setattr(check, "time", SimpleNamespace(monotonic=moment, sleep=time.sleep))
    kubectl("cordon", "probing")
    try:
        with pytest.raises(
            ProbeError, match=r"no result after \d+ seconds: isolated-ray/isolation-check-submitter-.*nodes"
        ):
            prober.try_all(origins, lambda _: None)
    finally:
        kubectl("uncordon", "probing")
    assert left(kubectl) == []


def unplaced(kubectl: Kubectl) -> int:
    """How many pods of the check the scheduler has found no place for."""
    conditions = [condition for item in left(kubectl) for condition in item["status"].get("conditions", ())]
    return sum(condition.get("reason") == "Unschedulable" for condition in conditions)


def test_a_dry_run_makes_nothing_and_finds_what_the_cluster_would_refuse(
    prober: Prober, origins: list[Origin], kubectl: Kubectl
) -> None:
    prober.rehearse(origins)
    assert left(kubectl) == []
    with pytest.raises(UnreachableError, match="nowhere"):
        prober.rehearse([replace(origins[0], namespace="nowhere")])


def test_the_head_is_found_by_its_readiness(
    environment: EksEnvironment, api: kubernetes.client.ApiClient, kubectl: Kubectl
) -> None:
    with pytest.raises(ProbeError, match="isolated-ray/rayml has no ready head"):
        heads(environment, api)
    container = {"name": "ray", "image": "example.invalid/ray:1", **_restricted()}
    labelled = {"ray.io/cluster": "rayml", "ray.io/node-type": "head"}
    metadata = {"name": "head", "namespace": RAY, "labels": labelled}
    spec = {"containers": [container], "nodeSelector": {"no": "node"}}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    status = {"podIP": HEAD, "hostIP": HEAD, "conditions": [{"type": "Ready", "status": "True"}]}
    core = kubernetes.client.CoreV1Api(api)
    core.patch_namespaced_pod_status("head", RAY, {"status": status})
    assert heads(environment, api) == {"rayml": HEAD}
    kubectl("-n", RAY, "delete", "pod", "head", "--grace-period=0", "--force")


def test_what_the_vpc_cni_says_of_itself_is_read(api: kubernetes.client.ApiClient, kubectl: Kubectl) -> None:
    assert enforcement(api) == (
        "there is no DaemonSet aws-node: it is unknown whether the cluster's CNI enforces policies"
    )
    own = {"app": "aws-node"}
    agent = {"name": "aws-eks-nodeagent", "image": "example.invalid/agent:1", "args": ["--enable-network-policy=false"]}
    template = {"metadata": {"labels": own}, "spec": {"containers": [agent], "nodeSelector": {"no": "node"}}}
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "aws-node", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": own}, "template": template},
    }
    kubectl.apply(daemonset)
    try:
        assert "does not enforce policies" in enforcement(api)
        agent["args"] = ["--enable-network-policy=true"]
        kubectl.apply(daemonset)
        assert enforcement(api).startswith("the VPC CNI enforces policies")
    finally:
        kubectl("-n", "kube-system", "delete", "daemonset", "aws-node")


def _restricted() -> Object:
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }
