"""Conditions limit what a person may do by access entries and data repository tasks."""

from config import load
from embedded_account.services.iam.policies import PolicyDecision, evaluate
from ops.policy.role import PersonRole
from ops.policy.roles import statements


def test_an_operator_gives_access_to_nodes_and_to_nobody_else() -> None:
    own = load("dev")
    document = {
        "Version": "2012-10-17",
        "Statement": [each.document() for each in statements(PersonRole.OPERATOR, own)],
    }
    cluster = f"arn:aws:eks:{own.region}:{own.account}:cluster/rayhp-dev"
    entry = f"arn:aws:eks:{own.region}:{own.account}:access-entry/rayhp-dev/role/{own.account}/name/0"
    nodes = f"arn:aws:iam::{own.account}:role/rayhp-dev-hyperpod-ExecutionRoleFAA49FA6-ABCDEFGHIJKL"
    service = f"arn:aws:iam::{own.account}:role/aws-service-role/hyperpod.sagemaker.amazonaws.com/AWSServiceRole"
    others = [f"arn:aws:iam::{own.account}:role/{name}" for name in ("MlOperator", "rayhp-dev-ray-RayRole3C804ACF-A")]

    def allows(action: str, principal: str, policy: str = "AmazonSagemakerHyperpodClusterPolicy") -> bool:
        keys = {"eks:principalArn": principal, "eks:policyArn": f"arn:aws:eks::aws:cluster-access-policy/{policy}"}
        resource = cluster if action == "eks:CreateAccessEntry" else entry
        return evaluate([document], action, resource, keys) is PolicyDecision.ALLOW

    for action in ("eks:CreateAccessEntry", "eks:DeleteAccessEntry", "eks:AssociateAccessPolicy"):
        assert all(allows(action, each) for each in (nodes, service))
        assert not any(allows(action, each) for each in others)
    for policy in ("AmazonEKSClusterAdminPolicy", "AmazonEKSAdminPolicy", "AmazonEKSEditPolicy"):
        assert not allows("eks:AssociateAccessPolicy", nodes, policy)


def test_an_operator_makes_no_snapshot_public() -> None:
    """With `image_id`, HyperPod shares the AMI's snapshots, whose ids the AMI's does not show."""
    own = load("dev")
    groups = [each.model_copy(update={"image_id": "ami-0123456789abcdef0"}) for each in own.hyperpod.instance_groups]
    hyperpod = own.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    given = statements(PersonRole.OPERATOR, own.model_copy(update={"hyperpod": hyperpod}))
    document, action = {"Statement": [each.document() for each in given]}, "ec2:ModifySnapshotAttribute"
    snapshot = f"arn:aws:ec2:{own.region}::snapshot/snap-0123456789abcdef0"
    assert evaluate([document], action, snapshot, {"ec2:Add/group": "all"}) is not PolicyDecision.ALLOW
    assert evaluate([document], action, snapshot, {"ec2:Add/userId": "444455556666"}) is PolicyDecision.ALLOW


def test_a_scientist_starts_tasks_on_the_own_file_system_only() -> None:
    own, action = load("dev"), "fsx:CreateDataRepositoryTask"
    document = {
        "Version": "2012-10-17",
        "Statement": [each.document() for each in statements(PersonRole.SCIENTIST, own)],
    }
    system = f"arn:aws:fsx:{own.region}:{own.account}:file-system/fs-0123456789abcdef0"
    stack = "aws:ResourceTag/aws:cloudformation:stack-name"
    assert evaluate([document], action, system, {stack: "rayhp-dev-storage"}) is PolicyDecision.ALLOW
    for tags in ({}, {stack: "rayhp-dev-2-storage"}, {stack: "rayhp-dev-eks"}):
        assert evaluate([document], action, system, tags) is not PolicyDecision.ALLOW
