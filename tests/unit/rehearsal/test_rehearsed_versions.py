"""The versions of the embedded account's programs stand for those that the project deploys."""

import pytest

from config.facts import versions
from embedded_account.kubernetes.building import binaries


@pytest.mark.table("config/facts/versions.py")
def test_rehearsed_versions_are_those_that_are_deployed() -> None:
    """KubeRay 1.2.1 stands for 1.2.0, which module proxies do not serve; RayCluster's code is the same."""
    assert binaries.KUBERNETES_VERSION.startswith(f"v{versions.KUBERNETES_DEFAULT}.")
    assert binaries.KUBERAY_VERSION.rpartition(".")[0] == f"v{versions.KUBERAY}".rpartition(".")[0]
