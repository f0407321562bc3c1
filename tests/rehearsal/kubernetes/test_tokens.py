"""All containers that speak to a head which wants a token have it: from KubeRay if it can, else from a Secret.

Another KubeRay than the usual one takes minutes to build, so only `make test-long` runs with it.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from config import EksEnvironment, load
from config.facts.versions import SETS, SetName
from config.model import Autoscaling, SecretVariable
from embedded_account.kubernetes.building import binaries as built
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import GENERAL, Kubectl, Object
from k8s_charts.ray.from_environment import token_secrets
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import RAY_SERVICE_ACCOUNT
from tests.charts.support.facts import RAY_FACTS
from tests.rehearsal.kubernetes.cluster import install_operator
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product
OURS: Final = SecretVariable(env="RAY_AUTH_TOKEN", secret="heads-token", key="token")


@pytest.fixture(scope="module", params=["fixed", pytest.param("current", marks=pytest.mark.long)])
def chosen(request: pytest.FixtureRequest) -> SetName:
    """Return the set of versions whose KubeRay runs."""
    name: SetName = request.param
    return name


@pytest.fixture(scope="module")
def binaries(programs_cache: Path, chosen: SetName) -> Binaries:
    """Return the programs with KubeRay of the set."""
    return built.ensure(programs_cache, print, built.with_kuberay(SETS[chosen].kuberay))


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory, binaries: Binaries) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("tokens"), binaries, name="tokens")
    plane.start()
    Nodes(plane.api).add("system-1", labels={"group": "system"}, allocatable=GENERAL, capacity=GENERAL)
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane, binaries: Binaries) -> Kubectl:
    kubectl = Kubectl(control_plane)
    install_operator(kubectl, binaries)
    return kubectl


def environment(chosen: SetName, *secrets: SecretVariable) -> EksEnvironment:
    """Return dev with a set of versions, an autoscaler, and heads that want a token."""
    dev = load("dev")
    [cluster] = dev.ray.clusters
    changed = {"env": {"RAY_AUTH_MODE": "token"}, "secrets": secrets, "autoscaling": Autoscaling()}
    ray = dev.ray.model_copy(update={"version": None, "clusters": (cluster.model_copy(update=changed),)})
    kuberay = dev.kuberay.model_copy(update={"version": None})
    return dev.model_copy(update={"versions": chosen, "ray": ray, "kuberay": kuberay})


def test_all_that_speak_to_the_head_have_the_token(kubectl: Kubectl, chosen: SetName) -> None:
    makes_one = chosen == "current"
    wanted = environment(chosen) if makes_one else environment(chosen, OURS)
    namespace = wanted.ray.namespace
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    # KubeRay wants the account of a head with an autoscaler.
    account = {"name": RAY_SERVICE_ACCOUNT, "namespace": namespace}
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    [cluster] = ray_objects(wanted, RAY_FACTS).clusters["rayml"].to_json()
    # What the CRD lacks, the API server refuses.
    kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(cluster))

    def pods() -> list[Object]:
        found: list[Object] = kubectl.get("-n", namespace, "pods", "-l", "ray.io/cluster=rayml")["items"]
        return found

    wait_until(
        lambda: {each["metadata"]["labels"]["ray.io/node-type"] for each in pods()} == {"head", "worker"}, "pods"
    )
    secret, key = ("rayml", "auth_token") if makes_one else (OURS.secret, OURS.key)
    if makes_one:
        made = kubectl.get("-n", namespace, "secret", secret)
        assert len(base64.b64decode(base64.b64decode(made["data"][key]))) == 32
    assert token_secrets(wanted) == (secret,), "supervisors and submitters may read it"
    names = set()
    for pod in pods():
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
            names.add(container["name"])
            env = {each["name"]: each for each in container["env"]}
            assert env["RAY_AUTH_MODE"]["value"] == "token", container["name"]
            source = env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
            assert (source["name"], source["key"]) == (secret, key), container["name"]
    assert names == {"ray-head", "ray-worker", "autoscaler", "wait-gcs-ready"}
