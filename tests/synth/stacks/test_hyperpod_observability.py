"""`observability.hyperpod`: the workspace, the add-on that writes to it, its role, and a closed network's endpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from config import Environment, load
from config.estimates.costs import unpriced
from config.model import HyperPodObservability, Observability
from ops.review.assembly import Assembly as ReviewedAssembly
from ops.review.cost import bill
from tests.support.checkov import check, places
from tests.synth.support.synthesis import Assemblies, Assembly, Template, synthesise


def watched(name: str) -> Environment:
    return load(name).model_copy(update={"observability": Observability(hyperpod=HyperPodObservability())})


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesise(watched("closed"), tmp_path_factory.mktemp("observed"), validated=True)


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


def test_no_rule_of_cdk_nag_or_checkov_finds_anything_unexplained(closed: Assembly, tmp_path: Path) -> None:
    report = json.loads((closed.directory / "validation-report.json").read_text())
    assert [plugin for plugin in report["pluginReports"] if plugin.get("violations")] == []
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray.json").write_text(json.dumps(closed.templates["ray"].body))
    assert sorted(places(check(tmp_path, "cloudformation")["failed_checks"], "ray")) == []


def test_check_and_review_name_the_samples_that_have_no_standing_price(closed: Assembly) -> None:
    samples = "samples in the Prometheus workspace"
    assert samples in unpriced(watched("closed"))
    assert samples not in unpriced(load("closed"))
    assert samples in bill(ReviewedAssembly(Path(closed.directory))).unpriced
