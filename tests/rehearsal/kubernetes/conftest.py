"""KubeRay in the control plane of this folder's tests."""

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import Kubectl, Object
from tests.rehearsal.kubernetes.cluster import install_operator


@pytest.fixture(scope="session")
def operator(binaries: Binaries, nodes: Nodes, kubectl: Kubectl) -> Object:
    """KubeRay installed and available; its ClusterRole."""
    objects = install_operator(kubectl, binaries)
    roles = (item for item in objects if item["kind"] == "ClusterRole")
    return next(role for role in roles if role["metadata"]["name"] == "kuberay-operator")
