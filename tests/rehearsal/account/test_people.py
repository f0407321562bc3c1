"""The roles of `ops policy` against the account: each may do its own work, and is refused the next step up."""

import hashlib
import secrets
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from rich.console import Console

import config
from config import naming
from config.load import EXAMPLES
from embedded_account.context import Account
from embedded_account.existing import make
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from k8s_charts.shared.names import IMAGE_BUILD_LOGS
from ops.jobs.bucket import WorkingDirUpload
from ops.jobs.packing import LargePackage, pack
from ops.policy.role import PersonRole
from ops.progress import Bytes
from rehearsal.run.existing_resources import existing_resources
from rehearsal.run.owner import make_boundary
from tests.rehearsal.account import delivery_roles
from tests.support import assumed_role, people

pytestmark = pytest.mark.product

DEV = config.load("dev")
OTHER = {"Resources": {"Log": {"Type": "AWS::Logs::LogGroup"}}}


@pytest.fixture
def person(account: Account, clients: Clients, aws_session: Any) -> Callable[[PersonRole], Clients]:
    """Return a function that returns clients of a role of `dev`; unlike `as_person`, refusals are expected."""

    def of(role: PersonRole) -> Clients:
        keys = assumed_role.credentials(clients, people.make_role(clients, DEV, role))
        return people.client_of(aws_session, account.endpoint, keys)

    return of


def refused(action: str, call: Any, **arguments: Any) -> None:
    with pytest.raises(ClientError, match=f"not authorized to perform: {action} on resource"):
        call(**arguments)


def bootstrap_role(clients: Clients, name: str) -> str:
    """Create a role like that of CDK's bootstrap; return its ARN."""
    arn = naming.bootstrap_role(DEV, name)
    trust = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",'
        f' "Principal": {{"AWS": "{DEV.account}"}}}}]}}'
    )
    clients("iam").create_role(RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=trust)
    return arn


def test_deployer_assumes_the_bootstraps_roles_and_changes_nothing_itself(
    person: Callable[[PersonRole], Clients], clients: Clients, stacks: StackDeployer
) -> None:
    stack = naming.stack(DEV, "ray")
    stacks.deploy(stack, OTHER)
    deployer = person(PersonRole.DEPLOYER)
    for name in naming.BOOTSTRAP_ROLES:
        role = {"RoleArn": bootstrap_role(clients, name), "RoleSessionName": "cdk"}
        assert deployer("sts").assume_role(**role)["Credentials"]
    execution = {"RoleArn": bootstrap_role(clients, "cfn-exec"), "RoleSessionName": "cdk"}
    refused("sts:AssumeRole", deployer("sts").assume_role, **execution)
    refused("cloudformation:DeleteStack", deployer("cloudformation").delete_stack, StackName=stack)


def test_operator_reads_this_environments_stacks_and_deploys_none(
    person: Callable[[PersonRole], Clients], clients: Clients, stacks: StackDeployer
) -> None:
    own, others = naming.stack(DEV, "ray"), "another-ray"
    for name in (own, others):
        stacks.deploy(name, OTHER)
    operator = person(PersonRole.OPERATOR)
    assert operator("cloudformation").describe_stacks(StackName=own)["Stacks"]
    refused("cloudformation:DescribeStacks", operator("cloudformation").describe_stacks, StackName=others)
    refused("cloudformation:DescribeStacks", operator("cloudformation").describe_stacks)
    role = {"RoleArn": bootstrap_role(clients, "deploy"), "RoleSessionName": "cdk"}
    refused("sts:AssumeRole", operator("sts").assume_role, **role)
    assert operator("sagemaker").list_clusters()["ClusterSummaries"] == []


def test_scientist_finds_the_cluster_and_reads_no_other_bucket(
    person: Callable[[PersonRole], Clients], clients: Clients
) -> None:
    bucket = naming.lifecycle_bucket(DEV)
    clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
    scientist = person(PersonRole.SCIENTIST)
    with pytest.raises(ClientError, match="No cluster found"):
        scientist("eks").describe_cluster(name=naming.eks_cluster(DEV))
    refused("eks:DescribeCluster", scientist("eks").describe_cluster, name="another")
    entry = {"principalArn": f"arn:aws:iam::{DEV.account}:role/Rehearsal"}
    with pytest.raises(ClientError, match="No cluster found"):
        scientist("eks").describe_access_entry(clusterName=naming.eks_cluster(DEV), **entry)
    refused("eks:DescribeAccessEntry", scientist("eks").describe_access_entry, clusterName="another", **entry)
    refused("sagemaker:ListClusters", scientist("sagemaker").list_clusters)
    refused("s3:ListBucket", scientist("s3").list_objects_v2, Bucket=bucket)


def test_viewer_lists_data_and_neither_reads_nor_changes_it(
    person: Callable[[PersonRole], Clients], clients: Clients
) -> None:
    bucket, key = naming.data_bucket(DEV), "results/model.bin"
    clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
    clients("s3").put_object(Bucket=bucket, Key=key, Body=b"weights")
    viewer = person(PersonRole.VIEWER)("s3")
    assert [each["Key"] for each in viewer.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    refused("s3:GetObject", viewer.get_object, Bucket=bucket, Key=key)
    refused("s3:PutObject", viewer.put_object, Bucket=bucket, Key=key, Body=b"")
    refused("s3:DeleteObject", viewer.delete_object, Bucket=bucket, Key=key)


def test_scientist_uploads_a_working_directory_once_and_ctrl_c_leaves_no_part(
    person: Callable[[PersonRole], Clients], clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, s3 = naming.data_bucket(DEV), clients("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
    # S3 allows no smaller part but the last.
    part = 5 * 1024 * 1024
    monkeypatch.setattr("ops.jobs.bucket._CONFIG", TransferConfig(multipart_threshold=part, multipart_chunksize=part))
    (tmp_path / "data.bin").write_bytes(secrets.token_bytes(part + 1))
    package = pack(tmp_path, ())
    assert isinstance(package, LargePackage)
    upload, said = WorkingDirUpload(DEV, package), list[str]()
    with pytest.raises(ClientError, match=r"AccessDenied|\(403\)"):
        upload.run(person(PersonRole.VIEWER)("s3"), Console(quiet=True), said.append)

    # A process in the background ignores Ctrl-C, and so would this one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patched:
        patched.setattr(Bytes, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            upload.run(person(PersonRole.SCIENTIST)("s3"), Console(quiet=True), said.append)
    signal.signal(signal.SIGINT, before)
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)

    scientist = person(PersonRole.SCIENTIST)("s3")
    for _ in range(2):
        upload.run(scientist, Console(quiet=True), said.append)
    address = f"s3://{bucket}/ray/packages/{package.digest}.zip"
    *_, uploading, there = said
    assert uploading.startswith(f"uploading the working directory to {address} (")
    assert there.startswith(f"{address} has the working directory already (")
    stored = s3.get_object(Bucket=bucket, Key=f"ray/packages/{package.digest}.zip")["Body"].read()
    assert hashlib.sha256(stored).hexdigest() == package.digest

    # Another content under the key is replaced: the job would refuse it.
    s3.put_object(Bucket=bucket, Key=f"ray/packages/{package.digest}.zip", Body=b"x")
    upload.run(scientist, Console(quiet=True), said.append)
    assert said[-1].startswith("uploading")


def interrupted(*_: object) -> None:
    """Do what Ctrl-C does, in a thread of the transfer manager."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    # The main thread cancels the upload meanwhile.
    time.sleep(1)


def test_people_and_workflows_use_the_companys_key_through_the_service_that_needs_it(
    account: Account, clients: Clients, aws_session: Any, tmp_path: Path
) -> None:
    # With an image that is built in the cluster, whose log is encrypted too.
    closed = config.load("closed", EXAMPLES).model_copy(update={"image": DEV.image})
    key, bucket = str(closed.company.kms_key), naming.data_bucket(closed)
    make(account, existing_resources(closed))
    clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": closed.region})
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    clients("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    of = {
        role: people.client_of(
            aws_session, account.endpoint, assumed_role.credentials(clients, people.make_role(clients, closed, role))
        )
        for role in (PersonRole.SCIENTIST, PersonRole.DEPLOYER)
    }
    s3 = of[PersonRole.SCIENTIST]("s3")
    assert s3.put_object(Bucket=bucket, Key="datasets/a", Body=b"a")["SSEKMSKeyId"] == key
    assert s3.get_object(Bucket=bucket, Key="datasets/a")["Body"].read() == b"a"
    assert s3.create_multipart_upload(Bucket=bucket, Key="datasets/b")["UploadId"]
    clients("s3").put_object(Bucket=bucket, Key=f"{IMAGE_BUILD_LOGS}/build", Body=b"log")
    make_boundary(clients("iam"), closed)
    deploy = delivery_roles.deploy(clients, closed, tmp_path)["DeployRoleArn"]
    keys = delivery_roles.job_credentials(account, clients, deploy, github_environment=closed.name)
    for who in (of[PersonRole.DEPLOYER], people.client_of(aws_session, account.endpoint, keys)):
        log = who("s3").get_object(Bucket=bucket, Key=f"{IMAGE_BUILD_LOGS}/build")
        assert log["Body"].read() == b"log"
        refused("s3:GetObject", who("s3").get_object, Bucket=bucket, Key="datasets/a")
    refused("kms:DescribeKey", of[PersonRole.SCIENTIST]("kms").describe_key, KeyId=key)
    kms = of[PersonRole.DEPLOYER]("kms")
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"
    refused("kms:DisableKey", kms.disable_key, KeyId=key)


def test_admin_creates_the_bootstraps_roles_and_no_others(person: Callable[[PersonRole], Clients]) -> None:
    iam = person(PersonRole.ADMIN)("iam")
    refused("iam:CreateRole", iam.create_role, RoleName="Mine", AssumeRolePolicyDocument="{}")
    refused("iam:CreateAccessKey", iam.create_access_key, UserName="me")
