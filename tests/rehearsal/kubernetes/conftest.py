"""One control plane for all tests of this folder, with an authenticator of the tests' own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from embedded_account.kubernetes.building import binaries as built
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from rehearsal import paths
from tests.rehearsal.kubernetes.cluster import (
    ACCELERATED,
    GENERAL,
    OPERATOR_NAMESPACE,
    Kubectl,
    Object,
    install_definitions,
    operator_objects,
)
from tests.support.waiting import KUBECTL_PATIENCE

KNOWN_TOKEN = "token-of-ann"


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The control plane's programs; where they are not built yet, the lines of the build are shown."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    return built.ensure(paths.BINARIES, show)


@pytest.fixture(scope="session")
def authenticator() -> Iterator[str]:
    """URL of a TokenReview webhook that knows one token."""

    class Reviews(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = review["spec"]["token"] == KNOWN_TOKEN
            status = {"authenticated": known, "user": {"username": "ann", "groups": ["submitters"]} if known else {}}
            body = json.dumps(review | {"status": status}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Reviews) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/authenticate"
        server.shutdown()


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, binaries: Binaries, authenticator: str
) -> Iterator[ControlPlane]:
    plane = ControlPlane(
        tmp_path_factory.mktemp("control-plane"),
        binaries,
        name="tests",
        authenticator_url=authenticator,
        issuer="https://oidc.example.invalid/id/TESTS",
    )
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def nodes(control_plane: ControlPlane) -> Nodes:
    """The nodes of the walkthrough's cluster, and one for what a platform team installs."""
    registry = Nodes(control_plane.api)
    registry.add_all(
        [
            NodeSpec(name="system-1", labels={"group": "system"}, allocatable=GENERAL, capacity=GENERAL),
            NodeSpec(name="head-1", labels={"group": "head"}, allocatable=GENERAL, capacity=GENERAL),
            *(
                NodeSpec(name=f"gpu-{number}", labels={"group": "gpu"}, allocatable=ACCELERATED, capacity=ACCELERATED)
                for number in range(1, 5)
            ),
        ]
    )
    return registry


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return Kubectl(control_plane)


@pytest.fixture(scope="session")
def operator(binaries: Binaries, nodes: Nodes, kubectl: Kubectl) -> Object:
    """KubeRay installed and available; its ClusterRole."""
    install_definitions(kubectl, binaries)
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}})
    objects = operator_objects(binaries)
    kubectl.apply(*objects)
    available = ("wait", "--for=condition=Available", "deployment/kuberay-operator", KUBECTL_PATIENCE)
    kubectl("-n", OPERATOR_NAMESPACE, *available)
    roles = (item for item in objects if item["kind"] == "ClusterRole")
    return next(role for role in roles if role["metadata"]["name"] == "kuberay-operator")
