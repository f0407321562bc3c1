"""Test planned faults: every action, before and after its effect, and what CloudFormation shows of them."""

from collections.abc import Iterator

import pytest

from embedded_account.action_faults import KINDS, Action, ActionFault, Kind, Moment
from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer, Template, parameter, topic

TOPIC = "AWS::SNS::Topic"


def template(name: str = "one") -> Template:
    return {"Resources": {"T": topic(TopicName="t", DisplayName=name), "P": parameter("x", Name="/p")}}


@pytest.fixture
def faults(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ActionFault]]:
    monkeypatch.setattr(account.clock, "scale", 1e6)
    yield account.action_faults
    account.action_faults.clear()


def topics(clients: Clients) -> int:
    return len(clients("sns").list_topics()["Topics"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_creation_fails_and_nothing_remains(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault], moment: Moment, kind: Kind
) -> None:
    faults.append(ActionFault(TOPIC, "create", moment, kind))
    assert stacks.deploy("s", template()) == "ROLLBACK_COMPLETE"
    assert stacks.reason("s", "T", "CREATE_FAILED") == faults[0].message
    assert topics(clients) == 0
    # What was created is deleted; what was not created is not.
    assert (("T", "DELETE_COMPLETE") in stacks.events("s")) == (moment == "after")
    stacks.delete("s")
    assert stacks.deploy("s", template()) == "CREATE_COMPLETE"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_update_fails_and_is_rolled_back(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault], moment: Moment
) -> None:
    stacks.deploy("s", template())
    faults.append(ActionFault(TOPIC, "update", moment, "throttle", "T"))
    assert stacks.deploy("s", template("two")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Rate exceeded" in stacks.reason("s", "T", "UPDATE_FAILED")
    arn = stacks.physical_id("s", "T")
    assert clients("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == "one"
    assert stacks.deploy("s", template("two")) == "UPDATE_COMPLETE"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_failed_update_is_carried_out_by_the_same_update_again(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault], moment: Moment
) -> None:
    """A retry without rollback: the record has the new properties, the service perhaps the old ones."""
    stacks.deploy("s", template())
    faults.append(ActionFault(TOPIC, "update", moment, "error"))
    without_rollback = {"DisableRollback": True}
    assert stacks.deploy("s", template("two"), execution=without_rollback) == "UPDATE_FAILED"
    assert stacks.deploy("s", template("two"), execution=without_rollback) == "UPDATE_COMPLETE"
    arn = stacks.physical_id("s", "T")
    assert clients("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == "two"
    assert stacks.resource("s", "T")["ResourceStatus"] == "UPDATE_COMPLETE"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_deletion_fails_and_is_retried(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault], moment: Moment
) -> None:
    stacks.deploy("s", template())
    faults.append(ActionFault(TOPIC, "delete", moment, "hang"))
    assert stacks.delete("s") == "DELETE_FAILED"
    assert topics(clients) == (moment == "before")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert topics(clients) == 0


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_deletion_that_fails_in_the_cleanup_of_an_update_is_tried_three_times(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault], failures: int
) -> None:
    stacks.deploy("s", template())
    faults.append(ActionFault(TOPIC, "delete", "before", "error", times=failures))
    without = {"Resources": {"P": template()["Resources"]["P"]}}
    assert stacks.deploy("s", without) == "UPDATE_COMPLETE"
    assert stacks.events("s").count(("T", "DELETE_FAILED")) == failures
    assert topics(clients) == (failures == 3)
    left = "Update successful. One or more resources could not be deleted." if failures == 3 else ""
    assert stacks.describe("s").get("StackStatusReason", "") == left


def test_replacement_that_the_cleanup_of_a_rollback_cannot_delete_is_left(
    stacks: StackDeployer, clients: Clients, faults: list[ActionFault]
) -> None:
    stacks.deploy("s", template())
    faults += [ActionFault(TOPIC, "delete", "before", "error", times=3), ActionFault(TOPIC, "create", "after", "error")]
    replaced = {"Resources": {"T": topic(TopicName="new"), "P": template()["Resources"]["P"]}}
    assert stacks.deploy("s", replaced) == "UPDATE_ROLLBACK_COMPLETE"
    assert stacks.events("s").count(("T", "DELETE_FAILED")) == 3
    assert stacks.describe("s")["StackStatusReason"] == "One or more resources could not be deleted."
    assert topics(clients) == 2
    assert stacks.physical_id("s", "T").endswith(":t")
    # What was left is nobody's: the next update makes its own.
    assert stacks.deploy("s", template("two")) == "UPDATE_COMPLETE"


@pytest.mark.parametrize("action", ["create", "delete"])
def test_fault_of_another_resource_or_type_does_nothing(
    stacks: StackDeployer, faults: list[ActionFault], action: Action
) -> None:
    faults += [
        ActionFault(TOPIC, action, "before", "error", "Other"),
        ActionFault("AWS::S3::Bucket", action, "before", "error"),
    ]
    assert stacks.deploy("s", template()) == "CREATE_COMPLETE"
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_dashboard_that_is_gone_does_not_block_its_deletion(stacks: StackDeployer, faults: list[ActionFault]) -> None:
    kind = "AWS::CloudWatch::Dashboard"
    stacks.deploy("s", {"Resources": {"D": {"Type": kind, "Properties": {"DashboardBody": '{"widgets": []}'}}}})
    faults.append(ActionFault(kind, "delete", "after", "error"))
    assert stacks.delete("s") == "DELETE_FAILED"
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_attachment_that_is_gone_does_not_block_its_deletion(stacks: StackDeployer, faults: list[ActionFault]) -> None:
    network: Template = {
        "Resources": {
            "V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            "G": {"Type": "AWS::EC2::InternetGateway"},
            "A": {
                "Type": "AWS::EC2::VPCGatewayAttachment",
                "Properties": {"VpcId": {"Ref": "V"}, "InternetGatewayId": {"Ref": "G"}},
            },
        }
    }
    stacks.deploy("s", network)
    faults.append(ActionFault("AWS::EC2::VPCGatewayAttachment", "delete", "after", "hang"))
    assert stacks.delete("s") == "DELETE_FAILED"
    assert stacks.delete("s") == "DELETE_COMPLETE"
