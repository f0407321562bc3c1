"""KubeRay in the control plane of this folder's tests."""

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import Kubectl, Object
from tests.rehearsal.kubernetes.cluster import OPERATOR_NAMESPACE, install_definitions, operator_objects
from tests.support.waiting import KUBECTL_PATIENCE


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
