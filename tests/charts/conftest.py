"""Fixtures of the chart tests: no CDK, no cluster."""

from collections.abc import Callable
from typing import Any

import cdk8s
import pytest
import yaml

from config import Environment, load
from config.capacity import Resources
from config.catalogue import GPU_RESOURCE
from k8s_charts.assembly import ImageBuildFacts, PlatformFacts, RayFacts, RayObjects, ray_objects
from k8s_charts.ray_cluster import Head, RayCluster, RayClusterChart, WorkerGroup
from k8s_charts.ray_pods import Common, Place
from k8s_charts.storage_volumes import FileSystemAddress
from rehearsal import paths

Object = dict[str, Any]

PLATFORM_FACTS = PlatformFacts(
    fsx_csi_role_arn="arn:aws:iam::111122223333:role/csi",
    file_system_subnet_id="subnet-0123456789abcdef0",
    file_system_security_group_id="sg-0123456789abcdef0",
)
FILE_SYSTEM = FileSystemAddress("fs-0123456789abcdef0", "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com", "abcdefgh")
RAY_FACTS = RayFacts(
    file_system=FILE_SYSTEM,
    ray_role_arn="arn:aws:iam::111122223333:role/ray",
    image_build=ImageBuildFacts("arn:aws:iam::111122223333:role/builder", "s3://bucket/context.zip"),
)
P5 = Resources(cpu_millis=90_000, memory_mib=1800 * 1024, accelerators=8, accelerator_resource=GPU_RESOURCE, efa=32)
SMALL = Resources(cpu_millis=2_500, memory_mib=8192)


def a_worker_group(**changes: Any) -> WorkerGroup:
    values: dict[str, Any] = {
        "name": "gpu-group",
        "place": Place("worker-group-1"),
        "replicas": 4,
        "min_replicas": 1,
        "max_replicas": 10,
        "resources": P5,
    }
    return WorkerGroup(**values | changes)


def a_ray_cluster(*workers: WorkerGroup) -> RayCluster:
    return RayCluster(
        name="rayml",
        namespace="ray",
        ray_version="2.42.1",
        pods=Common(image="registry/repository:tag", claim="fsx-claim", mount_path="/fsx"),
        head=Head(Place("head-group"), SMALL),
        workers=workers or (a_worker_group(),),
    )


def rendered(cluster: RayCluster) -> Object:
    """The RayCluster object as it is applied."""
    [manifest] = RayClusterChart(cdk8s.App(), "cluster", cluster=cluster).to_json()
    return dict(manifest)


@pytest.fixture(scope="session")
def dev() -> Environment:
    return load("dev")


@pytest.fixture
def dev_ray(dev: Environment) -> RayObjects:
    return ray_objects(dev, RAY_FACTS)


@pytest.fixture(scope="session")
def crd_schema() -> Callable[[str], Object]:
    """Strict JSON schema of a served KubeRay version: a field that the CRD would prune is an error."""
    found = sorted(paths.BINARIES.glob("*/kuberay-module/config/crd/bases/ray.io_rayclusters.yaml"))
    if not found:
        pytest.skip("KubeRay's CRDs come with the control plane's programs: `make rehearse` builds them")
    crd = yaml.load(found[0].read_text(), Loader=yaml.CSafeLoader)
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
