"""`ops drift` on a real control plane: releases that the real Helm changes beside the stack, and RayClusters."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kubernetes
import pytest

from config import load
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl, helm
from ops.drift.pods import pod_drifts
from ops.drift.releases import RESOURCE_TYPE, InstalledRelease, release_drifts, releases
from ops.errors import UnreachableError, in_plain_words

pytestmark = pytest.mark.product

NAMESPACE = "drift"
TEMPLATE = {"Resources": {"Chart": {"Type": RESOURCE_TYPE, "Properties": {"Release": "mine", "Namespace": NAMESPACE}}}}


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        yield client


@pytest.fixture
def chart(tmp_path: Path, kubectl: Kubectl) -> Iterator[Path]:
    """A chart without objects, and the namespace of its release."""
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: mine\nversion: 1.0.0\n")
    yield tmp_path
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_release_is_drift_once_another_hand_changes_it(
    control_plane: ControlPlane, api: kubernetes.client.ApiClient, chart: Path
) -> None:
    def found(installed: datetime) -> list[str]:
        """Return the details, for a stack whose last operation on the release ended then."""
        resources = [{"LogicalResourceId": "Chart", "LastUpdatedTimestamp": installed}]
        return [each.detail for each in release_drifts(api, list(releases(TEMPLATE, resources)))]

    own = (f"--namespace={NAMESPACE}",)
    assert found(datetime.now(UTC)) == ["is uninstalled"]
    helm(control_plane, "install", "mine", chart, *own)
    installed = datetime.now(UTC)
    assert found(installed) == []
    helm(control_plane, "upgrade", "mine", chart, "--set=replicas=2", *own)
    # The API server counts whole seconds: as if the stack had been deployed some time before the upgrade.
    [detail] = found(installed - timedelta(minutes=1))
    assert detail.startswith("revision 2 of ")
    assert found(datetime.now(UTC)) == [], "the stack deployed the release again"
    helm(control_plane, "uninstall", "mine", "--keep-history", *own)
    assert found(datetime.now(UTC)) == ["revision 2 is uninstalled"]


def test_caller_who_may_not_list_the_releases_is_told(control_plane: ControlPlane, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes(control_plane.ca_pem)
    settings = kubernetes.client.Configuration()
    settings.host, settings.ssl_ca_cert = control_plane.endpoint, str(authority)
    nobody = kubernetes.client.ApiClient(settings)
    mine = InstalledRelease("mine", NAMESPACE, datetime.now(UTC))
    with pytest.raises(UnreachableError, match=r"\(40[13]\)"), in_plain_words():
        list(release_drifts(nobody, [mine]))


def test_ray_cluster_that_is_gone_is_drift(api: kubernetes.client.ApiClient) -> None:
    dev = load("dev")
    elsewhere = dev.model_copy(update={"ray": dev.ray.model_copy(update={"namespace": NAMESPACE})})
    found = [(each.name, each.detail) for each in pod_drifts(elsewhere, api)]
    assert found == [(f"{NAMESPACE}/{cluster.name}", "is deleted") for cluster in dev.ray.clusters]
