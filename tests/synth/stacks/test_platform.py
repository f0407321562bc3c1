"""Promises of the platform stack."""

import json

import pytest

from tests.synth.support.kubernetes_objects import RELEASE, id_of, needs, objects, release_id, trust
from tests.synth.support.synthesis import Assembly, Template


@pytest.fixture(scope="session")
def platform(dev: Assembly) -> Template:
    return dev.templates["platform"]


def test_charts_come_from_the_deployments_own_assets(platform: Template) -> None:
    for release in platform.properties(RELEASE):
        assert release["ChartAssetURL"].startswith("s3://")
        assert not {"Chart", "Repository", "Version"} & set(release)


def test_helm_gives_up_before_the_function_that_runs_it_dies(platform: Template) -> None:
    """The function times out after 15 minutes and would leave a release that blocks all later ones (aws-cdk#22257)."""
    for release in platform.properties(RELEASE):
        assert int(release["Timeout"].removesuffix("s")) <= 600


def test_helm_waits_for_the_operator_but_not_for_the_drivers_pod_on_every_node(platform: Template) -> None:
    """One lost or starting node would fail the deployment and its rollback."""
    waits = {release["Release"]: release.get("Wait", False) for release in platform.properties(RELEASE)}
    assert waits == {"aws-fsx-csi-driver": False, "kuberay-crds": True, "kuberay-operator": True}


def test_operator_comes_into_a_namespace_that_is_guarded_before_it(platform: Template) -> None:
    release = release_id(platform, "kuberay-operator")
    [policies] = [
        id
        for id, items in objects(platform).items()
        if all(item["kind"] == "NetworkPolicy" and item["metadata"]["namespace"] == "kuberay" for item in items)
    ]
    assert needs(platform, release, policies)
    assert needs(platform, policies, id_of(platform, "Namespace", "kuberay"))


def test_kuberays_kinds_come_before_its_operator_and_go_after_it(platform: Template) -> None:
    """They have a release of their own, because Helm neither upgrades nor removes a chart's `crds/`."""
    crds, operator = release_id(platform, "kuberay-crds"), release_id(platform, "kuberay-operator")
    assert needs(platform, operator, crds)
    releases = platform.all(RELEASE)
    assert releases[crds]["Properties"]["Namespace"] == "kube-system"
    assert releases[crds]["Properties"]["ChartAssetURL"] != releases[operator]["Properties"]["ChartAssetURL"]


def test_csi_driver_finds_its_service_account_with_its_role(platform: Template) -> None:
    account = id_of(platform, "ServiceAccount", "fsx-csi-controller-sa")
    assert needs(platform, release_id(platform, "aws-fsx-csi-driver"), account)
    [role] = platform.all("AWS::IAM::Role")
    [item] = objects(platform)[account]
    assert role in item["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]


def test_only_the_csi_controllers_pods_take_its_role(platform: Template) -> None:
    [statement] = trust(platform.only("AWS::IAM::Role"))["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"] == {
        "StringEquals": {
            "${Issuer}:aud": "sts.amazonaws.com",
            "${Issuer}:sub": "system:serviceaccount:kube-system:fsx-csi-controller-sa",
        }
    }


def test_trust_is_in_the_environments_own_cluster(platform: Template, dev: Assembly) -> None:
    _, values = platform.only("AWS::IAM::Role")["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert dev.imported(values["Provider"])[1]["Type"] == "AWS::IAM::OIDCProvider"
    assert values["Issuer"] == {"Fn::Select": [1, {"Fn::Split": [":oidc-provider/", values["Provider"]]}]}


def test_csi_driver_makes_and_deletes_no_file_system(platform: Template) -> None:
    """CloudFormation owns the file system: the driver only reads, and does not get its managed policy."""
    role = platform.only("AWS::IAM::Role")
    [policy] = role["Policies"]
    assert [s["Action"] for s in policy["PolicyDocument"]["Statement"]] == ["fsx:DescribeFileSystems"]
    assert "ManagedPolicyArns" not in role
    kinds = {item["kind"] for items in objects(platform).values() for item in items}
    assert "StorageClass" not in kinds


def test_stand_in_charts_are_refused_where_the_embedded_accounts_marker_is_absent(dev: Assembly) -> None:
    for part in ("eks", "platform"):
        body = dev.templates[part].body
        assert body["Description"].startswith("REHEARSAL ONLY")
        parameter = body["Parameters"]["RehearsalOnly"]
        assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
        [assertion] = body["Rules"]["StandInChartsOnlyInRehearsal"]["Assertions"]
        assert assertion["Assert"]["Fn::Equals"][0] == {"Ref": "RehearsalOnly"}
        assert "ops charts fetch" in assertion["AssertDescription"]


def test_stacks_without_charts_are_not_marked(dev: Assembly) -> None:
    for part in ("network", "storage", "hyperpod", "ray"):
        assert "REHEARSAL" not in json.dumps(dev.templates[part].body)
