"""The roles of `ops policy` against the account: each may do its own work, and is refused the next step up."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

import config
from config import naming
from config.load import EXAMPLES
from embedded_account.context import Account
from embedded_account.existing import make
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from ops.policy.role import PersonRole
from rehearsal.run.existing_resources import existing_resources
from tests.support import people

pytestmark = pytest.mark.product

DEV = config.load("dev")
OTHER = {"Resources": {"Log": {"Type": "AWS::Logs::LogGroup"}}}


@pytest.fixture
def person(account: Account, clients: Clients, aws_session: Any) -> Callable[[PersonRole], Clients]:
    """Return a function that returns clients of a role of `dev`; unlike `as_person`, refusals are expected."""

    def of(role: PersonRole) -> Clients:
        keys = people.credentials(clients, people.make_role(clients, DEV, role))
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


def test_people_use_the_companys_key_through_the_service_that_needs_it(
    account: Account, clients: Clients, aws_session: Any
) -> None:
    closed = config.load("closed", EXAMPLES)
    key, bucket = str(closed.company.kms_key), naming.data_bucket(closed)
    make(account, existing_resources(closed))
    clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": closed.region})
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    clients("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    of = {
        role: people.client_of(
            aws_session, account.endpoint, people.credentials(clients, people.make_role(clients, closed, role))
        )
        for role in (PersonRole.SCIENTIST, PersonRole.DEPLOYER)
    }
    s3 = of[PersonRole.SCIENTIST]("s3")
    assert s3.put_object(Bucket=bucket, Key="datasets/a", Body=b"a")["SSEKMSKeyId"] == key
    assert s3.get_object(Bucket=bucket, Key="datasets/a")["Body"].read() == b"a"
    assert s3.create_multipart_upload(Bucket=bucket, Key="datasets/b")["UploadId"]
    refused("kms:DescribeKey", of[PersonRole.SCIENTIST]("kms").describe_key, KeyId=key)
    kms = of[PersonRole.DEPLOYER]("kms")
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"
    refused("kms:DisableKey", kms.disable_key, KeyId=key)


def test_admin_creates_the_bootstraps_roles_and_no_others(person: Callable[[PersonRole], Clients]) -> None:
    iam = person(PersonRole.ADMIN)("iam")
    refused("iam:CreateRole", iam.create_role, RoleName="Mine", AssumeRolePolicyDocument="{}")
    refused("iam:CreateAccessKey", iam.create_access_key, UserName="me")
