"""Test that a caller needs the operation's own action and every action that HyperPod performs on its behalf."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from embedded_account.hyperpod.bench import ACCOUNT_ID, REGION, HyperPodBench
from embedded_account.hyperpod.permissions.required import REQUIRED
from embedded_account.services.iam.policies import Grants, PolicyDecision, UnsupportedPolicyError, evaluate, trusts

Refusal = Callable[..., str]
NAME = {"ClusterName": "ml-cluster"}
POLICIES = {"eks:policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonSagemakerHyperpod*"}
DEPENDENT = [
    "iam:PassRole",
    "iam:CreateServiceLinkedRole",
    "eks:DescribeCluster",
    "eks:CreateAccessEntry",
    "eks:DescribeAccessEntry",
    "eks:DeleteAccessEntry",
    "eks:AssociateAccessPolicy",
    "sagemaker:AddTags",
]


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(*actions: str, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


def create_actions() -> list[str]:
    return [row.action for row in REQUIRED["CreateCluster"]]


def test_table_names_each_permission_with_its_source() -> None:
    assert {row.action for rows in REQUIRED.values() for row in rows} >= set(DEPENDENT)
    assert all(row.source for rows in REQUIRED.values() for row in rows)
    assert all(rows[0].action == f"sagemaker:{call}" for call, rows in REQUIRED.items())


@pytest.mark.parametrize("missing", ["sagemaker:CreateCluster", *DEPENDENT])
def test_create_without_one_permission_is_refused_and_names_it(
    bench: HyperPodBench, refusal: Refusal, missing: str
) -> None:
    role = bench.role("caller", policy(allow(*[action for action in create_actions() if action != missing])))
    request = bench.request(Tags=[{"Key": "a", "Value": "b"}])
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).create_cluster, **request)
    assert text.startswith(f"User: arn:aws:sts::{ACCOUNT_ID}:assumed-role/caller/bench is not authorized to perform: ")
    assert f"{missing} on resource: arn:aws:" in text
    assert bench.hyperpod.world.clusters == {}


def test_create_with_exactly_the_tables_permissions_is_allowed(bench: HyperPodBench) -> None:
    role = bench.role("caller", policy(allow(*create_actions())))
    bench.client("sagemaker", role).create_cluster(**bench.request(Tags=[{"Key": "a", "Value": "b"}]))


def test_least_privilege_resources_and_conditions_are_enough(bench: HyperPodBench) -> None:
    eks = bench.eks.clusters["eks"].arn
    entries, own = f"arn:aws:eks:{REGION}:{ACCOUNT_ID}:access-entry/eks/*", {"eks:principalArn": bench.execution_role}
    statements = [
        allow("sagemaker:CreateCluster", "sagemaker:AddTags", resource=f"arn:aws:sagemaker:{REGION}:*:cluster/*"),
        allow(
            "iam:PassRole",
            resource=bench.execution_role,
            Condition={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        ),
        allow(
            "iam:CreateServiceLinkedRole",
            Condition={"StringLike": {"iam:AWSServiceName": "*.sagemaker.amazonaws.com"}},
        ),
        allow("eks:DescribeCluster", resource=eks),
        allow("eks:CreateAccessEntry", resource=eks, Condition={"ArnLike": own}),
        allow("eks:DescribeAccessEntry", "eks:DeleteAccessEntry", resource=entries, Condition={"ArnLike": own}),
        allow("eks:AssociateAccessPolicy", resource=entries, Condition={"ArnLike": {**own, **POLICIES}}),
    ]
    role = bench.role("caller", policy(*statements))
    bench.client("sagemaker", role).create_cluster(**bench.request(Tags=[{"Key": "a", "Value": "b"}]))


@pytest.mark.parametrize("action", ["eks:CreateAccessEntry", "eks:DeleteAccessEntry", "eks:AssociateAccessPolicy"])
def test_entries_of_other_principals_are_not_enough(bench: HyperPodBench, refusal: Refusal, action: str) -> None:
    others = [each for each in create_actions() if each != action]
    condition = {"ArnLike": {"eks:principalArn": f"arn:aws:iam::{ACCOUNT_ID}:role/other"}}
    role = bench.role("caller", policy(allow(*others), allow(action, Condition=condition)))
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).create_cluster, **bench.request())
    assert f"{action} on resource: arn:aws:eks:" in text


def test_another_access_policy_is_not_enough(bench: HyperPodBench, refusal: Refusal) -> None:
    action = "eks:AssociateAccessPolicy"
    others = [each for each in create_actions() if each != action]
    admin = {"ArnLike": {"eks:policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"}}
    role = bench.role("caller", policy(allow(*others), allow(action, Condition=admin)))
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).create_cluster, **bench.request())
    assert f"{action} on resource: arn:aws:eks:" in text


def test_role_for_another_service_cannot_be_passed(bench: HyperPodBench, refusal: Refusal) -> None:
    others = [action for action in create_actions() if action != "iam:PassRole"]
    condition = {"StringEquals": {"iam:PassedToService": "eks.amazonaws.com"}}
    role = bench.role("caller", policy(allow(*others), allow("iam:PassRole", Condition=condition)))
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).create_cluster, **bench.request())
    assert f"iam:PassRole on resource: {bench.execution_role}" in text


def test_tags_and_service_linked_role_need_permissions_only_when_they_matter(bench: HyperPodBench) -> None:
    bench.hyperpod.world.surroundings.ensure_service_linked_role()
    unneeded = {"iam:CreateServiceLinkedRole", "sagemaker:AddTags"}
    role = bench.role("caller", policy(allow(*[each for each in create_actions() if each not in unneeded])))
    bench.client("sagemaker", role).create_cluster(**bench.request())


@pytest.mark.parametrize("call", ["UpdateCluster", "DeleteCluster", "ListClusters", "ListClusterNodes", "ListTags"])
def test_other_calls_need_each_of_their_rows(bench: HyperPodBench, refusal: Refusal, call: str) -> None:
    arn = bench.client("sagemaker").create_cluster(**bench.request())["ClusterArn"]
    bench.advance(minutes=60)
    groups = [bench.group("head-group", "ml.m5.2xlarge", 1)]
    arguments: dict[str, Any] = {
        "UpdateCluster": {**NAME, "InstanceGroups": groups},
        "ListClusters": {},
        "ListTags": {"ResourceArn": arn},
    }.get(call, dict(NAME))
    snake = {"UpdateCluster": "update_cluster", "DeleteCluster": "delete_cluster", "ListClusters": "list_clusters"}
    snake |= {"ListClusterNodes": "list_cluster_nodes", "ListTags": "list_tags"}
    actions = [row.action for row in REQUIRED[call] if row.when == "always"]
    for index, missing in enumerate(actions):
        others = [action for action in actions if action != missing] or ["sts:GetCallerIdentity"]
        poor = bench.client("sagemaker", bench.role(f"poor-{index}", policy(allow(*others))))
        assert missing in refusal("AccessDeniedException", getattr(poor, snake[call]), **arguments)
    able = bench.client("sagemaker", bench.role("able", policy(allow(*actions))))
    getattr(able, snake[call])(**arguments)


def test_explicit_deny_wins_and_says_so(bench: HyperPodBench, refusal: Refusal) -> None:
    deny = {"Effect": "Deny", "Action": "sagemaker:List*", "Resource": "*"}
    role = bench.role("caller", policy(allow("*"), deny))
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).list_clusters)
    assert text.endswith("with an explicit deny in an identity-based policy")


def test_attached_policies_count(bench: HyperPodBench) -> None:
    import json

    iam = bench.client("iam")
    document = json.dumps(policy(allow("sagemaker:ListClusters")))
    arn = iam.create_policy(PolicyName="list", PolicyDocument=document)["Policy"]["Arn"]
    role = bench.role("caller")
    iam.attach_role_policy(RoleName="caller", PolicyArn=arn)
    assert bench.client("sagemaker", role).list_clusters()["ClusterSummaries"] == []


def test_policy_that_cannot_be_evaluated_is_reported(bench: HyperPodBench, refusal: Refusal) -> None:
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    role = bench.role("caller", policy(allow("sagemaker:*", Condition=condition)))
    text = refusal("AccessDeniedException", bench.client("sagemaker", role).list_clusters)
    assert "The rehearsal cannot evaluate the policies" in text
    assert "IpAddress" in text


def test_unknown_temporary_key_is_no_operator(bench: HyperPodBench, refusal: Refusal) -> None:
    role = bench.role("caller", policy(allow("*")))
    client = bench.client("sagemaker", role)
    bench.client("iam").delete_role_policy(RoleName="caller", PolicyName="policy-0")
    bench.client("iam").delete_role(RoleName="caller")
    assert "no longer exists" in refusal("AccessDeniedException", client.list_clusters)


@pytest.mark.parametrize(
    ("statement", "decision"),
    [
        (allow("s3:GetObject"), PolicyDecision.ALLOW),
        (allow("S3:getobject"), PolicyDecision.ALLOW),
        (allow("s3:Get*"), PolicyDecision.ALLOW),
        (allow("s3:GetObjec?"), PolicyDecision.ALLOW),
        (allow("s3:Put*"), PolicyDecision.IMPLICIT_DENY),
        (allow("s3:GetObject", resource="arn:aws:s3:::bucket/*"), PolicyDecision.ALLOW),
        (allow("s3:GetObject", resource="arn:aws:s3:::Bucket/*"), PolicyDecision.IMPLICIT_DENY),
        (allow("s3:GetObject", resource=["arn:aws:s3:::other/*"]), PolicyDecision.IMPLICIT_DENY),
        ({"Effect": "Deny", "Action": "s3:*", "Resource": "*"}, PolicyDecision.EXPLICIT_DENY),
        (allow("*", Condition={"StringEquals": {"aws:tag": "x"}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"StringEquals": {"AWS:Tag": ["y", "x"]}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"StringEquals": {"aws:tag": "X"}}), PolicyDecision.IMPLICIT_DENY),
        (allow("*", Condition={"StringEquals": {"aws:absent": "x"}}), PolicyDecision.IMPLICIT_DENY),
        (allow("*", Condition={"StringLike": {"aws:tag": "?"}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"StringEquals": {"aws:tag": "*"}}), PolicyDecision.IMPLICIT_DENY),
        (allow("*", Condition={"StringLikeIfExists": {"aws:absent": "?"}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"StringLikeIfExists": {"aws:tag": "?"}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"StringLikeIfExists": {"aws:tag": "??"}}), PolicyDecision.IMPLICIT_DENY),
        (allow("*", Condition={"Bool": {"aws:secure": True}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"Bool": {"aws:secure": "false"}}), PolicyDecision.IMPLICIT_DENY),
        (allow("*", Condition={"ArnLike": {"aws:source": "arn:aws:eks:*:1:cluster/*"}}), PolicyDecision.ALLOW),
        (allow("*", Condition={"ArnLike": {"aws:source": "arn:aws:eks:*:cluster/*"}}), PolicyDecision.IMPLICIT_DENY),
        (
            allow("*", Condition={"StringEquals": {"aws:tag": "x"}, "Bool": {"aws:secure": "false"}}),
            PolicyDecision.IMPLICIT_DENY,
        ),
    ],
)
def test_statement_decides_as_iam_documents(statement: dict[str, Any], decision: PolicyDecision) -> None:
    context = {"aws:tag": "x", "aws:secure": "true", "aws:source": "arn:aws:eks:us-west-2:1:cluster/a"}
    assert evaluate([policy(statement)], "s3:GetObject", "arn:aws:s3:::bucket/key", context) is decision


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ({"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}, "NotAction"),
        ({"Effect": "Allow", "Action": "s3:*", "NotResource": "*"}, "NotResource"),
        (allow("s3:*", Condition={"NumericEquals": {"a": "1"}}), "NumericEquals"),
        (allow("s3:*", resource="arn:aws:s3:::${aws:username}"), "policy variables"),
    ],
)
def test_what_is_not_implemented_raises_instead_of_guessing(statement: dict[str, Any], word: str) -> None:
    with pytest.raises(UnsupportedPolicyError, match=word):
        evaluate([policy(statement)], "s3:GetObject", "arn:aws:s3:::bucket/key", {})


def test_deny_after_allow_in_another_policy_wins() -> None:
    deny = policy({"Effect": "Deny", "Action": "*", "Resource": "arn:aws:s3:::bucket/*"})
    assert (
        evaluate([policy(allow("*")), deny], "s3:GetObject", "arn:aws:s3:::bucket/key", {})
        is PolicyDecision.EXPLICIT_DENY
    )


def test_permissions_boundary_limits() -> None:
    grants = Grants((policy(allow("s3:*")),), boundary=policy(allow("s3:Get*")))
    assert grants.decide("s3:GetObject", "*", {}) is PolicyDecision.ALLOW
    assert grants.decide("s3:PutObject", "*", {}) is PolicyDecision.IMPLICIT_DENY


def test_trust_policy_names_the_service() -> None:
    statement = {"Effect": "Allow", "Action": ["sts:AssumeRole"], "Principal": {"Service": "sagemaker.amazonaws.com"}}
    assert trusts(policy(statement), "sagemaker.amazonaws.com")
    assert not trusts(policy(statement), "eks.amazonaws.com")
    assert not trusts(policy(statement | {"Effect": "Deny"}), "sagemaker.amazonaws.com")


PLAN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:training-plan/plan-1"
RESERVED = f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:reserved-capacity/*"


@pytest.mark.parametrize(
    ("of_plans", "refused"),
    [
        ([], "sagemaker:CreateCluster"),
        (["sagemaker:CreateCluster"], "sagemaker:DescribeTrainingPlan"),
        (["sagemaker:CreateCluster", "sagemaker:DescribeTrainingPlan"], ""),
    ],
)
def test_capacity_of_a_training_plan_needs_the_plan_itself(
    bench: HyperPodBench, refusal: Refusal, of_plans: list[str], refused: str
) -> None:
    elsewhere = [action for action in create_actions() if not action.startswith("sagemaker:")]
    cluster = allow("sagemaker:CreateCluster", resource=f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:cluster/*")
    plans = [allow(*of_plans, resource=[PLAN, RESERVED])] if of_plans else []
    role = bench.role("caller", policy(allow(*elsewhere), cluster, *plans))
    request = bench.request(InstanceGroups=[bench.group("g", "ml.p5.48xlarge", 1, TrainingPlanArn=PLAN)])
    create = bench.client("sagemaker", role).create_cluster
    if refused:
        assert f"{refused} on resource: {PLAN}" in refusal("AccessDeniedException", create, **request)
    else:
        create(**request)


SHARING = ("ec2:DescribeImages", "ec2:DescribeSnapshots", "ec2:ModifyImageAttribute", "ec2:ModifySnapshotAttribute")


@pytest.mark.parametrize("missing", SHARING)
def test_own_ami_must_be_shared_by_the_caller(bench: HyperPodBench, refusal: Refusal, missing: str) -> None:
    actions = [action for action in (*create_actions(), *SHARING) if action != missing]
    request = bench.request(InstanceGroups=[bench.group("g", "ml.g5.2xlarge", 1, ImageId="ami-0123456789abcdef0")])
    create = bench.client("sagemaker", bench.role("caller", policy(allow(*actions)))).create_cluster
    assert missing in refusal("AccessDeniedException", create, **request)
    bench.client("sagemaker", bench.role("other", policy(allow(*actions, missing)))).create_cluster(**request)


@pytest.mark.parametrize("missing", ["kms:CreateGrant", "kms:DescribeKey"])
def test_volumes_with_a_key_need_rights_of_the_caller_through_sagemaker(
    bench: HyperPodBench, refusal: Refusal, missing: str
) -> None:
    volumes = [{"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": bench.key()}}]
    groups = [bench.group("g", "ml.m5.2xlarge", 1, InstanceStorageConfigs=volumes)]
    request = bench.request(InstanceGroups=groups)
    others = [action for action in create_actions() if not action.startswith("kms:")]
    through = {"StringEquals": {"kms:ViaService": f"sagemaker.{REGION}.amazonaws.com"}}
    grants = through | {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    keyed = {"kms:CreateGrant": grants, "kms:DescribeKey": through}
    statements = {action: allow(action, Condition=condition) for action, condition in keyed.items()}
    poor = policy(allow(*others), *(each for action, each in statements.items() if action != missing))
    client = bench.client("sagemaker", bench.role("poor", poor))
    assert missing in refusal("AccessDeniedException", client.create_cluster, **request)
    able = bench.role("able", policy(allow(*others), *statements.values()))
    bench.client("sagemaker", able).create_cluster(**request)


@pytest.mark.parametrize("missing", ["kms:CreateGrant", "kms:DescribeKey"])
def test_volumes_with_a_key_need_rights_of_the_execution_role(
    bench: HyperPodBench, refusal: Refusal, missing: str
) -> None:
    key = bench.key()
    [other] = {"kms:CreateGrant", "kms:DescribeKey"} - {missing}
    document = json.dumps(policy(allow(other, resource=key)))
    bench.client("iam").put_role_policy(RoleName="execution", PolicyName=key[-36:], PolicyDocument=document)
    volumes = [{"EbsVolumeConfig": {"VolumeSizeInGB": 100, "VolumeKmsKeyId": key}}]
    request = bench.request(InstanceGroups=[bench.group("g", "ml.m5.2xlarge", 1, InstanceStorageConfigs=volumes)])
    text = refusal("ValidationException", bench.client("sagemaker").create_cluster, **request)
    assert text == f"Instance group g: the execution role may not call {missing}."


def test_scripts_of_an_encrypted_bucket_need_the_right_to_decrypt(bench: HyperPodBench) -> None:
    key = bench.key()
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    s3 = bench.client("s3")
    s3.put_bucket_encryption(Bucket="sagemaker-scripts", ServerSideEncryptionConfiguration=rules)
    s3.put_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh", Body=b"#!/bin/bash\n")
    bench.client("sagemaker").create_cluster(**bench.request())
    bench.advance(minutes=30)
    events = bench.hyperpod.world.clusters["ml-cluster"].events
    assert any("kms:Decrypt" in str(event.metadata) for event in events)
    through = {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}}
    document = json.dumps(policy(allow("kms:Decrypt", resource=key, Condition=through)))
    bench.client("iam").put_role_policy(RoleName="execution", PolicyName="decrypt", PolicyDocument=document)
    bench.advance(minutes=60)
    nodes = bench.client("sagemaker").list_cluster_nodes(**NAME)["ClusterNodeSummaries"]
    assert {node["InstanceStatus"]["Status"] for node in nodes} == {"Running"}


def test_aws_managed_policy_lets_nodes_download_scripts_of_buckets_with_its_prefix_only(bench: HyperPodBench) -> None:
    """The policy's condition has the variable ${aws:PrincipalAccount}."""
    managed = json.loads(aws_managed_policies_data)["AmazonSageMakerClusterInstanceRolePolicy"]["Document"]
    role = bench.role("managed", policy(allow("ec2:*")), managed, service="sagemaker.amazonaws.com")
    s3, sagemaker = bench.client("s3"), bench.client("sagemaker")
    s3.create_bucket(Bucket="scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="scripts", Key="eks/on_create.sh", Body=b"")
    other = {"LifeCycleConfig": {"SourceS3Uri": "s3://scripts/eks", "OnCreate": "on_create.sh"}}
    groups = [
        bench.group("covered", "ml.m5.2xlarge", 1, ExecutionRole=role),
        bench.group("other", "ml.m5.2xlarge", 1, ExecutionRole=role, **other),
    ]
    sagemaker.create_cluster(**bench.request(InstanceGroups=groups))
    bench.advance(minutes=22)
    listed = sagemaker.list_cluster_nodes(**NAME)["ClusterNodeSummaries"]
    states = {node["InstanceGroupName"]: node["InstanceStatus"] for node in listed}
    assert states["covered"]["Status"] == "Running"
    assert "is not authorized to perform: s3:ListBucket on resource: arn:aws:s3:::scripts" in states["other"]["Message"]
