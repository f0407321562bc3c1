"""Test that a resource is refused whose KMS key is unknown, disabled, parked, elsewhere, or closed to its service."""

import json
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.services.keys import unusable
from embedded_account.services.shared.refusal import Refusal
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, Resources

UNKNOWN = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LOGS = "logs.us-west-2.amazonaws.com"
AUTO_SCALING = "arn:aws:iam::111122223333:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
FILE_SYSTEM = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": 1200,
    "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
}


def make_key(clients: Clients, *principals: dict[str, str], **options: Any) -> str:
    """Create a key whose policy allows these principals everything; return its ARN."""
    given = [{"Effect": "Allow", "Principal": each, "Action": "kms:*", "Resource": "*"} for each in principals]
    policy = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": given})} if given else {}
    return str(clients("kms").create_key(**policy, **options)["KeyMetadata"]["Arn"])


def why(key: str, **needed: str) -> str:
    return unusable("111122223333", "us-west-2", key, **needed)


@pytest.fixture
def disabled(clients: Clients) -> str:
    key = make_key(clients, {"Service": LOGS})
    clients("kms").disable_key(KeyId=key.rpartition("/")[2])
    return key


def test_an_enabled_key_serves_by_arn_id_and_alias(account: Account, clients: Clients) -> None:
    key = make_key(clients)
    clients("kms").create_alias(AliasName="alias/data", TargetKeyId=key)
    given = (key, key.rpartition("/")[2], "alias/data", key.rpartition(":")[0] + ":alias/data", "alias/aws/ebs")
    assert [why(each) for each in given] == [""] * 5


def test_what_keeps_a_key_from_use(account: Account, clients: Clients, disabled: str) -> None:
    parked, signing = make_key(clients), make_key(clients, KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")
    clients("kms").schedule_key_deletion(KeyId=parked.rpartition("/")[2])
    assert [why(each) for each in (UNKNOWN, "alias/none", disabled, parked, signing)] == [
        "does not exist",
        "does not exist",
        "is Disabled",
        "is PendingDeletion",
        "is not a symmetric key for encryption",
    ]
    assert why(UNKNOWN.replace("us-west-2", "eu-west-1")) == "is not in region us-west-2"
    assert why(UNKNOWN.replace("111122223333", "444455556666")) == "does not exist"


def test_a_service_without_rights_of_its_own_needs_the_keys_policy(account: Account, clients: Clients) -> None:
    closed, open_to_logs = make_key(clients), make_key(clients, {"Service": LOGS})
    needed = {"principal": LOGS, "action": "kms:GenerateDataKey"}
    assert why(closed, **needed) == f"has a policy that does not allow {LOGS} to call kms:GenerateDataKey"
    assert why(open_to_logs, **needed) == ""


def test_a_log_group_needs_a_key_that_admits_the_service(account: Account, clients: Clients, disabled: str) -> None:
    resources, text = Resources(account), "does not exist or is not allowed to be used with LogGroup"
    for key in (UNKNOWN, disabled, make_key(clients)):
        with pytest.raises(Refusal, match=text):
            resources.create("AWS::Logs::LogGroup", {"KmsKeyId": key})
    made = resources.create("AWS::Logs::LogGroup", {"KmsKeyId": make_key(clients, {"Service": LOGS})})
    with pytest.raises(Refusal, match=text):
        resources.update(made, {"KmsKeyId": UNKNOWN})


def test_repositories_and_file_systems_need_a_key_that_can_be_used(
    account: Account, clients: Clients, disabled: str
) -> None:
    resources = Resources(account)
    for key, reason in ((UNKNOWN, "does not exist"), (disabled, "is Disabled")):
        encryption = {"EncryptionType": "KMS", "KmsKey": key}
        with pytest.raises(Refusal, match=f"KmsException.*{reason}"):
            resources.create("AWS::ECR::Repository", {"EncryptionConfiguration": encryption})
        with RefusedWith("BadRequest", reason):
            resources.create("AWS::FSx::FileSystem", FILE_SYSTEM | {"SubnetIds": ["subnet-012345678"], "KmsKeyId": key})
    encryption = {"EncryptionType": "KMS", "KmsKey": make_key(clients)}
    assert resources.create("AWS::ECR::Repository", {"EncryptionConfiguration": encryption})


def test_a_bucket_takes_any_key_and_its_objects_a_usable_one(account: Account, clients: Clients, disabled: str) -> None:
    s3, good = clients("s3"), make_key(clients)
    for number, (key, code) in enumerate(
        ((UNKNOWN, "KMS.NotFoundException"), (disabled, "KMS.DisabledException"), (good, ""))
    ):
        bucket = f"bucket-{number}"
        default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        rules = {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default}]}
        Resources(account).create("AWS::S3::Bucket", {"BucketEncryption": rules}, name=bucket)
        if not code:
            stored = s3.put_object(Bucket=bucket, Key="a", Body=b"a")
            assert (stored["ServerSideEncryption"], stored["SSEKMSKeyId"]) == ("aws:kms", good)
            continue
        with RefusedWith(code, "The KMS key"):
            s3.put_object(Bucket=bucket, Key="a", Body=b"a")
        with RefusedWith(code, "The KMS key"):
            s3.create_multipart_upload(Bucket=bucket, Key="a")


def test_auto_scaling_launches_no_instance_whose_key_is_closed_to_its_role(account: Account, clients: Clients) -> None:
    from moto.core.exceptions import ServiceException

    from embedded_account.services.eks import launch_templates

    def read(key: str) -> object:
        device = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "Encrypted": True, "KmsKeyId": key}}
        data = {"BlockDeviceMappings": [device]}
        template = Resources(account).create("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data}, name=key[-20:])
        return launch_templates.read(account, {"id": template.physical_resource_id}, {})

    with pytest.raises(ServiceException, match=r"AsgInstanceLaunchFailures.*does not allow.*kms:CreateGrant"):
        read(make_key(clients))
    assert read(make_key(clients, {"AWS": AUTO_SCALING}))
