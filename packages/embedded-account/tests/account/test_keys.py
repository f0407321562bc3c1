"""Test that a resource is refused whose KMS key is unknown, disabled, parked, elsewhere, or closed to its service."""

import json
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.services.keys import unusable
from embedded_account.services.shared.refusal import Refusal
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.waiting import wait_until

UNKNOWN = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LOGS = "logs.us-west-2.amazonaws.com"
AUTO_SCALING = "arn:aws:iam::111122223333:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
OWNER = "arn:aws:iam::111122223333:root"
FILE_SYSTEM = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": 1200,
    "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
}


def statement(principal: Any, action: str = "kms:*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": principal, "Action": action, "Resource": "*", **more}


def make_key(clients: Clients, *principals: Any, **options: Any) -> str:
    """Create a key whose policy allows these principals everything, by default what IAM allows; return its ARN."""
    return make_key_with(clients, *map(statement, principals), **options)


def make_key_with(clients: Clients, *statements: dict[str, Any], **options: Any) -> str:
    policy = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": statements})} if statements else {}
    # Most of these policies let nobody change the key again, which KMS refuses by default.
    made = clients("kms").create_key(**policy, **options, BypassPolicyLockoutSafetyCheck=True)
    return str(made["KeyMetadata"]["Arn"])


def why(key: str, *actions: str, **needed: Any) -> str:
    return unusable("111122223333", "us-west-2", key, *actions or ("kms:CreateGrant",), **needed)


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
    needed = "kms:Decrypt", "kms:GenerateDataKey"
    assert why(closed, *needed, principal=LOGS) == f"has a policy that does not allow {LOGS} to call kms:Decrypt"
    assert why(open_to_logs, *needed, principal=LOGS) == ""
    half = make_key_with(clients, statement({"Service": LOGS}, "kms:Decrypt"))
    assert why(half, *needed, principal=LOGS).endswith(f"allow {LOGS} to call kms:GenerateDataKey")
    # A wildcard names roles, not services.
    assert why(make_key(clients, {"AWS": "*"}), *needed, principal=LOGS) != ""
    assert why(make_key(clients, {"AWS": "*"}), *needed, principal=AUTO_SCALING) == ""


def test_roles_of_the_account_use_a_key_only_if_its_policy_leaves_that_to_iam(
    account: Account, clients: Clients
) -> None:
    closed = make_key(clients, {"Service": LOGS})
    assert why(closed) == "has a policy that does not allow roles of 111122223333 to call kms:CreateGrant"
    for principal in ({"AWS": "111122223333"}, {"AWS": "*"}, "*"):
        assert why(make_key(clients, principal)) == ""
    through_fsx = {"StringEquals": {"kms:ViaService": "fsx.us-west-2.amazonaws.com"}}
    narrow = make_key_with(clients, statement({"AWS": OWNER}, Condition=through_fsx))
    assert why(narrow, via="fsx") == ""
    assert why(narrow, via="ecr") != ""


@pytest.mark.parametrize(
    "second",
    [
        statement("*", Effect="Deny"),
        statement({"AWS": OWNER}, "kms:CreateGrant", Effect="Deny"),
        {"Effect": "Deny", "NotPrincipal": {"AWS": OWNER}, "Action": "kms:*", "Resource": "*"},
        statement({"AWS": OWNER}, Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}),
    ],
    ids=["denied to all", "denied", "NotPrincipal", "unknown operator"],
)
def test_a_policy_that_denies_or_cannot_be_evaluated_closes_the_key(
    account: Account, clients: Clients, second: dict[str, Any]
) -> None:
    assert why(make_key_with(clients, statement({"AWS": OWNER}), second)) != ""


def test_a_log_group_needs_a_key_that_admits_the_service(account: Account, clients: Clients, disabled: str) -> None:
    resources, text = ResourceModels(account), "does not exist or is not allowed to be used with LogGroup"
    for key in (UNKNOWN, disabled, make_key(clients)):
        with pytest.raises(Refusal, match=text):
            resources.create("AWS::Logs::LogGroup", {"KmsKeyId": key})
    of_others = {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": "arn:aws:logs:us-west-2:111122223333:log-group:a"}}
    key = make_key_with(clients, statement({"Service": LOGS}, Condition=of_others))
    with pytest.raises(Refusal, match="does not allow"):
        resources.create("AWS::Logs::LogGroup", {"KmsKeyId": key})
    made = resources.create("AWS::Logs::LogGroup", {"KmsKeyId": make_key(clients, {"Service": LOGS})})
    with pytest.raises(Refusal, match=text):
        resources.update(made, {"KmsKeyId": UNKNOWN})


def test_repositories_and_file_systems_need_a_key_that_can_be_used(
    account: Account, clients: Clients, disabled: str
) -> None:
    resources = ResourceModels(account)
    closed = make_key(clients, {"Service": LOGS})
    for key, reason in ((UNKNOWN, "does not exist"), (disabled, "is Disabled"), (closed, "does not allow roles")):
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
        (
            (UNKNOWN, "KMS.NotFoundException"),
            (disabled, "KMS.DisabledException"),
            (make_key(clients, {"Service": LOGS}), "KMS.KMSInvalidStateException"),
            (good, ""),
        )
    ):
        bucket = f"bucket-{number}"
        default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        rules = {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default}]}
        ResourceModels(account).create("AWS::S3::Bucket", {"BucketEncryption": rules}, name=bucket)
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
        template = ResourceModels(account).create(
            "AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data}, name=key[-20:]
        )
        return launch_templates.read(account, {"id": template.physical_resource_id}, {})

    with pytest.raises(ServiceException, match=r"AsgInstanceLaunchFailures.*does not allow.*kms:CreateGrant"):
        read(make_key(clients))
    clients("iam").create_service_linked_role(AWSServiceName="autoscaling.amazonaws.com")
    assert read(make_key(clients, {"AWS": AUTO_SCALING}))


def test_a_file_systems_association_needs_a_key_whose_policy_names_fsxs_role(
    account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FSx makes this role for each file system, so that a policy names it by a condition."""
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    ec2, fsx, s3 = clients("ec2"), clients("fsx"), clients("s3")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    system = fsx.create_file_system(**FILE_SYSTEM, SubnetIds=[subnet])["FileSystem"]["FileSystemId"]
    role = "arn:aws:iam::111122223333:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com"
    named = {"ArnLike": {"aws:PrincipalArn": f"{role}/AWSServiceRoleForFSxS3Access_fs-*"}}
    keys = {"closed": make_key(clients), "open": make_key_with(clients, statement({"AWS": "*"}, Condition=named))}
    made = {}
    wait_until(lambda: fsx.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "AVAILABLE", "the file system")
    for bucket, key in keys.items():
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
        association = {
            "FileSystemId": system,
            "FileSystemPath": f"/{bucket}",
            "DataRepositoryPath": f"s3://{bucket}/data/",
        }
        made[bucket] = fsx.create_data_repository_association(**association)["Association"]["AssociationId"]

    def states() -> dict[str, Any]:
        found = fsx.describe_data_repository_associations()["Associations"]
        return {each["AssociationId"]: each for each in found}

    wait_until(lambda: all(each["Lifecycle"] != "CREATING" for each in states().values()), "both associations")
    assert states()[made["open"]]["Lifecycle"] == "AVAILABLE"
    failed = states()[made["closed"]]
    assert failed["Lifecycle"] == "FAILED"
    assert "AWSServiceRoleForFSxS3Access" in failed["FailureDetails"]["Message"]
