"""Test access to clusters: access entries, access policies, tokens and the identities of pods."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from botocore.credentials import Credentials
from botocore.model import ServiceId
from botocore.session import get_session
from botocore.signers import RequestSigner

from embedded_account.context import Account
from embedded_account.services.eks.authenticator import InvalidTokenError, authenticate
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.testing.clients import Clients
from embedded_account.testing.eks_setup import EksSetup, set_up
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.token_issuer import FakeTokenIssuer
from embedded_account.testing.waiting import PATIENCE_SECONDS, wait_until

POLICY = "arn:aws:eks::aws:cluster-access-policy/"
WHOLE_CLUSTER = {"type": "cluster"}


@pytest.fixture
def eks(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[EksSetup]:
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    found = set_up(account, clients)
    found.create()
    yield found
    clients("eks").delete_cluster(name="c")


@pytest.fixture
def member(eks: EksSetup) -> str:
    """Return the ARN of a role that has an access entry."""
    arn = str(make_role(eks.account, "member", "lambda.amazonaws.com").attributes()["Arn"])
    eks.api.create_access_entry(clusterName="c", principalArn=arn, kubernetesGroups=["team"])
    return arn


def token_of(
    eks: EksSetup, role_arn: str, *, cluster: str = "c", endpoint: str | None = None, expires: int = 60
) -> str:
    """Return a token like `aws eks get-token`: a presigned GetCallerIdentity request that names the cluster."""
    keys = eks.clients("sts").assume_role(RoleArn=role_arn, RoleSessionName="anna")["Credentials"]
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    # The signer only borrows the events of the session, which must live until the request is signed.
    session = get_session()
    events = session.get_component("event_emitter")
    signer = RequestSigner(ServiceId("STS"), "us-west-2", "sts", "v4", credentials, events)
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{endpoint or eks.account.endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name="us-west-2",
        expires_in=expires,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def admit(eks: EksSetup, token: str, cluster: str = "c") -> dict[str, Any]:
    return authenticate(eks.account, service_of(eks.account), cluster, token)


def test_webhook_names_user_and_groups(eks: EksSetup, member: str) -> None:
    review: Any = {"apiVersion": "authentication.k8s.io/v1", "spec": {"token": token_of(eks, member)}}

    answer = requests.post(eks.account.authenticator_url("c"), json=review, timeout=PATIENCE_SECONDS).json()

    user = answer["status"]["user"]
    assert answer["status"]["authenticated"]
    assert user["username"] == f"arn:aws:sts::{eks.account.account_id}:assumed-role/member/anna"
    assert "team" in user["groups"]
    assert "system:masters" not in user["groups"]


def test_role_without_an_entry_has_no_access(eks: EksSetup) -> None:
    stranger = make_role(eks.account, "stranger", "lambda.amazonaws.com").attributes()["Arn"]

    with pytest.raises(InvalidTokenError, match="no access entry of cluster c"):
        admit(eks, token_of(eks, stranger))


def test_token_for_another_cluster_is_refused(eks: EksSetup, member: str) -> None:
    with pytest.raises(InvalidTokenError, match="made for a cluster other than"):
        admit(eks, token_of(eks, member, cluster="other"))


def test_altered_token_is_refused(eks: EksSetup, member: str) -> None:
    encoded = token_of(eks, member).removeprefix("k8s-aws-v1.")
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    altered = url.replace("X-Amz-Expires=60", "X-Amz-Expires=61")

    with pytest.raises(InvalidTokenError, match="signature is wrong"):
        admit(eks, "k8s-aws-v1." + base64.urlsafe_b64encode(altered.encode()).decode())


def test_token_signed_for_another_sts_is_refused(eks: EksSetup, member: str) -> None:
    with pytest.raises(InvalidTokenError, match="not for this account's STS"):
        admit(eks, token_of(eks, member, endpoint="https://sts.us-west-2.amazonaws.com"))


def test_old_token_is_refused(eks: EksSetup, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    token, now = token_of(eks, member), eks.account.clock.now()
    with monkeypatch.context() as later:
        later.setattr(eks.account.clock, "now", lambda: now + timedelta(minutes=16))
        with pytest.raises(InvalidTokenError, match="has expired"):
            admit(eks, token)


@pytest.mark.parametrize("token", ["", "abc", "k8s-aws-v1.%%%", "k8s-aws-v1.aHR0cDovL3g"])
def test_garbage_is_refused(eks: EksSetup, token: str) -> None:
    with pytest.raises(InvalidTokenError):
        admit(eks, token)


def test_cluster_admin_policy_grants_system_masters_until_it_is_removed(eks: EksSetup, member: str) -> None:
    policy = {"clusterName": "c", "principalArn": member, "policyArn": POLICY + "AmazonEKSClusterAdminPolicy"}

    eks.api.associate_access_policy(**policy, accessScope=WHOLE_CLUSTER)
    assert "system:masters" in admit(eks, token_of(eks, member))["groups"]
    eks.api.disassociate_access_policy(**policy)

    assert "system:masters" not in admit(eks, token_of(eks, member))["groups"]


def test_policy_of_a_namespace_is_bound_when_the_namespace_appears(eks: EksSetup, member: str) -> None:
    policy = {"clusterName": "c", "principalArn": member, "policyArn": POLICY + "AmazonEKSEditPolicy"}
    eks.api.associate_access_policy(**policy, accessScope={"type": "namespace", "namespaces": ["ray-*"]})
    assert eks.kubernetes.names("rolebindings") == []

    eks.kubernetes.make_namespace("ray-dev")
    eks.kubernetes.make_namespace("default")

    wait_until(lambda: eks.kubernetes.names("rolebindings"), "the role bindings")
    (path,) = [path for path in eks.kubernetes.objects if "/rolebindings/" in path]
    assert "/namespaces/ray-dev/" in path
    binding = eks.kubernetes.objects[path]
    assert binding["roleRef"]["name"] == "edit"
    assert binding["subjects"][0]["name"] in admit(eks, token_of(eks, member))["groups"]
    eks.api.disassociate_access_policy(**policy)
    assert eks.kubernetes.names("rolebindings") == []


def test_deleting_an_entry_deletes_its_bindings(eks: EksSetup, member: str) -> None:
    eks.api.associate_access_policy(
        clusterName="c",
        principalArn=member,
        policyArn=POLICY + "AmazonSagemakerHyperpodTrainingPolicy",
        accessScope=WHOLE_CLUSTER,
    )
    assert len(eks.kubernetes.names("clusterrolebindings")) == 1
    assert eks.kubernetes.names("clusterroles") == ["rehearsal:AmazonSagemakerHyperpodTrainingPolicy"]

    eks.api.delete_access_entry(clusterName="c", principalArn=member)

    assert eks.kubernetes.names("clusterrolebindings") == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"principalArn": "arn:aws:iam::111122223333:role/nobody"}, "invalid principal"),
        ({"kubernetesGroups": ["system:masters"]}, "cannot start with"),
        ({"type": "SOMETHING"}, "STANDARD"),
        ({"type": "HYPERPOD_LINUX", "kubernetesGroups": ["x"]}, "cannot be set"),
    ],
)
def test_bad_entries_are_refused(eks: EksSetup, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(eks.api.exceptions.InvalidParameterException) as refusal:
        eks.api.create_access_entry(**{"clusterName": "c", "principalArn": eks.node_role_arn, **changes})
    assert reason in str(refusal.value)


def test_second_entry_of_a_principal_is_refused(eks: EksSetup, member: str) -> None:
    with pytest.raises(eks.api.exceptions.ResourceInUseException):
        eks.api.create_access_entry(clusterName="c", principalArn=member)


def test_hyperpod_entries_take_no_policies(eks: EksSetup) -> None:
    eks.api.create_access_entry(clusterName="c", principalArn=eks.node_role_arn, type="HYPERPOD_LINUX")

    with pytest.raises(eks.api.exceptions.InvalidRequestException, match="HYPERPOD_LINUX"):
        eks.api.associate_access_policy(
            clusterName="c",
            principalArn=eks.node_role_arn,
            policyArn=POLICY + "AmazonEKSViewPolicy",
            accessScope=WHOLE_CLUSTER,
        )


def test_unknown_policy_is_refused(eks: EksSetup, member: str) -> None:
    with pytest.raises(eks.api.exceptions.InvalidParameterException, match="AmazonEKSRootPolicy is not valid"):
        eks.api.associate_access_policy(
            clusterName="c",
            principalArn=member,
            policyArn=POLICY + "AmazonEKSRootPolicy",
            accessScope=WHOLE_CLUSTER,
        )


def test_cloudformation_keeps_policies_as_declared(eks: EksSetup, member: str) -> None:
    resources, arn = ResourceModels(eks.account), eks.role_arn

    def properties(*policies: str) -> dict[str, Any]:
        scope = {"Type": "namespace", "Namespaces": ["ray"]}
        return {
            "ClusterName": "c",
            "PrincipalArn": arn,
            "AccessPolicies": [{"PolicyArn": POLICY + policy, "AccessScope": scope} for policy in policies],
        }

    entry = resources.create("AWS::EKS::AccessEntry", properties("AmazonEKSViewPolicy"))
    resources.update(entry, properties("AmazonEKSEditPolicy"))

    listed = eks.api.list_associated_access_policies(clusterName="c", principalArn=arn)
    assert [policy["policyArn"] for policy in listed["associatedAccessPolicies"]] == [POLICY + "AmazonEKSEditPolicy"]
    resources.delete(entry)
    assert eks.api.list_access_entries(clusterName="c")["accessEntries"] == [member]


def irsa_role(eks: EksSetup, conditions: dict[str, str]) -> str:
    """Create a role for service accounts of cluster `c`, with conditions on the claims of its issuer."""
    issuer = eks.api.describe_cluster(name="c")["cluster"]["identity"]["oidc"]["issuer"]
    resources = ResourceModels(eks.account)
    provider = resources.create("AWS::IAM::OIDCProvider", {"Url": issuer, "ClientIdList": ["sts.amazonaws.com"]})
    host = issuer.removeprefix("https://")
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider.physical_resource_id},
        "Condition": {"StringEquals": {f"{host}:{claim}": value for claim, value in conditions.items()}},
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    role = resources.create("AWS::IAM::Role", {"RoleName": "irsa", "AssumeRolePolicyDocument": document})
    return str(role.attributes()["Arn"])


POD = "system:serviceaccount:ray:head"


@pytest.mark.parametrize(
    ("conditions", "user", "code"),
    [
        ({"sub": POD, "aud": "sts.amazonaws.com"}, POD, None),
        ({"sub": POD, "aud": "sts.amazonaws.com"}, "system:serviceaccount:ray:other", "AccessDenied"),
        ({"sub": POD, "aud": "another"}, POD, "AccessDenied"),
        ({"sub": POD, "unknown": "claim"}, POD, "AccessDenied"),
        ({"sub": POD, "aud": "sts.amazonaws.com"}, None, "InvalidIdentityToken"),
    ],
)
def test_pod_gets_its_role_by_subject_and_audience(
    eks: EksSetup, conditions: dict[str, str], user: str | None, code: str | None
) -> None:
    role = irsa_role(eks, conditions)
    if user:
        eks.kubernetes.tokens["token", "sts.amazonaws.com"] = user
    sts = eks.clients("sts")
    request = {"RoleArn": role, "RoleSessionName": "pod", "WebIdentityToken": "token"}

    if code is None:
        assert sts.assume_role_with_web_identity(**request)["Credentials"]["AccessKeyId"]
    else:
        with pytest.raises(sts.exceptions.ClientError, match=code):
            sts.assume_role_with_web_identity(**request)


@pytest.mark.parametrize(
    ("subject", "audience", "code"),
    [
        ("repo:a/b:environment:dev", "sts.amazonaws.com", None),
        ("repo:a/c:environment:dev", "sts.amazonaws.com", "AccessDenied"),
        ("repo:a/b:environment:dev", "another", "InvalidIdentityToken"),
    ],
)
def test_token_of_an_issuer_outside_of_aws_opens_the_role_that_trusts_its_subject(
    account: Account, clients: Clients, subject: str, audience: str, code: str | None
) -> None:
    host, sts = "token.example.com", clients("sts")
    issuer = account.token_issuers[f"https://{host}"] = FakeTokenIssuer()
    provider = clients("iam").create_open_id_connect_provider(Url=f"https://{host}", ClientIDList=["sts.amazonaws.com"])
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider["OpenIDConnectProviderArn"]},
        "Condition": {"StringEquals": {f"{host}:sub": "repo:a/b:environment:dev"}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    role = clients("iam").create_role(RoleName="job", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    request = {"RoleArn": role, "RoleSessionName": "job", "WebIdentityToken": issuer.token(subject, audience)}
    if code is None:
        assert sts.assume_role_with_web_identity(**request)["Credentials"]["AccessKeyId"]
    else:
        with pytest.raises(sts.exceptions.ClientError, match=code):
            sts.assume_role_with_web_identity(**request)
