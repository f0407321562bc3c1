"""The file system's volume and claim."""

from config import Environment, load
from k8s_charts.assembly import ray_objects
from tests.charts.conftest import RAY_FACTS, Object


def volume_and_claim(environment: Environment) -> tuple[Object, Object]:
    volume, claim = ray_objects(environment, RAY_FACTS).volume.to_json()
    assert (volume["kind"], claim["kind"]) == ("PersistentVolume", "PersistentVolumeClaim")
    return volume, claim


def test_file_system_survives_its_volume(dev: Environment) -> None:
    volume, _ = volume_and_claim(dev)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_volume_and_claim_take_each_other_and_nothing_else(dev: Environment) -> None:
    volume, claim = volume_and_claim(dev)
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["claimRef"] == {"namespace": "ray", "name": "fsx-claim"}
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert claim["spec"]["accessModes"] == volume["spec"]["accessModes"] == ["ReadWriteMany"]


def test_volume_mounts_the_file_system_with_locks_across_nodes(dev: Environment) -> None:
    volume, _ = volume_and_claim(dev)
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": RAY_FACTS.file_system_id,
        "volumeAttributes": {
            "dnsname": RAY_FACTS.file_system_dns_name,
            "mountname": RAY_FACTS.file_system_mount_name,
        },
    }
    assert volume["spec"]["mountOptions"] == ["flock"]


def test_file_system_can_grow_though_a_static_claim_cannot(dev: Environment) -> None:
    """Kubernetes refuses to resize a claim without a storage class: a growing file system must not touch it."""
    small, large = (volume_and_claim(load(name)) for name in ("dev", "prod"))
    assert small[0]["spec"]["capacity"] == {"storage": "1200Gi"}
    assert large[0]["spec"]["capacity"] == {"storage": "9600Gi"}
    assert small[1]["spec"] == large[1]["spec"]
