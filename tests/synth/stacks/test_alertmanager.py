"""Receivers of `observability.in_cluster`: the topic, and Alertmanager's role, which may publish to this topic only."""

import json
from typing import Any

import pytest

from config import EksEnvironment, load
from config.model import Alerts, InCluster, Observability
from tests.synth.support.synthesis import Assemblies, Assembly, Template, synthesise


def watched(name: str) -> EksEnvironment:
    wanted = Observability(in_cluster=InCluster(), alerts=Alerts(emails=("ml-platform@example.com",)))
    return load(name).model_copy(update={"observability": wanted})


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesise(watched("closed"), tmp_path_factory.mktemp("alerts"))


@pytest.fixture(scope="module")
def ray(closed: Assembly) -> Template:
    return closed.templates["ray"]


def applied(ray: Template, kind: str) -> dict[str, Any]:
    """Return the object of the kind among those of Alertmanager, with `ARN` in place of references."""
    [manifest] = [r for id, r in ray.all("Custom::AWSCDK-EKS-KubernetesResource").items() if id.startswith("Alertm")]
    _, parts = manifest["Properties"]["Manifest"]["Fn::Join"]
    items = json.loads("".join(part if isinstance(part, str) else "ARN" for part in parts))
    [found] = [item for item in items if item["kind"] == kind]
    return dict(found)


def test_alertmanagers_account_may_publish_to_this_topic_and_nothing_else(ray: Template) -> None:
    [topic] = ray.all("AWS::SNS::Topic")
    roles = ray.properties("AWS::IAM::Role")
    [role] = [role for role in roles if role.get("Description") == "Alertmanager: publishes to the topic of alerts"]
    text, values = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert "sts:AssumeRoleWithWebIdentity" in text
    assert (values["Namespace"], values["ServiceAccount"]) == ("prometheus-system", "alertmanager")
    [policy] = role["Policies"]
    publish, key = policy["PolicyDocument"]["Statement"]
    assert (publish["Action"], publish["Resource"]) == ("sns:Publish", {"Ref": topic})
    assert (key["Action"], key["Resource"]) == (
        ["kms:Decrypt", "kms:GenerateDataKey"],
        ray.only("AWS::SNS::Topic")["KmsMasterKeyId"],
    )
    assert key["Condition"] == {"StringEquals": {"kms:ViaService": "sns.us-west-2.amazonaws.com"}}


def test_the_topic_admits_no_service_without_alarms(ray: Template) -> None:
    [statement] = ray.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    [owner] = ray.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    assert owner["Principal"]["AWS"] == "arn:aws:iam::111122223333:root"
    assert [s["Endpoint"] for s in ray.properties("AWS::SNS::Subscription")] == ["ml-platform@example.com"]


def test_the_configuration_has_the_topic_of_the_deployment(ray: Template) -> None:
    read = json.loads(applied(ray, "ConfigMap")["data"]["alertmanager.yaml"])
    [published] = read["receivers"][0]["sns_configs"]
    assert (published["topic_arn"], published["sigv4"]) == ("ARN", {"region": "us-west-2"})
    assert applied(ray, "ServiceAccount")["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "ARN"}


def test_a_closed_network_gets_the_endpoint_of_sns(closed: Assembly, assembly: Assemblies) -> None:
    def services(one: Assembly) -> set[str]:
        endpoints = one.templates["network"].properties("AWS::EC2::VPCEndpoint")
        return {str(endpoint["ServiceName"]).rpartition("us-west-2.")[2] for endpoint in endpoints}

    assert services(closed) - services(assembly("closed")) == {"sns"}
