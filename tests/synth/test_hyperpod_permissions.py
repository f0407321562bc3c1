"""The handlers' policies of the template against the simulator, which refuses a call without its dependent rights.

With them every scenario works; without any single action of them, one scenario fails and names it.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from handlers.hyperpod_cluster import index
from rehearsal.account.hyperpod.bench import HyperPodBench
from tests.handlers.framework import NO_RETRIES, CloudFormation, Properties, Response
from tests.synth.synthesis import Assembly

TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}
ON_EVENT = (
    "eks:AssociateAccessPolicy",
    "eks:CreateAccessEntry",
    "eks:DeleteAccessEntry",
    "eks:DescribeAccessEntry",
    "eks:DescribeCluster",
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "sagemaker:AddTags",
    "sagemaker:CreateCluster",
    "sagemaker:DeleteCluster",
    "sagemaker:DeleteTags",
    "sagemaker:DescribeCluster",
    "sagemaker:ListClusterNodes",
    "sagemaker:ListClusters",
    "sagemaker:ListTags",
    "sagemaker:UpdateCluster",
)
IS_COMPLETE = (
    "eks:AssociateAccessPolicy",
    "eks:CreateAccessEntry",
    "eks:DeleteAccessEntry",
    "eks:DescribeAccessEntry",
    "eks:DescribeCluster",
    "iam:PassRole",
    "sagemaker:DeleteCluster",
    "sagemaker:DescribeCluster",
    "sagemaker:DescribeClusterEvent",
    "sagemaker:ListClusterEvents",
    "sagemaker:ListClusterNodes",
    "sagemaker:ListClusters",
    "sagemaker:ListTags",
    "sagemaker:UpdateCluster",
)


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def cloudformation(bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    return CloudFormation(bench, monkeypatch)


def policy(dev: Assembly, bench: HyperPodBench, handler: str, without: str = "") -> dict[str, Any]:
    """The policy of a handler as deployed, its references resolved to what the bench has."""
    template = dev.templates["hyperpod"]
    [function] = [f for f in template.properties("AWS::Lambda::Function") if f["Handler"].endswith(f".{handler}")]
    role = {"Ref": function["Role"]["Fn::GetAtt"][0]}
    [found] = [p for p in template.properties("AWS::IAM::Policy") if role in p["Roles"]]
    document: dict[str, Any] = _resolved(found["PolicyDocument"], dev, bench)
    for statement in document["Statement"]:
        actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        # An empty list is no policy: what remains is an action that nothing uses.
        statement["Action"] = [action for action in actions if action != without] or ["none:None"]
    return document


def _resolved(value: Any, dev: Assembly, bench: HyperPodBench) -> Any:
    match value:
        case {"Fn::GetAtt": [_, "Arn"]}:
            return bench.execution_role
        case {"Fn::ImportValue": name}:
            return bench.eks.clusters["eks"].arn if "Arn" in name else "eks"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(_resolved(part, dev, bench) for part in parts)
        case dict():
            return {key: _resolved(item, dev, bench) for key, item in value.items()}
        case list():
            return [_resolved(item, dev, bench) for item in value]
    return value


def actions(document: dict[str, Any]) -> list[str]:
    return sorted(action for statement in document["Statement"] for action in statement["Action"])


def scenarios(cloudformation: CloudFormation, properties: Properties) -> Iterator[Response]:
    """Every way through the handlers that makes a call; each must succeed, but the one that must tell events."""
    bench, operator = cloudformation.bench, cloudformation.bench.client("sagemaker")
    yield cloudformation.create(properties)
    bench.advance(minutes=60)
    tagged = deepcopy(properties) | {"Tags": [{"Key": "team", "Value": "vision"}]}
    tagged["InstanceGroups"][1]["InstanceCount"] = 3
    yield cloudformation.update("ml-cluster", tagged, properties)
    bench.advance(minutes=60)
    operator.update_cluster_software(ClusterName="ml-cluster")
    yield cloudformation.update("ml-cluster", properties, tagged)
    yield cloudformation.delete("ml-cluster")
    cloudformation.client.killed_after = "CreateCluster"
    cloudformation.create(properties)
    # Still being created: refused in on_event, deleted from is_complete.
    yield cloudformation.delete("teardown", **TEARDOWN)
    bench.fault(fail_creation="No capacity.")
    failed = cloudformation.create(properties)
    told = "(its events could not be read" not in failed.reason
    yield Response(told, failed.physical_id, reason=failed.reason)


def first_failure(
    dev: Assembly, cloudformation: CloudFormation, *, on_event: str = "", is_complete: str = ""
) -> Response | None:
    """Run the scenarios under the template's policies, each without one action; the first that fails."""
    bench = cloudformation.bench
    clients = [
        bench.client("sagemaker", role_arn=bench.role(handler, policy(dev, bench, handler, without)), config=NO_RETRIES)
        for handler, without in (("on_event", on_event), ("is_complete", is_complete))
    ]
    cloudformation.use(*clients)
    cloudformation.invocation_seconds = 30
    request = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}])
    return next((response for response in scenarios(cloudformation, request) if not response.succeeded), None)


def test_policies_have_the_actions_listed_here_and_no_other(dev: Assembly, bench: HyperPodBench) -> None:
    assert actions(policy(dev, bench, "on_event")) == list(ON_EVENT)
    assert actions(policy(dev, bench, "is_complete")) == list(IS_COMPLETE)


def test_policies_suffice_for_every_way_through_the_handlers(dev: Assembly, cloudformation: CloudFormation) -> None:
    assert first_failure(dev, cloudformation) is None


@pytest.mark.parametrize("action", ON_EVENT)
def test_on_event_needs_each_of_its_actions(dev: Assembly, cloudformation: CloudFormation, action: str) -> None:
    failed = first_failure(dev, cloudformation, on_event=action)
    assert failed is not None, f"nothing needs {action}"
    assert action in failed.reason


@pytest.mark.parametrize("action", IS_COMPLETE)
def test_is_complete_needs_each_of_its_actions(dev: Assembly, cloudformation: CloudFormation, action: str) -> None:
    failed = first_failure(dev, cloudformation, is_complete=action)
    assert failed is not None, f"nothing needs {action}"
