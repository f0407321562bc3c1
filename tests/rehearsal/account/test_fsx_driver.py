"""The stand-in of the FSx CSI driver's controller: it works only where the driver could, and is strict."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.kubernetes.api import Object
from embedded_account.services.fsx.driver import FsxDriver
from embedded_account.services.fsx.driver_requests import create_request, gib, rounded_up, tags_of
from embedded_account.services.iam import pod_role
from embedded_account.services.iam.pod_role import PodRoleError
from embedded_account.testing.clients import Clients
from embedded_account.testing.fake_cluster import FakeApi
from handlers.file_system_guard import index as guard
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product

TAG = "ray-on-hyperpod:environment"
FILE_SYSTEMS = "arn:aws:fsx:us-west-2:*:file-system/*"
UID = "0f0f0f0f-0000-0000-0000-000000000001"
CLAIMS = "/api/v1/namespaces/ray/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


class Cluster(FakeApi):
    """A cluster whose driver is deployed as the project deploys it."""

    def __init__(self, role_arn: str, *, args: list[str]) -> None:
        super().__init__()
        self.events: list[str] = []
        plugin = {"name": "fsx-plugin", "args": args, "env": [{"name": "AWS_REGION", "value": "us-west-2"}]}
        self.deployment: Object = {
            "kind": "Deployment",
            "metadata": {"name": "fsx-csi-controller"},
            "spec": {"template": {"spec": {"serviceAccountName": "fsx-csi-controller-sa", "containers": [plugin]}}},
            "status": {"availableReplicas": 1},
        }
        self.create("/apis/apps/v1/namespaces/kube-system/deployments", self.deployment)
        annotations = {"eks.amazonaws.com/role-arn": role_arn}
        account = {
            "kind": "ServiceAccount",
            "metadata": {"name": "fsx-csi-controller-sa", "annotations": annotations},
        }
        self.create("/api/v1/namespaces/kube-system/serviceaccounts", account)

    def create(self, path: str, body: Object) -> Object:
        if path.endswith("/token"):
            return {"status": {"token": "token"}}
        if path.endswith("/events"):
            self.events.append(body["message"])
            return body
        body["metadata"].setdefault("uid", UID)
        body.setdefault("status", {})
        return super().create(path, body)

    def volumes(self) -> list[Object]:
        return [item for path, item in self.objects.items() if path.startswith(f"{VOLUMES}/")]

    def claim(self) -> None:
        """What Kubernetes' own controller makes of a claim of the class."""
        annotations = {"volume.kubernetes.io/storage-provisioner": "fsx.csi.aws.com"}
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "fsx-sc",
            "resources": {"requests": {"storage": "1200Gi"}},
        }
        body = {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "fsx-claim", "annotations": annotations},
            "spec": spec,
        }
        self.create(CLAIMS, body)

    def bind(self) -> Object:
        [volume] = self.volumes()
        self.objects[f"{CLAIMS}/fsx-claim"]["spec"]["volumeName"] = volume["metadata"]["name"]
        volume["status"]["phase"] = "Bound"
        return volume


def policy(*statements: Object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]})


TRUST = {"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
LOOK = {"Action": "fsx:DescribeFileSystems", "Resource": "*"}
MAKE = {
    "Action": ["fsx:CreateFileSystem", "fsx:TagResource"],
    "Resource": FILE_SYSTEMS,
    "Condition": {"StringEquals": {f"aws:RequestTag/{TAG}": "rayhp-dev"}},
}
CHANGE = {
    "Action": ["fsx:DeleteFileSystem", "fsx:UpdateFileSystem"],
    "Resource": FILE_SYSTEMS,
    "Condition": {"StringEquals": {f"aws:ResourceTag/{TAG}": "rayhp-dev"}},
}
LINK = {"Action": "iam:CreateServiceLinkedRole", "Resource": "*"}


@pytest.fixture
def fsx(clients: Clients, account: Account, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    monkeypatch.setattr(pod_role, "check_web_identity", lambda *_: "system:serviceaccount:x:y")
    return clients("fsx")


@pytest.fixture
def parameters(clients: Clients) -> dict[str, str]:
    """The storage class's, with a subnet and a group that exist."""
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[lustre])
    return {
        "subnetId": ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"],
        "securityGroupIds": group,
        "deploymentType": "PERSISTENT_2",
        "perUnitStorageThroughput": "250",
        "fileSystemTypeVersion": "2.15",
        "automaticBackupRetentionDays": "0",
    }


Deploy = Callable[..., Cluster]


@pytest.fixture
def deploy(account: Account, clients: Clients, parameters: dict[str, str]) -> Deploy:
    """Make a cluster with the driver and a claim; its role has the given statements."""

    def deploy(*statements: Object, reclaim: str = "Delete", **more: str) -> Cluster:
        iam = clients("iam")
        role = iam.create_role(RoleName="csi", AssumeRolePolicyDocument=policy(TRUST))["Role"]["Arn"]
        allowed = policy(*(statements or (LOOK, MAKE, CHANGE, LINK)))
        iam.put_role_policy(RoleName="csi", PolicyName="access", PolicyDocument=allowed)
        cluster = Cluster(role, args=[f"--extra-tags={TAG}=rayhp-dev"])
        storage_class = {
            "kind": "StorageClass",
            "metadata": {"name": "fsx-sc"},
            "provisioner": "fsx.csi.aws.com",
            "parameters": parameters | more,
            "reclaimPolicy": reclaim,
            "mountOptions": ["flock"],
        }
        cluster.create("/apis/storage.k8s.io/v1/storageclasses", storage_class)
        cluster.claim()
        return cluster

    return deploy


def driver_of(account: Account, cluster: Any) -> FsxDriver:
    return FsxDriver(account, cluster)


def until(condition: Callable[[], Any], driver: FsxDriver) -> None:
    def after_a_step() -> Any:
        driver.step()
        return condition()

    wait_until(after_a_step, "what the driver works for")


def released(account: Account, deploy: Deploy) -> tuple[Cluster, FsxDriver]:
    """A cluster whose claim got a volume and is gone again, and its driver."""
    cluster = deploy()
    driver = driver_of(account, cluster)
    until(cluster.volumes, driver)
    cluster.bind()["status"]["phase"] = "Released"
    cluster.delete(f"{CLAIMS}/fsx-claim")
    return cluster, driver


def test_claim_gets_a_file_system_with_the_drivers_and_the_environments_tag(
    account: Account, deploy: Deploy, fsx: Any
) -> None:
    cluster = deploy()
    until(cluster.volumes, driver_of(account, cluster))
    [system] = fsx.describe_file_systems()["FileSystems"]
    assert {tag["Key"]: tag["Value"] for tag in system["Tags"]} == {"CSIVolumeName": f"pvc-{UID}", TAG: "rayhp-dev"}
    assert (system["StorageCapacity"], system["FileSystemTypeVersion"]) == (1200, "2.15")
    spec = cluster.volumes()[0]["spec"]
    assert spec["csi"]["volumeHandle"] == system["FileSystemId"]
    assert spec["csi"]["volumeAttributes"]["mountname"] == system["LustreConfiguration"]["MountName"]
    assert (spec["claimRef"]["uid"], spec["persistentVolumeReclaimPolicy"]) == (UID, "Delete")
    assert cluster.events == []


def test_file_system_with_a_key_needs_rights_on_it_through_fsx(
    account: Account, clients: Clients, deploy: Deploy, fsx: Any
) -> None:
    key = clients("kms").create_key()["KeyMetadata"]["Arn"]
    cluster = deploy(kmsKeyId=key)
    driver = driver_of(account, cluster)
    driver.step()
    assert (fsx.describe_file_systems()["FileSystems"], len(cluster.events)) == ([], 1)
    assert "kms:CreateGrant" in cluster.events[0]
    through = {"StringEquals": {"kms:ViaService": "fsx.us-west-2.amazonaws.com"}}
    grant = {"Action": "kms:CreateGrant", "Condition": through | {"Bool": {"kms:GrantIsForAWSResource": "true"}}}
    use = {"Action": ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"], "Condition": through}
    allowed = policy(*({"Resource": key, **each} for each in (grant, use)))
    clients("iam").put_role_policy(RoleName="csi", PolicyName="key", PolicyDocument=allowed)
    until(cluster.volumes, driver)
    assert [each["KmsKeyId"] for each in fsx.describe_file_systems()["FileSystems"]] == [key]


def test_volume_is_forgotten_before_its_file_system_is_gone(
    account: Account, deploy: Deploy, fsx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, driver = released(account, deploy)
    monkeypatch.setattr(account.clock, "scale", 1.0)
    driver.step()
    assert cluster.volumes() == []
    assert fsx.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "DELETING"


def test_released_volume_takes_its_file_system_with_it_a_while_later(
    account: Account, deploy: Deploy, fsx: Any
) -> None:
    _, driver = released(account, deploy)
    until(lambda: fsx.describe_file_systems()["FileSystems"] == [], driver)


def test_retained_volume_stays_with_its_file_system(account: Account, deploy: Deploy, fsx: Any) -> None:
    cluster = deploy(reclaim="Retain")
    driver = driver_of(account, cluster)
    until(cluster.volumes, driver)
    cluster.bind()["status"]["phase"] = "Released"
    driver.step()
    assert len(cluster.volumes()) == len(fsx.describe_file_systems()["FileSystems"]) == 1


def test_claim_that_grows_grows_its_file_system(account: Account, deploy: Deploy, fsx: Any) -> None:
    cluster = deploy()
    driver = driver_of(account, cluster)
    until(cluster.volumes, driver)
    cluster.bind()
    cluster.objects[f"{CLAIMS}/fsx-claim"]["spec"]["resources"]["requests"]["storage"] = "2400Gi"
    driver.step()
    assert fsx.describe_file_systems()["FileSystems"][0]["StorageCapacity"] == 2400


def test_no_driver_no_file_system(account: Account, deploy: Deploy, fsx: Any) -> None:
    cluster = deploy()
    cluster.deployment["status"]["availableReplicas"] = 0
    driver_of(account, cluster).step()
    assert fsx.describe_file_systems()["FileSystems"] == []


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        ((MAKE, CHANGE, LINK), "fsx:DescribeFileSystems"),
        ((LOOK, CHANGE, LINK), "fsx:CreateFileSystem"),
        ((LOOK, MAKE | {"Action": "fsx:CreateFileSystem"}, LINK), "fsx:TagResource"),
        ((LOOK, MAKE, CHANGE), "iam:CreateServiceLinkedRole"),
    ],
)
def test_missing_permission_is_an_event_of_the_claim(
    account: Account, deploy: Deploy, fsx: Any, granted: tuple[Object, ...], missing: str
) -> None:
    cluster = deploy(*granted)
    driver = driver_of(account, cluster)
    driver.step()
    driver.step()
    [message] = cluster.events
    assert f"is not authorized to perform: {missing} " in message
    assert fsx.describe_file_systems()["FileSystems"] == []


def test_driver_that_may_not_delete_leaves_the_volume_and_says_so(account: Account, deploy: Deploy, fsx: Any) -> None:
    cluster = deploy(LOOK, MAKE, LINK)
    driver = driver_of(account, cluster)
    until(cluster.volumes, driver)
    cluster.bind()["status"]["phase"] = "Released"
    driver.step()
    assert "fsx:DeleteFileSystem" in cluster.events[0]
    assert len(cluster.volumes()) == len(fsx.describe_file_systems()["FileSystems"]) == 1


def test_guard_names_the_file_system_that_the_driver_did_not_delete(
    account: Account, deploy: Deploy, fsx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of the destroy's guard, against what the driver made: first it waits, then it fails by name."""
    cluster = deploy(LOOK, MAKE, LINK)
    driver = driver_of(account, cluster)
    until(cluster.volumes, driver)
    cluster.bind()["status"]["phase"] = "Released"
    driver.step()
    monkeypatch.setenv("AWS_REGION", account.region)
    monkeypatch.setattr(guard, "_client", lambda: fsx)
    properties = {"TagKey": TAG, "TagValue": "rayhp-dev", "ReclaimPolicy": "Delete"}
    event = {"RequestType": "Delete", "ResourceProperties": properties, "AskedAt": time.time()}
    assert guard.is_complete(event, None) == {"IsComplete": False}
    left = fsx.describe_file_systems()["FileSystems"][0]["FileSystemId"]
    with pytest.raises(guard.FileSystemsRemainError, match=f"did not delete {left} "):
        guard.is_complete(event | {"AskedAt": time.time() - 2 * guard.PATIENCE_SECONDS}, None)
    fsx.delete_file_system(FileSystemId=left)
    until(lambda: guard.is_complete(event, None)["IsComplete"], driver)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"fileSystemId": "fs-1"}, "storage class parameter fileSystemId is invalid"),
        ({"perUnitStorageThroughput": "200"}, "Invalid PerUnitStorageThroughput 200"),
        ({"deploymentType": "SCRATCH_1"}, "PERSISTENT_2 only"),
        ({"subnetId": "subnet-01234567"}, "subnet-01234567"),
    ],
)
@pytest.mark.usefixtures("fsx")
def test_parameter_that_fsx_or_the_driver_does_not_take_is_an_event(
    account: Account, deploy: Deploy, more: dict[str, str], said: str
) -> None:
    cluster = deploy(**more)
    driver_of(account, cluster).step()
    assert said in cluster.events[0]


def test_driver_without_its_region_says_so(account: Account, deploy: Deploy, fsx: Any) -> None:
    cluster = deploy()
    cluster.deployment["spec"]["template"]["spec"]["containers"][0]["env"] = []
    driver_of(account, cluster).step()
    assert "the driver's AWS_REGION is None" in cluster.events[0]


def test_efa_and_metadata_reach_the_request() -> None:
    parameters = {"subnetId": "s", "efaEnabled": "true", "metadataConfigurationMode": "AUTOMATIC"}
    request = create_request(parameters, volume="v", capacity_gib=4800, driver_tags={})
    assert request["LustreConfiguration"] == {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}}


@pytest.mark.parametrize(("asked", "made"), [(1, 1200), (1200, 1200), (1300, 2400), (2400, 2400), (2401, 4800)])
def test_driver_rounds_up_as_fsx_needs_it(asked: int, made: int) -> None:
    assert rounded_up(asked) == made


@pytest.mark.parametrize(
    "parameters",
    [{}, {"subnetId": "s", "efaEnabled": "yes"}, {"subnetId": "s", "perUnitStorageThroughput": "much"}],
)
def test_parameters_that_the_driver_cannot_read_are_rejected(parameters: dict[str, str]) -> None:
    with pytest.raises(PodRoleError):
        create_request(parameters, volume="v", capacity_gib=1200, driver_tags={})


def test_sizes_and_tags_are_read_as_written() -> None:
    assert (gib("1200Gi"), gib("2Ti")) == (1200, 2048)
    assert tags_of("a=b,c=d") == {"a": "b", "c": "d"}
    for wrong in ("1.2T", "1200"):
        with pytest.raises(PodRoleError):
            gib(wrong)
    with pytest.raises(PodRoleError):
        tags_of("a")
