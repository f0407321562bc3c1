"""Every verb, when an API call fails once, loses its answer, or always fails."""

import json
from copy import deepcopy
from typing import Any, cast

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.errors import is_transient
from tests.handlers.support.cloudformation import CloudFormation
from tests.handlers.support.framework import RESPONSE_BYTES, Interruption, Properties

CALLS = {
    "Create": ["CreateCluster", "DescribeCluster"],
    "Update": ["DescribeCluster", "ListTags", "ListClusterNodes", "UpdateCluster", "AddTags", "DeleteTags"],
    "Delete": ["DescribeCluster", "ListTags", "DeleteCluster"],
    "Teardown": ["ListClusters", "ListTags", "DeleteCluster"],
}
PAIRS = [(verb, call) for verb, calls in CALLS.items() for call in calls]
TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}


def carry_out(
    verb: str, cloudformation: CloudFormation, properties: Properties, *interruptions: Interruption, **fault: Any
) -> Any:
    """Prepare the cluster for the verb, set the fault, and return the verb's answer."""
    bench: HyperPodBench = cloudformation.bench
    if verb != "Create":
        assert cloudformation.create(properties).succeeded
        bench.advance(minutes=120)
    bench.fault(errors=fault)
    cloudformation.framework.interruptions.extend(interruptions)
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
    # Time for one attempt per invocation: the framework's polls are the patience here.
    cloudformation.framework.invocation_seconds = 31
    response = carry_out(verb, cloudformation, properties, **{call: "ThrottlingException"})
    assert not response.succeeded
    assert f"{call} failed (ThrottlingException): " in response.reason
    if response.polls:
        assert "has not ended after 50 minutes, and CloudFormation's one-hour limit is near: " in response.reason


@pytest.mark.parametrize(("verb", "call"), PAIRS)
@pytest.mark.parametrize("after", [False, True], ids=["lost on the way", "answer lost"])
def test_call_without_an_answer_is_survived(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str, *, after: bool
) -> None:
    lost: list[str] = []

    def lose(called: str, carried_out: bool) -> None:
        if (called, carried_out) == (call, after) and len(lost) < 2:
            lost.append(called)
            cloudformation.framework.time_out()

    response = carry_out(verb, cloudformation, properties, lose)
    # What was carried out needs no second attempt.
    assert lost == ([call] if len(lost) == 1 and after else [call, call])
    assert response.succeeded, response.reason


@pytest.mark.parametrize("error", [ConnectTimeoutError, EndpointConnectionError])
@pytest.mark.parametrize(("verb", "call"), [("Create", "DescribeCluster"), ("Update", "UpdateCluster")])
def test_service_that_cannot_be_reached_for_a_moment_is_survived(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str, error: type[BotoCoreError]
) -> None:
    lost: list[str] = []

    def lose(called: str, carried_out: bool) -> None:
        if called == call and not carried_out and len(lost) < 2:
            lost.append(called)
            cloudformation.framework.time_out(error)

    response = carry_out(verb, cloudformation, properties, lose)
    assert lost == [call, call]
    assert response.succeeded, response.reason


@pytest.mark.parametrize(("status", "passing"), [(503, True), (502, True), (429, True), (400, False), (403, False)])
def test_answer_of_a_load_balancer_is_judged_by_its_status(status: int, passing: bool) -> None:
    """The body of a proxy's answer has none of the service's codes: botocore takes the HTTP status as the code."""
    answer = {"Error": {"Code": str(status), "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert is_transient(ClientError(cast("Any", answer), "DescribeCluster")) is passing


@pytest.mark.parametrize(("verb", "call"), PAIRS)
def test_call_that_never_answers_is_named(
    cloudformation: CloudFormation, properties: Properties, verb: str, call: str
) -> None:
    def lose(called: str, carried_out: bool) -> None:
        if called == call and not carried_out:
            cloudformation.framework.time_out()

    response = carry_out(verb, cloudformation, properties, lose)
    assert not response.succeeded
    assert f"{call} got no answer: Read timeout on endpoint URL" in response.reason


def test_events_that_never_come_do_not_hide_why_a_creation_failed(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(fail_creation="No capacity.")

    def lose(called: str, _: bool) -> None:
        if called == "ListClusterEvents":
            cloudformation.framework.time_out()

    reason = carry_out("Create", cloudformation, properties, lose).reason
    assert reason.startswith("HyperPod cluster ml-cluster is Failed: No capacity.\n(its events could not be read: ")


def test_cluster_that_stays_busy_is_told_before_cloudformation_gives_up(
    cloudformation: CloudFormation, properties: Properties
) -> None:
    fault = {"error": "ConflictException", "message": "It is busy."}
    response = carry_out("Update", cloudformation, properties, UpdateCluster=fault)
    assert response.reason == (
        "Update of ml-cluster has not ended after 50 minutes, and CloudFormation's one-hour limit is near: "
        "it takes no update now: It is busy. Try again afterwards"
    )


def test_execution_role_that_iam_does_not_know_yet_is_waited_for(
    cloudformation: CloudFormation, properties: Properties
) -> None:
    message = "Unable to retrieve subnets. Please ensure that the execution role allows the action sts:AssumeRole"
    fault = {"error": "ValidationException", "message": message, "times": 3}
    assert carry_out("Create", cloudformation, properties, CreateCluster=fault).succeeded


def test_conflict_on_delete_is_tried_again(cloudformation: CloudFormation, properties: Properties) -> None:
    fault = {"error": "ConflictException", "times": 3}
    assert carry_out("Delete", cloudformation, properties, DeleteCluster=fault).succeeded


@pytest.mark.parametrize("filler", ["\x00", "\x1b", "\u2028", "\ud800", '"', "\\", "\n", "ü", "🙂"], ids=ascii)
def test_message_of_any_characters_leaves_room_in_the_response(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, filler: str
) -> None:
    """CloudFormation refuses a response above 4,096 bytes; JSON writes a control character in six."""
    bench.fault(errors={"CreateCluster": {"error": "ValidationException", "message": "No. " + filler * 3000}})
    response = cloudformation.create(properties)
    assert response.reason.startswith("CreateCluster failed (ValidationException): No.")
    assert len(json.dumps(response.reason).encode()) < RESPONSE_BYTES or filler in "ü🙂"
