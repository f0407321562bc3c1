"""CloudFormation acts with the rights of the stack's role, or else with those of the caller."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from embedded_account.cloudformation.rights import RIGHTS
from embedded_account.context import Account
from embedded_account.testing.clients import ACCOUNT_ID, REGION, Clients
from embedded_account.testing.stacks import StackDeployer
from embedded_account.testing.updates import trust

from .test_permissions import BOUNDARY, People, policy, statement

DEPLOYS: Final = statement("cloudformation:*")
ROLE: Final = {
    "Type": "AWS::IAM::Role",
    "Properties": {"RoleName": "made", "AssumeRolePolicyDocument": trust("ec2.amazonaws.com")},
}
ROLES: Final = f"arn:aws:iam::{ACCOUNT_ID}:role/*"
UNUSED: Final[Mapping[str, str]] = {
    "iam:*GroupPolicy iam:*UserPolicy": "policies of users and groups are not modelled",
    "iam:TagRole iam:UntagRole": "a creation takes no tag away, and a deletion sets none",
    "iam:UpdateRoleDescription": "UpdateRole replaces it (IAM API reference)",
    "iam:PassRole s3tables:* s3:*MetadataTable* s3:UpdateBucketMetadata*": "replication, metadata tables: not modelled",
    "kms:*": "ECR makes a grant for a repository's key: not modelled",
    "s3:PutBucketAbac s3:TagResource s3:UntagResource": "attribute-based access to buckets is off by default",
    "s3:GetBucketAcl s3:PutBucketAcl s3:PutObjectAcl": "for ACLs other than private (S3 API reference, CreateBucket)",
    "s3:DeleteObject s3:ListBucket": "no property needs them (S3 API reference, CreateBucket and DeleteBucket)",
    "s3:DeleteBucketWebsite": "websites are not modelled",
    "s3:DeleteBucketAnalyticsConfiguration s3:DeleteBucketCors s3:DeleteBucketEncryption s3:DeleteBucketLifecycle "
    "s3:DeleteBucketMetricsConfiguration s3:DeleteBucketReplication s3:PutBucketReplication "
    "s3:PutObjectLockConfiguration": "no actions of IAM (service authorization reference)",
}
"""Patterns of rights that schemas list and `RIGHTS` lacks, with the reason."""


@pytest.fixture
def people(account: Account, clients: Clients, aws_session: Any) -> People:
    return People(account, clients, aws_session)


def deploy(clients: Clients, resources: Mapping[str, Any], **options: Any) -> tuple[str, StackDeployer]:
    stacks = StackDeployer(clients("cloudformation"))
    own = {"Capabilities": ["CAPABILITY_NAMED_IAM"], **options}
    return stacks.deploy("own", {"Resources": dict(resources)}, **own), stacks


def test_a_missing_right_of_the_caller_fails_the_resource_and_names_action_resource_and_role(people: People) -> None:
    caller = people.make("caller", DEPLOYS, statement(["iam:CreateRole", "iam:TagRole"], ROLES))
    status, stacks = deploy(caller, {"Role": ROLE})
    assert status == "ROLLBACK_COMPLETE"
    assert stacks.reason("own", "Role", "CREATE_FAILED") == (
        f"User: arn:aws:sts::{ACCOUNT_ID}:assumed-role/caller/AWSCloudFormation is not authorized to perform: "
        f"iam:GetRole on resource: arn:aws:iam::{ACCOUNT_ID}:role/made because no identity-based policy allows the "
        "iam:GetRole action"
    )


def test_the_stacks_role_counts_in_place_of_the_caller(people: People, clients: Clients) -> None:
    own = statement(["iam:CreateRole", "iam:GetRole", "iam:DeleteRole", "iam:List*"], ROLES)
    iam = clients("iam")
    role = iam.create_role(
        RoleName="execution", AssumeRolePolicyDocument=json.dumps(trust("cloudformation.amazonaws.com"))
    )
    iam.put_role_policy(RoleName="execution", PolicyName="own", PolicyDocument=policy(own))
    caller = people.make("caller", DEPLOYS, statement("iam:PassRole", ROLES))
    status, stacks = deploy(caller, {"Role": ROLE}, RoleARN=role["Role"]["Arn"])
    assert status == "CREATE_COMPLETE"
    assert stacks.delete("own") == "DELETE_COMPLETE"
    assert ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT_ID}:role/made") in people.needed("execution")


@pytest.mark.parametrize(
    ("properties", "missing"),
    [
        ({}, None),
        ({"VersioningConfiguration": {"Status": "Enabled"}}, "s3:PutBucketVersioning"),
        ({"Tags": [{"Key": "team", "Value": "a"}]}, "s3:PutBucketTagging"),
        ({"PublicAccessBlockConfiguration": {"BlockPublicAcls": True}}, "s3:PutBucketPublicAccessBlock"),
    ],
)
def test_a_right_is_needed_where_its_property_is_set(
    people: People, properties: Mapping[str, Any], missing: str | None
) -> None:
    caller = people.make("caller", DEPLOYS, statement("s3:CreateBucket", "arn:aws:s3:::named"))
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "named", **properties}}
    status, stacks = deploy(caller, {"Bucket": bucket})
    assert status == ("ROLLBACK_COMPLETE" if missing else "CREATE_COMPLETE")
    if missing:
        said = stacks.reason("own", "Bucket", "CREATE_FAILED")
        assert f"not authorized to perform: {missing} on resource: arn:aws:s3:::named" in said


@pytest.mark.parametrize(
    ("text", "needed"), [("ecr:BatchGetImage", "ecr:SetRepositoryPolicy"), (None, "ecr:DeleteRepositoryPolicy")]
)
def test_a_changed_policy_is_set_and_only_one_that_is_gone_is_deleted(
    people: People, text: str | None, needed: str
) -> None:
    """The handler of AWS::ECR::Repository calls DeleteRepositoryPolicy where the new properties have no text."""

    def repository(allowed: str | None) -> Mapping[str, Any]:
        every = {"Effect": "Allow", "Principal": "*", "Action": allowed}
        texts = {"RepositoryPolicyText": {"Version": "2012-10-17", "Statement": [every]}} if allowed else {}
        return {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "named", **texts}}

    own = statement("ecr:*", f"arn:aws:ecr:{REGION}:{ACCOUNT_ID}:repository/named")
    caller = people.make("caller", DEPLOYS, own)
    deploy(caller, {"Images": repository("ecr:DescribeImages")})
    before = len(people.needed("caller"))
    assert deploy(caller, {"Images": repository(text)})[0] == "UPDATE_COMPLETE"
    asked = {action for action, _ in people.needed("caller")[before:]}
    assert {each for each in asked if each.endswith("RepositoryPolicy")} == {needed}


@pytest.mark.parametrize("boundary", [BOUNDARY, None])
def test_a_condition_on_the_boundary_of_created_roles_holds(
    people: People, clients: Clients, boundary: str | None
) -> None:
    clients("iam").create_policy(PolicyName="boundary", PolicyDocument=policy(statement("s3:*")))
    only = {"StringEquals": {"iam:PermissionsBoundary": BOUNDARY}}
    caller = people.make(
        "caller", DEPLOYS, statement("iam:CreateRole", ROLES, Condition=only), statement("iam:GetRole", ROLES)
    )
    properties = ROLE["Properties"] | ({"PermissionsBoundary": boundary} if boundary else {})  # type: ignore[operator]
    status, _ = deploy(caller, {"Role": ROLE | {"Properties": properties}})
    assert status == ("CREATE_COMPLETE" if boundary else "ROLLBACK_COMPLETE")


@pytest.mark.parametrize("name", RIGHTS)
def test_each_right_of_the_types_schema_is_evaluated_or_has_a_reason_not_to_be(name: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region=REGION, resource_type=name).schema
    reasons = [pattern for patterns in UNUSED for pattern in patterns.split()]
    for operation, rights in RIGHTS[name].items():
        listed = set(schema["handlers"][operation]["permissions"])
        assert rights.keys() <= listed, operation
        assert not [each for each in listed - rights.keys() if not any(fnmatchcase(each, one) for one in reasons)]
