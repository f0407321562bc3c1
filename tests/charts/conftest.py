"""Fixtures of the chart tests: no CDK, no cluster."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from config import EksEnvironment, load
from embedded_account.kubernetes.building import binaries
from k8s_charts.ray_objects import RayObjects, ray_objects
from rehearsal import paths
from tests.charts.support.facts import RAY_FACTS, Object


@pytest.fixture(scope="session")
def dev() -> EksEnvironment:
    return load("dev")


@pytest.fixture
def dev_ray(dev: EksEnvironment) -> RayObjects:
    return ray_objects(dev, RAY_FACTS)


@pytest.fixture(scope="session")
def crd_schema() -> Callable[[str], Object]:
    """Return the strict JSON schema of a served KubeRay version: a field that the CRD would prune is an error."""
    built = binaries.Binaries(paths.BINARIES / binaries.build_key())
    found = binaries.kuberay_module_directory(built) / "config/crd/bases/ray.io_rayclusters.yaml"
    if not found.is_file():
        pytest.skip("KubeRay's CRDs come with the control plane's programs: `make rehearse` builds them")
    crd = yaml.load(found.read_text(), Loader=yaml.CSafeLoader)
    versions = {version["name"]: version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"]}
    return lambda version: _strict(versions[version])


def _strict(schema: Object) -> Object:
    strict = {key: _strict_child(key, value) for key, value in schema.items()}
    if "properties" in schema:
        strict.setdefault("additionalProperties", False)
    return strict


def _strict_child(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _strict(child) for name, child in value.items()}
    return _strict(value) if key in ("items", "additionalProperties") and isinstance(value, dict) else value
