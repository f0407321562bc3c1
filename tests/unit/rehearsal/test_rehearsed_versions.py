"""The versions of the embedded account's programs stand for those that the project deploys."""

import pytest

from config.facts import versions
from embedded_account.kubernetes.building import binaries


@pytest.mark.table("config/facts/versions.py")
def test_a_rehearsal_runs_the_kubernetes_that_is_deployed() -> None:
    assert binaries.KUBERNETES_VERSION.startswith(f"v{versions.KUBERNETES_DEFAULT}.")


@pytest.mark.table("config/facts/versions.py")
@pytest.mark.parametrize("version", versions.KUBERNETES_VERSIONS)
def test_every_kubernetes_that_can_be_chosen_runs_as_itself_or_as_the_nearest_version(version: str) -> None:
    minor = version if version in binaries.KUBERNETES_MINORS else binaries.KUBERNETES_MINORS[0]
    assert binaries.kubernetes_minor(version) == minor
    assert binaries.kubernetes_version(version).startswith(f"v{minor}.")


@pytest.mark.table("config/facts/versions.py")
@pytest.mark.parametrize("version", versions.KUBERAY_VERSIONS)
def test_every_kuberay_that_can_be_chosen_is_rehearsed_with_its_own_operator(version: str) -> None:
    """KubeRay 1.2.1 stands for 1.2.0, which module proxies do not serve; RayCluster's code is the same."""
    assert binaries.kuberay_version(version) == ("v1.2.1" if version == "1.2.0" else f"v{version}")
    purpose = binaries.with_kuberay(version)
    assert (purpose is binaries.REHEARSAL) == (version == versions.KUBERAY)
