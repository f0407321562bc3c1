"""`observability.hyperpod`: the workspace, the add-on that writes to it, its role, and a closed network's endpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from config import load
from config.estimates.costs import estimate, unpriced
from ops.review.assembly import Assembly as ReviewedAssembly
from ops.review.cost import bill
from tests.synth.support.synthesis import Assemblies, Assembly, Template
from tests.synth.support.variants import GRAFANA, OBSERVED, observed


@pytest.fixture(scope="module")
def closed(assembly: Assemblies) -> Assembly:
    return assembly(OBSERVED)


@pytest.fixture(scope="module")
def ray(closed: Assembly) -> Template:
    return closed.templates["ray"]


def workspace(ray: Template) -> str:
    [id] = ray.all("AWS::APS::Workspace")
    return id


def configuration(ray: Template) -> Any:
    """Return the add-on's configuration, with the name of each attribute in its place."""
    _, parts = ray.only("AWS::EKS::Addon")["ConfigurationValues"]["Fn::Join"]
    return json.loads("".join(part if isinstance(part, str) else part["Fn::GetAtt"][1] for part in parts))


def test_the_add_on_writes_to_the_workspace(ray: Template) -> None:
    assert ray.only("AWS::EKS::Addon")["AddonName"] == "amazon-sagemaker-hyperpod-observability"
    wanted = configuration(ray)
    endpoint = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/WorkspaceId"
    assert wanted["ampWorkspace"] == {"prometheusEndpoint": endpoint, "arn": "Arn"}
    assert {each["level"] for each in wanted["metricsProvider"].values()} == {"BASIC", "DISABLED"}
    assert wanted["logging"] == {"enabled": False}
    assert ray.only("AWS::APS::Workspace")["Alias"] == "rayhp-closed-metrics"


def test_its_collectors_role_may_only_write_to_this_workspace(ray: Template) -> None:
    arn = ray.only("AWS::EKS::Addon")["ServiceAccountRoleArn"]["Fn::GetAtt"][0]
    role = ray.body["Resources"][arn]["Properties"]
    _, values = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert (values["Namespace"], values["ServiceAccount"]) == (
        "hyperpod-observability",
        "hyperpod-observability-operator-otel-collector",
    )
    [policy] = role["Policies"]
    resource = {"Fn::GetAtt": [workspace(ray), "Arn"]}
    assert policy["PolicyDocument"]["Statement"] == [
        {"Action": "aps:RemoteWrite", "Effect": "Allow", "Resource": resource}
    ]
    assert "ManagedPolicyArns" not in role


def test_grafana_admits_people_of_identity_center_in_the_listed_networks_only(ray: Template) -> None:
    made = ray.only("AWS::Grafana::Workspace")
    assert made["AuthenticationProviders"] == ["AWS_SSO"]
    assert (made["AccountAccessType"], made["PermissionType"]) == ("CURRENT_ACCOUNT", "CUSTOMER_MANAGED")
    [networks] = ray.all("AWS::EC2::PrefixList")
    assert made["NetworkAccessControl"] == {
        "PrefixListIds": [{"Fn::GetAtt": [networks, "PrefixListId"]}],
        "VpceIds": [],
    }
    assert [each["Cidr"] for each in ray.only("AWS::EC2::PrefixList")["Entries"]] == ["203.0.113.0/24"]
    assert "VpcConfiguration" not in made
    [output] = [each for name, each in ray.body["Outputs"].items() if name.startswith("GrafanaAddress")]
    [workspace] = ray.all("AWS::Grafana::Workspace")
    assert output["Value"] == {"Fn::Join": ["", ["https://", {"Fn::GetAtt": [workspace, "Endpoint"]}]]}


def test_grafanas_role_may_only_query_this_prometheus_and_only_grafana_of_the_account_assumes_it(
    ray: Template,
) -> None:
    role = ray.body["Resources"][ray.only("AWS::Grafana::Workspace")["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "grafana.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "111122223333"},
        "StringLike": {"aws:SourceArn": "arn:aws:grafana:us-west-2:111122223333:/workspaces/*"},
    }
    [policy] = [each for each in ray.properties("AWS::IAM::Policy") if each["PolicyName"].startswith("Grafana")]
    names = ("DescribeWorkspace", "GetLabels", "GetMetricMetadata", "GetSeries", "QueryMetrics")
    resource = {"Fn::GetAtt": [workspace(ray), "Arn"]}
    assert policy["PolicyDocument"]["Statement"] == [
        {"Action": [f"aps:{name}" for name in names], "Effect": "Allow", "Resource": resource},
        {"Action": "aps:ListWorkspaces", "Effect": "Allow", "Resource": "*"},
    ]
    assert "ManagedPolicyArns" not in role


def test_a_closed_network_gets_the_endpoint_and_only_then(closed: Assembly, assembly: Assemblies) -> None:
    def services(each: Assembly) -> set[str]:
        endpoints = each.templates["network"].properties("AWS::EC2::VPCEndpoint")
        return {str(endpoint["ServiceName"]).rpartition(".")[2] for endpoint in endpoints}

    assert services(closed) - services(assembly("closed")) == {"aps-workspaces"}
    [policy] = [
        endpoint["PolicyDocument"]["Statement"][0]
        for endpoint in closed.templates["network"].properties("AWS::EC2::VPCEndpoint")
        if endpoint["ServiceName"].endswith(".aps-workspaces")
    ]
    assert policy["Condition"] == {"StringEquals": {"aws:PrincipalAccount": "111122223333"}}


def test_check_and_review_name_what_has_no_standing_price(closed: Assembly) -> None:
    samples, people = "samples in the Prometheus workspace", "more people who sign in to Grafana"
    assert {samples, people} <= set(unpriced(observed("closed")))
    assert people not in unpriced(observed("closed", grafana=None))
    assert samples not in unpriced(load("closed"))
    assert {samples, people} <= set(bill(ReviewedAssembly(Path(closed.directory))).unpriced)


def test_check_and_review_count_the_editor_that_a_grafana_workspace_always_costs(closed: Assembly) -> None:
    with_grafana, without = (estimate(observed("closed", grafana)) for grafana in (GRAFANA, None))
    [line] = [each for each in with_grafana if each not in without]
    assert line.what == "Grafana workspace: 1 editor"
    assert line.usd_per_hour == pytest.approx(9 / 730)
    hourly = sum(each.usd_per_hour or 0.0 for each in with_grafana)
    assert bill(ReviewedAssembly(Path(closed.directory))).usd_per_hour == pytest.approx(hourly)
