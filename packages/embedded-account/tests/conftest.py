"""Load the plugin under test; provide the workspace's built programs and the environment of a package user."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from embedded_account.kubernetes.building.binaries import JSII_PACKAGES, Binaries
from embedded_account.testing.clients import NODE_MODULES
from embedded_account.testing.runs import scheduling
from embedded_account.testing.runs.skips import Skips

pytest_plugins = ("embedded_account.testing.plugin", "embedded_account.testing.garbage")

_WORKSPACE: Final = Path(__file__).resolve().parents[3]
# Where jsii keeps its packages unless JSII_RUNTIME_PACKAGE_CACHE_ROOT says otherwise.
_UNPACKED: Final = Path.home() / ".cache" / "aws" / "jsii" / "package-cache"

# Files with more than ten seconds of work, the longest first, so that all workers stay busy until the end: the first
# brings all files of WITH_CONTROL_PLANE with it.
LONGEST: Final = (
    "tests/kubernetes/test_control_plane.py",
    "tests/test_second_app.py",
    "tests/account/test_cloudformation_cli.py",
    "tests/account/test_published.py",
    "tests/account/test_updates.py",
    "tests/account/hyperpod/test_hyperpod_in_account.py",
    "tests/account/test_eks_real_cluster.py",
    "tests/kubernetes/test_sandbox.py",
)

# Files whose tests share a session's control plane.
WITH_CONTROL_PLANE: Final = frozenset(
    f"tests/kubernetes/test_{name}.py" for name in ("control_plane", "nodes", "podserver", "program_pods")
)


def pytest_configure(config: pytest.Config) -> None:
    """Let a run fail that skips any test; xdist's workers report to the main run."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler that gives each worker whole files, and those of the control plane to one."""
    return scheduling.by_file(config, log, WITH_CONTROL_PLANE)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; keep the order of all others."""
    rank = {file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


@pytest.fixture(scope="session")
def programs_cache() -> Path:
    """Return the folder of the workspace's built programs."""
    return _WORKSPACE / ".rehearsal" / "cache" / "bin"


@pytest.fixture
def environment(tmp_path: Path, binaries: Binaries) -> Mapping[str, str]:
    """Return the environment of a user whose programs are already built; link the CDK CLI into `tmp_path`.

    To unpack aws-cdk-lib takes ten seconds of a core: jsii finds what it unpacked for this machine's other syntheses.
    """
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    cache = tmp_path / "cache"
    own = cache / "embedded-account"
    own.mkdir(parents=True)
    (own / binaries.directory.name).symlink_to(binaries.directory)
    _UNPACKED.mkdir(parents=True, exist_ok=True)
    (own / JSII_PACKAGES).symlink_to(_UNPACKED)
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(cache)}
