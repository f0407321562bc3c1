"""Test IAM's CloudFormation resources and its policy simulation."""

import json

import pytest

from embedded_account.context import Account
from embedded_account.services.iam.access import backend_of, find_role, trusts
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.updates import trust

READ = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}],
}


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


def test_update_changes_trust_policies_and_attachments(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    role = make_role(
        account,
        "r",
        "lambda.amazonaws.com",
        "ReadOnlyAccess",
        Policies=[{"PolicyName": "old", "PolicyDocument": READ}],
    )

    resources.update(
        role,
        {
            "RoleName": "r",
            "AssumeRolePolicyDocument": trust("ec2.amazonaws.com"),
            "Policies": [{"PolicyName": "new", "PolicyDocument": READ}],
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
        },
    )

    iam, arn = clients("iam"), role.attributes()["Arn"]
    assert trusts(account, arn, "ec2.amazonaws.com")
    assert not trusts(account, arn, "lambda.amazonaws.com")
    assert iam.list_role_policies(RoleName="r")["PolicyNames"] == ["new"]
    attached = iam.list_attached_role_policies(RoleName="r")["AttachedPolicies"]
    assert [policy["PolicyName"] for policy in attached] == ["AmazonSSMManagedInstanceCore"]


def test_role_with_a_foreign_policy_cannot_be_deleted(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    role = make_role(account, "r", "lambda.amazonaws.com")
    clients("iam").put_role_policy(RoleName="r", PolicyName="by-hand", PolicyDocument=json.dumps(READ))

    with pytest.raises(Exception, match="must delete policies first"):
        resources.delete(role)


def test_role_in_an_instance_profile_cannot_be_deleted(account: Account, resources: ResourceModels) -> None:
    role = make_role(account, "r", "ec2.amazonaws.com")
    profile = resources.create("AWS::IAM::InstanceProfile", {"Roles": ["r"]})

    with pytest.raises(Exception, match="must remove roles from instance profile first"):
        resources.delete(role)
    resources.delete(profile)
    resources.delete(role)


def test_unknown_managed_policy_leaves_no_role_behind(account: Account, clients: Clients) -> None:
    with pytest.raises(Exception, match="AmazonEksClusterPolicy does not exist or is not attachable"):
        make_role(account, "r", "eks.amazonaws.com", "AmazonEksClusterPolicy")

    assert clients("iam").list_roles()["Roles"] == []


def test_principal_that_does_not_exist_is_refused(account: Account, resources: ResourceModels) -> None:
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{account.account_id}:role/nobody"},
                "Action": "sts:AssumeRole",
            }
        ],
    }

    with RefusedWith("MalformedPolicyDocument", "Invalid principal in policy"):
        resources.create("AWS::IAM::Role", {"AssumeRolePolicyDocument": document})


def test_inline_policies_of_a_role_share_one_size_limit(account: Account, resources: ResourceModels) -> None:
    make_role(account, "r", "lambda.amazonaws.com")
    big = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"arn:aws:s3:::b/{i:060}" for i in range(80)]}
        ],
    }
    resources.create("AWS::IAM::Policy", {"PolicyName": "one", "PolicyDocument": big, "Roles": ["r"]})

    with RefusedWith("LimitExceeded", "Maximum policy size of 10240 bytes exceeded"):
        resources.create("AWS::IAM::Policy", {"PolicyName": "two", "PolicyDocument": big, "Roles": ["r"]})


def test_inline_policy_moves_between_roles(account: Account, clients: Clients, resources: ResourceModels) -> None:
    make_role(account, "a", "lambda.amazonaws.com")
    make_role(account, "b", "lambda.amazonaws.com")
    policy = resources.create("AWS::IAM::Policy", {"PolicyName": "p", "PolicyDocument": READ, "Roles": ["a"]})

    resources.update(policy, {"PolicyName": "p", "PolicyDocument": READ, "Roles": ["b"]})

    iam = clients("iam")
    assert iam.list_role_policies(RoleName="a")["PolicyNames"] == []
    assert iam.list_role_policies(RoleName="b")["PolicyNames"] == ["p"]


def test_managed_policy_keeps_five_versions(account: Account, clients: Clients, resources: ResourceModels) -> None:
    make_role(account, "r", "lambda.amazonaws.com")
    policy = resources.create("AWS::IAM::ManagedPolicy", {"PolicyDocument": READ, "Roles": ["r"]})

    for number in range(6):
        document = {**READ, "Statement": [{**READ["Statement"][0], "Sid": f"S{number}"}]}  # type: ignore[dict-item]
        resources.update(policy, {"PolicyDocument": document, "Roles": ["r"]})

    versions = clients("iam").list_policy_versions(PolicyArn=policy.physical_resource_id)["Versions"]
    assert len(versions) == 5
    assert [version["VersionId"] for version in versions if version["IsDefaultVersion"]] == ["v7"]
    resources.delete(policy)


def test_oidc_provider_exists_once_per_url(account: Account, clients: Clients, resources: ResourceModels) -> None:
    url = "https://oidc.eks.us-west-2.amazonaws.com/id/ABC"
    provider = resources.create("AWS::IAM::OIDCProvider", {"Url": url, "ClientIdList": ["sts.amazonaws.com"]})

    found = clients("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=provider.physical_resource_id)
    assert found["ClientIDList"] == ["sts.amazonaws.com"]
    with RefusedWith(None, "already exists"):
        resources.create("AWS::IAM::OIDCProvider", {"Url": url})
    resources.delete(provider)
    assert clients("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"] == []


def test_role_that_does_not_exist_cannot_be_assumed(account: Account, clients: Clients) -> None:
    sts = clients("sts")
    arn = make_role(account, "r", "lambda.amazonaws.com").attributes()["Arn"]

    assert sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]["AccessKeyId"]
    with pytest.raises(sts.exceptions.ClientError, match="AccessDenied"):
        sts.assume_role(RoleArn=f"{arn}-gone", RoleSessionName="session")


def test_a_role_is_found_while_a_stack_creates_others(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = make_role(account, "sought", "lambda.amazonaws.com").attributes()["Arn"]
    roles = backend_of(account).roles

    class CreatedMeanwhile:
        @property
        def arn(self) -> str:
            monkeypatch.setitem(roles, f"later-{len(roles)}", self)
            return ""

    [key] = (key for key, each in roles.items() if each.name == "sought")
    sought = roles.pop(key)
    monkeypatch.setitem(roles, "first", CreatedMeanwhile())
    roles[key] = sought
    assert find_role(account, arn) is sought
