"""Wider permissions: compared by meaning, not by text."""

from typing import Any

import pytest

from ops.review.model import Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, changes, dangers, of, worst

TLS = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "s3:*",
    "Resource": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def allow(action: object, resource: object = "arn:aws:s3:::data/*", **more: object) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def role(*statements: object, trust: object = None, **properties: object) -> dict[str, Any]:
    trusted = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": trust or {"Service": "ec2.amazonaws.com"}}
    policies = [{"PolicyName": "p", "PolicyDocument": {"Statement": list(statements)}}]
    document = {"Statement": [trusted]}
    return of("AWS::IAM::Role", AssumeRolePolicyDocument=document, Policies=policies, **properties)


WIDER = [
    (allow("s3:GetObject"), allow("s3:*")),
    (allow("s3:GetObject"), allow(["s3:GetObject", "s3:DeleteObject"])),
    (allow("s3:Get?bject"), allow("s3:Get*bject")),
    (allow("s3:GetObject"), allow("s3:GetObject", "*")),
    (allow("s3:GetObject"), allow("s3:GetObject", {"Fn::GetAtt": ["Data", "Arn"]})),
    (allow("s3:GetObject", Condition={"StringEquals": {"a": "b"}}), allow("s3:GetObject")),
    (
        allow("s3:GetObject", Condition={"StringEquals": {"a": "b"}}),
        allow("s3:GetObject", Condition={"StringEquals": {"a": ["b", "c"]}}),
    ),
    (
        allow("s3:GetObject", Condition={"StringEquals": {"a": "b"}}),
        allow("s3:GetObject", Condition={"StringEqualsIfExists": {"a": "b"}}),
    ),
    (
        allow("s3:GetObject", Condition={"StringNotEquals": {"a": ["b", "c"]}}),
        allow("s3:GetObject", Condition={"StringNotEquals": {"a": "b"}}),
    ),
    (
        {"Effect": "Allow", "NotAction": ["iam:*", "kms:*"], "Resource": "*"},
        {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
    ),
    (allow("s3:GetObject"), {"Effect": "Allow", "Action": "s3:GetObject", "NotResource": "arn:aws:s3:::other"}),
    ({"Effect": "Deny", "Action": "s3:*", "Resource": "*"}, {"Effect": "Deny", "Action": "s3:Put*", "Resource": "*"}),
    (allow("s3:GetObject"), {"Fn::If": ["Condition", {}, {}]}),
]


@pytest.mark.parametrize(("before", "after"), WIDER)
def test_a_statement_that_allows_more_is_wider(pairs: Pairs, before: dict[str, Any], after: dict[str, Any]) -> None:
    found = pairs.changes({"Role": role(before)}, {"Role": role(after)})
    assert Danger.WIDER_PERMISSIONS in dangers(found)


# In the other direction these stay dangerous: nobody knows what an expression resolves to.
REVERSIBLE = [case for case in WIDER if not any(word in str(case) for word in ("Fn::", "NotResource", "Deny"))]


@pytest.mark.parametrize(("after", "before"), REVERSIBLE)
def test_a_statement_that_allows_less_is_harmless(pairs: Pairs, before: dict[str, Any], after: dict[str, Any]) -> None:
    assert dangers(pairs.changes({"Role": role(before)}, {"Role": role(after)})) == set()


def test_split_merged_and_reordered_statements_allow_the_same(pairs: Pairs) -> None:
    merged = role(allow(["s3:GetObject", "s3:PutObject"], ["arn:a/*", "arn:b/*"]))
    split = role(
        allow("s3:PutObject", ["arn:b/*", "arn:a/*"]),
        allow(["s3:GetObject"], "arn:b/*"),
        allow("S3:GetObject", "arn:a/*"),
    )
    found = pairs.changes({"Role": merged}, {"Role": split})
    assert (dangers(found), worst(found)) == (set(), Effect.IN_PLACE)


def test_a_statement_that_moves_to_an_attached_policy_allows_the_same(pairs: Pairs) -> None:
    attached = of("AWS::IAM::Policy", PolicyDocument={"Statement": [allow("s3:GetObject")]}, Roles=[{"Ref": "Role"}])
    found = pairs.changes({"Role": role(allow("s3:GetObject"))}, {"Role": role(), "Policy": attached})
    assert dangers(found) == set()


@pytest.mark.parametrize(
    "trust",
    [
        {"AWS": "arn:aws:iam::999999999999:root"},
        {"Service": ["ec2.amazonaws.com", "lambda.amazonaws.com"]},
        "*",
    ],
)
def test_a_role_that_more_principals_may_assume(pairs: Pairs, trust: object) -> None:
    assert dangers(pairs.changes({"Role": role()}, {"Role": role(trust=trust)})) == {Danger.WIDER_PERMISSIONS}


def test_a_trust_policy_in_a_text_is_read(pairs: Pairs) -> None:
    def trust(subject: str) -> dict[str, Any]:
        text = (
            '{"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Principal": {"Federated": '
            '"${Provider}"}, "Condition": {"StringEquals": {"${Issuer}:sub": "' + subject + '"}}}]}'
        )
        variables = {"Provider": {"Ref": "P"}, "Issuer": {"Fn::Select": [1, {"Fn::Split": ["/", {"Ref": "P"}]}]}}
        return of("AWS::IAM::Role", AssumeRolePolicyDocument={"Fn::Sub": [text, variables]})

    same = pairs.changes({"Role": trust("ray")}, {"Role": {**trust("ray"), "Metadata": {}}})
    other = pairs.changes({"Role": trust("ray")}, {"Role": trust("default")})
    assert (dangers(same), dangers(other)) == (set(), {Danger.WIDER_PERMISSIONS})
    assert "cannot be read" not in other[0].what


def test_managed_policies_and_boundaries(pairs: Pairs) -> None:
    admin = {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AdministratorAccess"}
    bounded = role(PermissionsBoundary="arn:boundary")
    assert dangers(pairs.changes({"R": role()}, {"R": role(ManagedPolicyArns=[admin])})) == {Danger.WIDER_PERMISSIONS}
    assert dangers(pairs.changes({"R": bounded}, {"R": role()})) == {Danger.WIDER_PERMISSIONS}
    assert dangers(pairs.changes({"R": role(ManagedPolicyArns=[admin])}, {"R": bounded})) == set()


@pytest.mark.parametrize(
    ("created", "danger"),
    [
        (role(allow("s3:GetObject")), None),
        (role(allow("*", "*")), Danger.WIDER_PERMISSIONS),
        (role(allow("iam:PassRole", "*")), Danger.WIDER_PERMISSIONS),
        (role(trust={"AWS": "arn:aws:iam::999999999999:root"}), Danger.WIDER_PERMISSIONS),
        (role(ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonS3FullAccess"]), Danger.WIDER_PERMISSIONS),
        (of("AWS::IAM::User"), Danger.WIDER_PERMISSIONS),
    ],
)
def test_a_new_role_is_dangerous_if_its_rights_are_broad_or_strangers_use_it(
    pairs: Pairs, created: dict[str, Any], danger: Danger | None
) -> None:
    found = pairs.changes({"Old": role()}, {"Old": role(), "New": created})
    assert dangers(found) == ({danger} if danger else set())


def test_a_bucket_policy_that_no_longer_enforces_tls(pairs: Pairs) -> None:
    bucket = of("AWS::S3::Bucket")
    policy = of("AWS::S3::BucketPolicy", Bucket={"Ref": "Data"}, PolicyDocument={"Statement": [TLS]})
    found = pairs.changes({"Data": bucket, "Policy": policy}, {"Data": bucket})
    assert dangers(found) == {Danger.WIDER_PERMISSIONS, Danger.LOWER_PROTECTION}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("AWS::KMS::Key", "KeyPolicy"),
        ("AWS::ECR::Repository", "RepositoryPolicyText"),
        ("AWS::EC2::VPCEndpoint", "PolicyDocument"),
    ],
)
def test_a_policy_of_a_resource_that_allows_more(pairs: Pairs, kind: str, name: str) -> None:
    narrow = {"Statement": allow("a:Get", "*", Principal={"AWS": "111122223333"})}
    wide = {"Statement": allow("a:*", "*", Principal={"AWS": "*"})}
    assert dangers(pairs.edited(of(kind, **{name: narrow}), **{name: wide})) == {Danger.WIDER_PERMISSIONS}
    assert dangers(pairs.edited(of(kind, **{name: wide}), **{name: narrow})) == set()


def test_access_to_the_kubernetes_api(pairs: Pairs) -> None:
    def entry(*policies: str, principal: str = "arn:a", groups: tuple[str, ...] = ()) -> dict[str, Any]:
        access = [{"PolicyArn": f"arn:{each}", "AccessScope": {"Type": "cluster"}} for each in policies]
        return of(
            "AWS::EKS::AccessEntry",
            AccessPolicies=access,
            PrincipalArn=principal,
            KubernetesGroups=list(groups),
            ClusterName={"Ref": "Cluster"},
        )

    cluster = of("AWS::EKS::Cluster", ResourcesVpcConfig={"EndpointPublicAccess": False})
    before = {"Cluster": cluster, "Entry": entry("view")}
    for after in (entry("view", "admin"), entry("view", principal="arn:b"), entry("view", groups=("g",))):
        assert Danger.WIDER_PERMISSIONS in dangers(pairs.changes(before, {"Cluster": cluster, "Entry": after}))
    assert dangers(pairs.changes(before, {**before, "Other": entry("view")})) == {Danger.WIDER_PERMISSIONS}
    assert dangers(pairs.changes(None, before)) == set()
    assert dangers(pairs.changes(before, {"Cluster": cluster})) == set()


def test_a_grant_to_a_renamed_bucket_is_the_same_grant(pairs: Pairs) -> None:
    def stacks(bucket: str) -> dict[str, Any]:
        storage = {
            "Resources": {bucket: of("AWS::S3::Bucket")},
            "Outputs": {"Arn": {"Value": {"Fn::GetAtt": [bucket, "Arn"]}, "Export": {"Name": f"{bucket}-arn"}}},
        }
        return {
            "storage": storage,
            "ray": {"Resources": {"Role": role(allow("s3:*", {"Fn::ImportValue": f"{bucket}-arn"}))}},
        }

    assert dangers(changes(pairs.pair(stacks("Old"), stacks("New")))) == {Danger.DATA_LOSS}
