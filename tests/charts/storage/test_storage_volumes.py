"""The file system's volume and claim, for static, existing and dynamically provisioned file systems."""

from typing import Any

from config import EksEnvironment, Environment, load, naming
from config.model import ExistingFileSystem, Fsx
from k8s_charts.platform_objects import platform_objects
from k8s_charts.ray_objects import RayFacts, ray_objects
from tests.charts.support.facts import FILE_SYSTEM, PLATFORM_FACTS, RAY_FACTS, Object


def with_fsx(environment: EksEnvironment, **settings: Any) -> EksEnvironment:
    return environment.model_copy(update={"fsx": Fsx(**settings)})


def dynamic_objects(environment: EksEnvironment, **settings: Any) -> tuple[Object, Object]:
    """Return the storage class and the claim of the environment with dynamic provisioning."""
    changed = with_fsx(environment, provisioning="dynamic", **settings)
    chart = platform_objects(changed, PLATFORM_FACTS).storage_class
    assert chart is not None
    [storage_class] = chart.to_json()
    [claim] = ray_objects(changed, NO_FILE_SYSTEM).volume.to_json()
    return storage_class, claim


NO_FILE_SYSTEM = RayFacts(
    file_system=None,
    ray_role_arn=RAY_FACTS.ray_role_arn,
    image_build=RAY_FACTS.image_build,
)


def volume_and_claim(environment: EksEnvironment) -> tuple[Object, Object]:
    volume, claim = ray_objects(environment, RAY_FACTS).volume.to_json()
    assert (volume["kind"], claim["kind"]) == ("PersistentVolume", "PersistentVolumeClaim")
    return volume, claim


def test_file_system_survives_its_volume(dev: EksEnvironment) -> None:
    volume, _ = volume_and_claim(dev)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_volume_and_claim_bind_each_other_and_nothing_else(dev: EksEnvironment) -> None:
    volume, claim = volume_and_claim(dev)
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["claimRef"] == {"namespace": "ray", "name": "fsx-claim"}
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert claim["spec"]["accessModes"] == volume["spec"]["accessModes"] == ["ReadWriteMany"]


def test_volume_mounts_the_file_system_with_locks_across_nodes(dev: EksEnvironment) -> None:
    volume, _ = volume_and_claim(dev)
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": FILE_SYSTEM.id,
        "volumeAttributes": {
            "dnsname": FILE_SYSTEM.dns_name,
            "mountname": FILE_SYSTEM.mount_name,
        },
    }
    assert volume["spec"]["mountOptions"] == ["flock"]


def test_file_system_can_grow_though_a_static_claim_cannot(dev: Environment) -> None:
    """Kubernetes refuses to resize a claim without a storage class, so a growing file system must not change it."""
    small, large = (volume_and_claim(load(name)) for name in ("dev", "prod"))
    assert small[0]["spec"]["capacity"] == {"storage": "1200Gi"}
    assert large[0]["spec"]["capacity"] == {"storage": "9600Gi"}
    assert small[1]["spec"] == large[1]["spec"]


def test_existing_file_system_is_mounted_by_its_id_and_mount_name(dev: EksEnvironment) -> None:
    existing = ExistingFileSystem(id="fs-0fedcba9876543210", mount_name="zyxwvuts")
    changed = with_fsx(dev, existing=existing, claim="data")
    volume, claim = ray_objects(changed, NO_FILE_SYSTEM).volume.to_json()
    assert volume["spec"]["csi"]["volumeHandle"] == existing.id
    assert volume["spec"]["csi"]["volumeAttributes"] == {
        "dnsname": "fs-0fedcba9876543210.fsx.us-west-2.amazonaws.com",
        "mountname": "zyxwvuts",
    }
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert claim["metadata"]["name"] == volume["spec"]["claimRef"]["name"] == "data"


def test_dynamic_claim_uses_the_class_and_requests_the_whole_capacity(dev: EksEnvironment) -> None:
    storage_class, claim = dynamic_objects(dev, capacity_gib=2400, claim="data")
    assert claim["metadata"] == claim["metadata"] | {"name": "data", "namespace": "ray"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "2400Gi"}},
        "storageClassName": storage_class["metadata"]["name"],
    }


def test_dynamic_file_system_is_what_a_static_one_would_be(dev: EksEnvironment) -> None:
    storage_class, _ = dynamic_objects(dev, throughput_mbps_per_tib=500, compression="NONE")
    assert storage_class["provisioner"] == "fsx.csi.aws.com"
    assert storage_class["mountOptions"] == ["flock"]
    assert storage_class["parameters"] == {
        "subnetId": PLATFORM_FACTS.file_system_subnet_id,
        "securityGroupIds": PLATFORM_FACTS.file_system_security_group_id,
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "fileSystemTypeVersion": "2.15",
        "perUnitStorageThroughput": "500",
        "dataCompressionType": "NONE",
        "automaticBackupRetentionDays": "0",
    }


def test_dynamic_file_system_with_efa_has_automatic_metadata(dev: EksEnvironment) -> None:
    parameters = dynamic_objects(dev, efa=True)[0]["parameters"]
    assert (parameters["efaEnabled"], parameters["metadataConfigurationMode"]) == ("true", "AUTOMATIC")


def test_dynamic_file_system_is_deleted_with_its_claim_unless_it_is_retained(dev: EksEnvironment) -> None:
    assert dynamic_objects(dev)[0]["reclaimPolicy"] == "Delete"
    assert dynamic_objects(dev, reclaim_policy="Retain")[0]["reclaimPolicy"] == "Retain"


def test_driver_tags_what_it_makes_as_the_environments(dev: EksEnvironment) -> None:
    changed = with_fsx(dev, provisioning="dynamic")
    values = platform_objects(changed, PLATFORM_FACTS).fsx_csi.values
    assert values["controller"]["extraTags"] == {naming.ENVIRONMENT_TAG: "rayhp-dev"}


def test_driver_without_dynamic_provisioning_has_neither_class_nor_tags(dev: EksEnvironment) -> None:
    objects = platform_objects(dev, PLATFORM_FACTS)
    assert objects.storage_class is None
    assert "extraTags" not in objects.fsx_csi.values["controller"]
