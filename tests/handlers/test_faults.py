"""Every verb under every call that fails once, that loses its answer, or that never works."""

from copy import deepcopy
from typing import Any

import pytest

from handlers.hyperpod_cluster import index
from rehearsal.account.hyperpod.bench import HyperPodBench
from tests.handlers.framework import CloudFormation, Properties

CALLS = {
    "Create": ["CreateCluster", "DescribeCluster"],
    "Update": ["DescribeCluster", "ListClusterNodes", "UpdateCluster", "AddTags", "DeleteTags"],
    "Delete": ["DescribeCluster", "ListTags", "DeleteCluster"],
    "Teardown": ["ListClusters", "ListTags", "DeleteCluster"],
}
PAIRS = [(verb, call) for verb, calls in CALLS.items() for call in calls]
TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}


def carry_out(verb: str, cloudformation: CloudFormation, properties: Properties, **fault: Any) -> Any:
    """Bring the cluster to where the verb starts, set the fault, and carry the verb out."""
    bench: HyperPodBench = cloudformation.bench
    if verb != "Create":
        assert cloudformation.create(properties).succeeded
        bench.advance(minutes=120)
    bench.fault(errors=fault)
    if verb == "Create":
        return cloudformation.create(properties)
    if verb == "Update":
        new = deepcopy(properties) | {"Tags": [{"Key": "team", "Value": "vision"}]}
        new["InstanceGroups"][1]["InstanceCount"] = 3
        return cloudformation.update("ml-cluster", new, properties)
    return cloudformation.delete("ml-cluster", **(TEARDOWN if verb == "Teardown" else {}))


@pytest.mark.parametrize(("verb", "call"), PAIRS)
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("error", ["ThrottlingException", "InternalFailure"])
def test_call_that_fails_twice_is_survived(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str, error: str, *, after: bool
) -> None:
    response = carry_out(verb, cloudformation, properties, **{call: {"error": error, "times": 2, "after": after}})
    assert response.succeeded, response.reason


@pytest.mark.parametrize(("verb", "call"), PAIRS)
def test_call_that_is_always_denied_is_named(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str
) -> None:
    response = carry_out(verb, cloudformation, properties, **{call: "AccessDeniedException"})
    assert not response.succeeded
    assert response.reason.startswith(f"{call} failed (AccessDeniedException): ")


@pytest.mark.parametrize(("verb", "call"), PAIRS)
def test_call_that_is_always_throttled_is_no_success(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str
) -> None:
    # Time for one attempt per invocation: the framework's 240 polls are the patience here.
    cloudformation.framework.invocation_seconds = 30
    response = carry_out(verb, cloudformation, properties, **{call: "ThrottlingException"})
    assert not response.succeeded


def test_execution_role_that_iam_does_not_know_yet_is_waited_for(
    cloudformation: CloudFormation, properties: Properties
) -> None:
    message = "Unable to retrieve subnets. Please ensure that the execution role allows the action sts:AssumeRole"
    fault = {"error": "ValidationException", "message": message, "times": 3}
    assert carry_out("Create", cloudformation, properties, CreateCluster=fault).succeeded


def test_conflict_on_delete_is_tried_again(cloudformation: CloudFormation, properties: Properties) -> None:
    fault = {"error": "ConflictException", "times": 3}
    assert carry_out("Delete", cloudformation, properties, DeleteCluster=fault).succeeded
