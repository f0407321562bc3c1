"""Promises of the eks stack in an existing cluster."""

import json

import pytest

from config.model import ExistingEks
from tests.synth.support.kubernetes_objects import needs, release_id, trust
from tests.synth.support.synthesis import Assemblies, Assembly, Resource, Template

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module")
def synthesised(assembly: Assemblies) -> Assembly:
    return assembly("existing-eks")


@pytest.fixture(scope="module")
def existing(synthesised: Assembly) -> ExistingEks:
    found = synthesised.of_eks.eks.existing
    assert found is not None
    return found


@pytest.fixture(scope="module")
def eks(synthesised: Assembly) -> Template:
    return synthesised.templates["eks"]


def kubectl_role(eks: Template) -> tuple[str, Resource]:
    """Return the role of the function that runs kubectl and helm."""
    [found] = [
        (id, role["Properties"])
        for id, role in eks.all("AWS::IAM::Role").items()
        if any(policy["PolicyName"] == "cluster-and-charts" for policy in role["Properties"].get("Policies", []))
    ]
    return found


def test_no_resource_of_the_cluster_s_owner_is_declared(eks: Template) -> None:
    """CloudFormation would change a declared resource with the stack, and delete it with the stack."""
    for kind in ("Cluster", "Addon", "FargateProfile", "IdentityProviderConfig", "PodIdentityAssociation"):
        assert not eks.all(f"AWS::EKS::{kind}")
    for kind in ("AWS::IAM::OIDCProvider", "AWS::KMS::Key", "AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupEgress"):
        assert not eks.all(kind)


def test_kubectl_may_look_at_this_cluster_and_read_assets_only(eks: Template, existing: ExistingEks) -> None:
    _, role = kubectl_role(eks)
    [document] = [policy["PolicyDocument"] for policy in role["Policies"]]
    look, read = document["Statement"]
    assert look["Action"] == "eks:DescribeCluster"
    assert look["Resource"] == f"arn:aws:eks:us-west-2:111122223333:cluster/{existing.name}"
    assert (read["Action"], read["Resource"]) == (
        "s3:GetObject",
        "arn:aws:s3:::cdk-hnb659fds-assets-111122223333-us-west-2/*",
    )
    [managed] = role["ManagedPolicyArns"]
    assert "service-role/AWSLambdaVPCAccessExecutionRole" in str(managed)
    assert [statement["Principal"] for statement in role["AssumeRolePolicyDocument"]["Statement"]] == [
        {"Service": "lambda.amazonaws.com"}
    ]


def test_only_the_kubectl_function_s_role_and_the_environment_s_roles_get_access(
    eks: Template, synthesised: Assembly
) -> None:
    """EKS and HyperPod create the access entries of nodes."""
    role, _ = kubectl_role(eks)
    access = synthesised.of_eks.access
    entries = {json.dumps(e["PrincipalArn"]): e["AccessPolicies"] for e in eks.properties("AWS::EKS::AccessEntry")}
    kubectl = json.dumps({"Fn::GetAtt": [role, "Arn"]})
    assert set(entries) == {kubectl, *map(json.dumps, (*access.admins, *access.submitters))}
    # Charts contain cluster roles, and Kubernetes lets a user grant only rights that the user has.
    assert entries[kubectl] == [{"PolicyArn": ADMIN, "AccessScope": {"Type": "cluster"}}]


def test_charts_come_once_kubectl_has_access_and_can_reach_the_cluster(eks: Template) -> None:
    """They are deleted before the access, which the deletion needs. CDK orders this only for its own clusters."""
    chart = release_id(eks, "hyperpod-dependencies")
    role, _ = kubectl_role(eks)
    entries = eks.all("AWS::EKS::AccessEntry")
    [entry] = [id for id, e in entries.items() if role in json.dumps(e["Properties"]["PrincipalArn"])]
    assert needs(eks, chart, entry)
    assert all(needs(eks, chart, rule) for rule in eks.all("AWS::EC2::SecurityGroupIngress"))


def test_the_two_security_groups_let_each_other_in(eks: Template, existing: ExistingEks, synthesised: Assembly) -> None:
    rules = eks.properties("AWS::EC2::SecurityGroupIngress")
    inbound = {json.dumps(rule["GroupId"]): rule["SourceSecurityGroupId"] for rule in rules}
    own = json.dumps(existing.security_group)
    shared = inbound[own]
    assert synthesised.imported(shared)[1]["Type"] == "AWS::EC2::SecurityGroup"
    assert inbound == {own: shared, json.dumps(shared): existing.security_group}
    assert {rule["IpProtocol"] for rule in rules} == {"-1"}


def test_pods_roles_trust_the_clusters_own_issuer(synthesised: Assembly, existing: ExistingEks) -> None:
    roles = [
        role
        for part in ("platform", "ray")
        for role in synthesised.templates[part].properties("AWS::IAM::Role")
        if "Fn::Sub" in role["AssumeRolePolicyDocument"]
    ]
    assert len(roles) == 3
    for role in roles:
        [statement] = trust(role)["Statement"]
        assert statement["Principal"] == {"Federated": "${Provider}"}
        _, values = role["AssumeRolePolicyDocument"]["Fn::Sub"]
        assert values["Provider"] == existing.oidc_provider_arn
        assert values["Issuer"] == existing.oidc_provider_arn.split(":oidc-provider/")[1]


def test_hyperpod_is_bound_to_the_cluster(synthesised: Assembly, existing: ExistingEks) -> None:
    cluster = synthesised.templates["hyperpod"].only("Custom::HyperPodCluster")
    arn = f"arn:aws:eks:us-west-2:111122223333:cluster/{existing.name}"
    assert cluster["Orchestrator"] == {"Eks": {"ClusterArn": arn}}
