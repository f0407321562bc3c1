"""Test drift detection: what it finds, and what it refuses."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer, Template, failing, topic
from embedded_account.testing.waiting import wait_until

TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
READ_ONLY = "arn:aws:iam::aws:policy/ReadOnlyAccess"
TEMPLATE = {
    "Resources": {
        "Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "log", "RetentionInDays": 30}},
        "Open": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "open"}},
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Topic": topic(),
    }
}


def deploy(stacks: StackDeployer, template: Template) -> str:
    """Deploy stack `s` and return the name of its role."""
    assert stacks.deploy("s", template, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    return stacks.physical_id("s", "Role")


def detect(stacks: StackDeployer) -> dict[str, Any]:
    """Detect the drift of stack `s` and return the detection's end."""
    id = stacks.client.detect_stack_drift(StackName="s")["StackDriftDetectionId"]

    def status() -> dict[str, Any]:
        found: dict[str, Any] = stacks.client.describe_stack_drift_detection_status(StackDriftDetectionId=id)
        return found

    wait_until(lambda: status()["DetectionStatus"] != "DETECTION_IN_PROGRESS", "the detection ends")
    return status()


def drifts(stacks: StackDeployer, *statuses: str) -> dict[str, Any]:
    wanted = {"StackResourceDriftStatusFilters": list(statuses)} if statuses else {}
    found = stacks.client.describe_stack_resource_drifts(StackName="s", **wanted)["StackResourceDrifts"]
    return {each["LogicalResourceId"]: each for each in found}


def test_resources_as_declared_are_in_sync_and_those_that_are_not_compared_not_checked(stacks: StackDeployer) -> None:
    deploy(stacks, TEMPLATE)
    assert drifts(stacks) == {}, "nothing was checked yet"
    end = detect(stacks)
    assert (end["DetectionStatus"], end["StackDriftStatus"]) == ("DETECTION_COMPLETE", "NOT_CHECKED")
    checked = {name: each["StackResourceDriftStatus"] for name, each in drifts(stacks).items()}
    assert checked == {**dict.fromkeys(("Log", "Open", "Role"), "IN_SYNC"), "Topic": "NOT_CHECKED"}
    assert drifts(stacks, "MODIFIED", "DELETED") == {}


def test_stack_whose_resources_are_all_compared_is_in_sync(stacks: StackDeployer) -> None:
    compared = {name: each for name, each in TEMPLATE["Resources"].items() if name != "Topic"}
    deploy(stacks, {"Resources": compared})
    assert detect(stacks)["StackDriftStatus"] == "IN_SYNC"


def test_changed_property_is_named_and_what_the_template_leaves_open_is_not_compared(
    stacks: StackDeployer, clients: Clients
) -> None:
    deploy(stacks, TEMPLATE)
    for group in ("log", "open"):
        clients("logs").put_retention_policy(logGroupName=group, retentionInDays=7)
    assert detect(stacks)["DriftedStackResourceCount"] == 1
    [found] = drifts(stacks, "MODIFIED", "DELETED").values()
    assert found["PropertyDifferences"] == [
        {
            "PropertyPath": "/RetentionInDays",
            "ExpectedValue": "30",
            "ActualValue": "7",
            "DifferenceType": "NOT_EQUAL",
        }
    ]
    assert json.loads(found["ActualProperties"])["RetentionInDays"] == 7


def test_widened_trust_and_an_attached_policy_are_found(stacks: StackDeployer, clients: Clients) -> None:
    declared = json.loads(json.dumps(TEMPLATE))
    declared["Resources"]["Role"]["Properties"]["ManagedPolicyArns"] = []
    role = deploy(stacks, declared)
    widened = {**TRUST, "Statement": [{**TRUST["Statement"][0], "Principal": {"AWS": "*"}}]}  # type: ignore[dict-item]
    clients("iam").update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(widened))
    clients("iam").attach_role_policy(RoleName=role, PolicyArn=READ_ONLY)
    detect(stacks)
    [found] = drifts(stacks, "MODIFIED").values()
    paths = [each["PropertyPath"] for each in found["PropertyDifferences"]]
    assert paths == ["/AssumeRolePolicyDocument", "/ManagedPolicyArns"]


def test_policy_given_as_text_differs_from_the_object_that_is_read_back(stacks: StackDeployer) -> None:
    """Each is the same policy, but nothing AWS publishes says that the detection knows this."""
    declared = json.loads(json.dumps(TEMPLATE))
    text = json.dumps(TRUST, indent=2)
    declared["Resources"]["Role"]["Properties"]["AssumeRolePolicyDocument"] = text
    deploy(stacks, declared)
    detect(stacks)
    [found] = drifts(stacks, "MODIFIED").values()
    [difference] = found["PropertyDifferences"]
    assert (difference["PropertyPath"], difference["ExpectedValue"]) == ("/AssumeRolePolicyDocument", text)
    assert json.loads(found["ActualProperties"])["AssumeRolePolicyDocument"] == TRUST


def test_deleted_resources_are_found(stacks: StackDeployer, clients: Clients) -> None:
    role = deploy(stacks, TEMPLATE)
    clients("logs").delete_log_group(logGroupName="log")
    clients("iam").delete_role(RoleName=role)
    assert detect(stacks)["StackDriftStatus"] == "DRIFTED"
    assert set(drifts(stacks, "DELETED")) == {"Log", "Role"}


def test_what_aws_refuses_is_refused(stacks: StackDeployer) -> None:
    stacks.deploy("s", {"Resources": {"Bad": failing()}})
    with pytest.raises(ClientError, match="while it's in ROLLBACK_COMPLETE state"):
        stacks.client.detect_stack_drift(StackName="s")
    with pytest.raises(ClientError, match="does not exist"):
        stacks.client.detect_stack_drift(StackName="other")
    with pytest.raises(ClientError, match="does not exist"):
        stacks.client.describe_stack_drift_detection_status(StackDriftDetectionId="x" * 36)
    with pytest.raises(ClientError, match="whole stacks only"):
        stacks.client.detect_stack_drift(StackName="s", LogicalResourceIds=["Bad"])
