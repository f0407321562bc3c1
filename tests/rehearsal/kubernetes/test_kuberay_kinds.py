"""`ops kuberay crds` against a real API server, with KubeRay's own definitions and the real Helm."""

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import kubernetes
import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl, Object
from k8s_charts.helm.kuberay import CHART, kuberay_crds_release
from k8s_charts.helm.release import HelmRelease
from ops.change import kuberay_crds
from ops.change.kuberay_crds import CrdOwner, CustomResourceDefinition
from tests.rehearsal.kubernetes.cluster import definitions
from tests.rehearsal.kubernetes.test_project_charts import Deployment

pytestmark = pytest.mark.product

VERSION = "1.2.0"
NAMES = ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io")
OURS = kuberay_crds_release(version=VERSION)
CLUSTERS, JOBS, SERVICES = range(3)


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory, binaries: Binaries) -> Iterator[ControlPlane]:
    """One without the kinds that other tests' operator brings."""
    plane = ControlPlane(tmp_path_factory.mktemp("kinds"), binaries, name="kinds")
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return Kubectl(control_plane)


@pytest.fixture(scope="module")
def read(binaries: Binaries) -> list[Object]:
    """KubeRay's definitions, those of 1.2.0."""
    return definitions(binaries)


@pytest.fixture(scope="module")
def folder(read: list[Object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart's `crds/`."""
    directory = tmp_path_factory.mktemp("crds")
    for definition in read:
        (directory / f"{definition['metadata']['name']}.yaml").write_text(json.dumps(definition))
    return directory


@pytest.fixture
def wanted(read: list[Object]) -> list[Object]:
    """The same, for a test to change."""
    return copy.deepcopy(read)


@pytest.fixture(scope="module")
def helm(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Deployment:
    charts = tmp_path_factory.mktemp("charts")
    shutil.copytree(folder, charts / CHART / "crds")
    (charts / CHART / "Chart.yaml").write_text(f"apiVersion: v2\nname: {CHART}\nversion: {VERSION}\n")
    return Deployment(control_plane, charts)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(config_file=str(control_plane.admin_kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module")
def left_behind(kubectl: Kubectl, folder: Path) -> None:
    """What a plain `helm install` of KubeRay leaves: Helm creates what stands in `crds/` without a mark of its own.

    The last test that looks at them takes them away.
    """
    kubectl("create", "-f", folder)


def said(kinds: list[CustomResourceDefinition]) -> list[str]:
    return [kind.summary(VERSION) for kind in kinds]


def test_a_cluster_without_them_gets_them_from_a_deployment(
    api: kubernetes.client.ApiClient, wanted: list[Object], kubectl: Kubectl
) -> None:
    kinds = kuberay_crds.read_definitions(api, wanted)
    assert said(kinds) == [f"{name}: not installed; a deployment of the platform stack installs it" for name in NAMES]
    assert not any(kind.is_in_the_way for kind in kinds)
    assert kubectl("get", "crd", "-o", "name") == "", "to look changes nothing"


def test_fields_that_come_and_go_are_counted_and_those_that_go_named(
    left_behind: None, api: kubernetes.client.ApiClient, wanted: list[Object]
) -> None:
    spec = wanted[CLUSTERS]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    group = spec["properties"]["workerGroupSpecs"]["items"]["properties"]
    del group["numOfHosts"]
    # What lies below a field that comes is no field of its own.
    hosts = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    group |= {"suspend": {"type": "boolean"}, "hosts": hosts}
    clusters, jobs, _ = said(kuberay_crds.read_definitions(api, wanted))
    assert f"KubeRay {VERSION} adds 2 fields and removes 1 (v1.spec.workerGroupSpecs[].numOfHosts)" in clusters
    assert f"the same as in KubeRay {VERSION}" in jobs


def test_a_version_that_objects_are_stored_as_cannot_go(
    left_behind: None, api: kubernetes.client.ApiClient, wanted: list[Object]
) -> None:
    wanted[CLUSTERS]["spec"]["versions"][0]["name"] = "v2"
    clusters = kuberay_crds.read_definitions(api, wanted)[CLUSTERS]
    assert clusters.is_in_the_way
    assert "the API server refuses" in clusters.summary(VERSION)
    assert "storedVersions" in clusters.summary(VERSION)


def test_a_kind_that_only_another_version_has_is_left_alone(
    left_behind: None, api: kubernetes.client.ApiClient, wanted: list[Object]
) -> None:
    del wanted[JOBS]
    jobs = kuberay_crds.read_definitions(api, wanted)[-1]
    assert jobs.summary(VERSION) == f"rayjobs.ray.io: KubeRay {VERSION} has no such CRD; it stays unchanged"
    assert not jobs.is_in_the_way


def test_what_a_plain_installation_left_is_refused_until_it_is_adopted(
    left_behind: None, api: kubernetes.client.ApiClient, wanted: list[Object], helm: Deployment, kubectl: Kubectl
) -> None:
    kinds = kuberay_crds.read_definitions(api, wanted)
    assert {kind.owner for kind in kinds if kind.is_in_the_way} == {CrdOwner.NOBODY}
    assert all(f"the same as in KubeRay {VERSION}; without an owner" in line for line in said(kinds))
    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        helm.install(replace(OURS, name="refused"))

    assert list(kuberay_crds.adopt(api, kinds)) == [f"{name}: adopted" for name in NAMES]
    adopted = kuberay_crds.read_definitions(api, wanted)
    assert not any(kind.is_in_the_way for kind in adopted)
    helm.install(OURS)
    helm.uninstall(OURS)
    assert kubectl("get", "crd", "-o", "name") == "", "adopted kinds go with the release"


def test_another_releases_kinds_are_named_with_it_and_never_adopted(
    api: kubernetes.client.ApiClient, wanted: list[Object], helm: Deployment, kubectl: Kubectl
) -> None:
    other = HelmRelease(CHART, "another", "default", {}, only_crds=True)
    helm.install(other)
    kinds = kuberay_crds.read_definitions(api, wanted)
    assert {kind.owner for kind in kinds if kind.is_in_the_way} == {CrdOwner.OTHERS}
    assert "owned by another Helm release (default/another)" in said(kinds)[CLUSTERS]
    helm.uninstall(other)
