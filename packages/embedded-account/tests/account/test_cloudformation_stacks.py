"""Test creating, updating and deleting stacks: order, events, rollback, replacement, policies, exports."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.shared.resource_model import REGISTERED, Declaration, ResourceModel, cloudformation_model
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import (
    FakeFunctions,
    StackDeployer,
    Template,
    att,
    failing,
    parameter,
    ref,
    repository,
    topic,
)
from embedded_account.testing.waiting import wait_until


def of(**resources: Any) -> Template:
    return {"Resources": resources}


def topics(clients: Clients) -> set[str]:
    return {each["TopicArn"].split(":")[-1] for each in clients("sns").list_topics()["Topics"]}


# --- create ----------------------------------------------------------------------------------------------


def test_referenced_resource_is_created_first(stacks: StackDeployer) -> None:
    template = of(
        Last={**topic(), "DependsOn": ["Middle"]},
        Middle=parameter({"Fn::Sub": "${First.TopicName} and ${First}"}),
        First=topic(),
    )
    assert stacks.deploy("s", template) == "CREATE_COMPLETE"
    events = stacks.events("s")
    done = [name for name, status in events if status == "CREATE_COMPLETE"]
    assert done == ["First", "Middle", "Last", "s"]
    assert events.index(("First", "CREATE_COMPLETE")) < events.index(("Middle", "CREATE_IN_PROGRESS"))


def test_events_show_every_step_with_its_own_time(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    assert stacks.events("s") == [
        ("s", "REVIEW_IN_PROGRESS"),
        ("s", "CREATE_IN_PROGRESS"),
        ("T", "CREATE_IN_PROGRESS"),
        ("T", "CREATE_IN_PROGRESS"),
        ("T", "CREATE_COMPLETE"),
        ("s", "CREATE_COMPLETE"),
    ]
    times = [event["Timestamp"] for event in stacks.client.describe_stack_events(StackName="s")["StackEvents"]]
    assert len({int(moment.timestamp() * 1000) for moment in times}) == 6
    assert times == sorted(times, reverse=True)


def test_journal_records_which_resource_waited_for_which(stacks: StackDeployer, account: Account) -> None:
    before = len(account.journal.entries())
    stacks.deploy("s", of(A=topic(), B=parameter(att("A", "TopicName"))))
    first, second = account.journal.entries(before, "cfn")
    assert (first["logical_id"], first["action"], first["status"]) == ("A", "CREATE", "CREATE_COMPLETE")
    assert second["waited_for"] == ["A"]
    assert first["start"] <= first["end"] <= second["start"] <= second["end"]
    assert second["stack"] == "s"


class Slow(ResourceModel):
    """A resource that becomes ready two status checks after its creation."""

    TYPE = "AWS::GameLift::Fleet"
    KNOWN = frozenset({"Name"})
    MUTABLE = frozenset()
    looks = 0
    broken = False

    @classmethod
    def create(cls, declaration: Declaration) -> "Slow":
        return cls(declaration.account, declaration.name)

    def is_created(self) -> bool:
        self.looks += 1
        if self.broken:
            raise ResourceError("it never became ready")
        return self.looks > 2

    def remove(self) -> None:
        Removed.names.append(self.physical_resource_id)


class Removed:
    names: list[str] = []


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Slow]]:
    model: type[Slow] = cloudformation_model("AWS::GameLift::Fleet", name_property="Name")(
        type("Fleet", (Slow,), {"broken": False})
    )
    monkeypatch.setattr(Removed, "names", [])
    yield model
    del REGISTERED["AWS::GameLift::Fleet"]


FLEET = {"Type": "AWS::GameLift::Fleet", "Properties": {"Name": "fleet"}}


def test_model_that_is_registered_after_a_first_deployment_is_known(
    stacks: StackDeployer, request: pytest.FixtureRequest
) -> None:
    assert stacks.deploy("first", of(T=topic())) == "CREATE_COMPLETE"
    request.getfixturevalue("slow")
    assert stacks.deploy("s", of(F=FLEET)) == "CREATE_COMPLETE"


def test_slow_resource_is_waited_for(stacks: StackDeployer, slow: type[Slow]) -> None:
    assert stacks.deploy("s", of(F=FLEET, After={**topic(), "DependsOn": "F"})) == "CREATE_COMPLETE"


def test_resource_that_fails_after_it_was_made_is_deleted(
    stacks: StackDeployer, slow: type[Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow, "broken", True)
    assert stacks.deploy("s", of(F=FLEET)) == "ROLLBACK_COMPLETE"
    assert stacks.reason("s", "F", "CREATE_FAILED") == "it never became ready"
    assert Removed.names == ["fleet"]


class StillUsedError(Exception):
    """EC2's refusal to delete a resource that is still in use."""

    code = "DependencyViolation"


def test_deletion_is_tried_again_while_something_still_uses_the_resource(
    stacks: StackDeployer, slow: type[Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def remove(self: Slow) -> None:
        tries.append(self.physical_resource_id)
        if len(tries) < 3:
            raise StillUsedError("resource fleet has a dependent object")

    monkeypatch.setattr(slow, "remove", remove)
    stacks.deploy("s", of(F=FLEET))
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert len(tries) == 3


def test_dynamic_references_are_resolved(stacks: StackDeployer, clients: Clients) -> None:
    clients("ssm").put_parameter(Name="/size", Value="small", Type="String")
    clients("secretsmanager").create_secret(Name="login", SecretString='{"user": "ray"}')
    value = "{{resolve:ssm:/size}}-{{resolve:secretsmanager:login:SecretString:user}}"
    stacks.deploy("s", of(P=parameter(value, Name="/p")))
    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "small-ray"


def test_resources_without_the_condition_are_not_made(stacks: StackDeployer, clients: Clients) -> None:
    template = {
        "Parameters": {"On": {"Type": "String", "Default": "no"}},
        "Conditions": {"IsOn": {"Fn::Equals": [ref("On"), "yes"]}, "IsOff": {"Fn::Not": [{"Condition": "IsOn"}]}},
        "Resources": {
            "A": {**topic(TopicName="a"), "Condition": "IsOn"},
            "B": {**topic(TopicName={"Fn::If": ["IsOn", ref("A"), "b"]}), "Condition": "IsOff"},
        },
        "Outputs": {"A": {"Value": ref("A"), "Condition": "IsOn"}},
    }
    stacks.deploy("s", template)
    assert topics(clients) == {"b"}
    assert stacks.outputs("s") == {}
    stacks.deploy("s", template, Parameters=[{"ParameterKey": "On", "ParameterValue": "yes"}])
    assert topics(clients) == {"a"}


def test_stack_tags_reach_the_resources_whose_own_tags_win(stacks: StackDeployer, clients: Clients) -> None:
    template = of(T=topic(Tags=[{"Key": "owner", "Value": "me"}]))
    stacks.deploy("s", template, Tags=[{"Key": "owner", "Value": "stack"}, {"Key": "project", "Value": "p"}])
    tags = clients("sns").list_tags_for_resource(ResourceArn=stacks.physical_id("s", "T"))["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"owner": "me", "project": "p"}


# --- rollback --------------------------------------------------------------------------------------------


def test_failed_create_deletes_what_was_made(stacks: StackDeployer, clients: Clients) -> None:
    assert stacks.deploy("s", of(Good=topic(), Bad={**failing(), "DependsOn": "Good"})) == "ROLLBACK_COMPLETE"
    assert topics(clients) == set()
    assert "InvalidParameter" in stacks.reason("s", "Bad", "CREATE_FAILED")
    assert "failed to create: [Bad]" in stacks.reason("s", "s", "ROLLBACK_IN_PROGRESS")
    assert ("Good", "DELETE_COMPLETE") in stacks.events("s")


def test_failed_stack_can_only_be_deleted(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(Bad=failing()))
    with pytest.raises(ClientError, match="is in ROLLBACK_COMPLETE state and can not be updated"):
        stacks.change_set("s", of(Good=topic()))
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert stacks.deploy("s", of(Good=topic())) == "CREATE_COMPLETE"


def test_retained_resource_survives_a_failed_create(stacks: StackDeployer, clients: Clients) -> None:
    kept = {**topic(TopicName="kept"), "DeletionPolicy": "Retain"}
    unless = {**topic(TopicName="unless"), "DeletionPolicy": "RetainExceptOnCreate"}
    bad = {**failing(), "DependsOn": ["Kept", "Unless"]}
    stacks.deploy("s", of(Kept=kept, Unless=unless, Bad=bad))
    assert topics(clients) == {"kept"}
    assert ("Kept", "DELETE_SKIPPED") in stacks.events("s")


def test_retain_except_on_create_of_the_operation_deletes_even_retained(
    stacks: StackDeployer, clients: Clients
) -> None:
    kept = {**topic(TopicName="kept"), "DeletionPolicy": "Retain"}
    template = of(Kept=kept, Bad={**failing(), "DependsOn": "Kept"})
    stacks.deploy("s", template, execution={"RetainExceptOnCreate": True})
    assert topics(clients) == set()


def test_others_are_cancelled_when_one_fails(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def slow_one(request: dict[str, Any]) -> dict[str, str]:
        if request["RequestType"] == "Create":
            wait_until(lambda: ("Slow", "CREATE_FAILED") in stacks.events("s"), "its cancellation")
        return {"PhysicalResourceId": "slow"}

    def bad_one(request: dict[str, Any]) -> dict[str, str]:
        return {
            "Status": "FAILED" if request["RequestType"] == "Create" else "SUCCESS",
            "Reason": "no",
            "PhysicalResourceId": "bad",
        }

    slow = {"Type": "Custom::Slow", "Properties": {"ServiceToken": functions.function("slow", slow_one)}}
    bad = {"Type": "Custom::Bad", "Properties": {"ServiceToken": functions.function("bad", bad_one)}}
    assert stacks.deploy("s", of(Slow=slow, Bad=bad)) == "ROLLBACK_COMPLETE"
    assert stacks.reason("s", "Slow", "CREATE_FAILED") == "Resource creation cancelled"
    deleted = {request["PhysicalResourceId"] for request in functions.requests if request["RequestType"] == "Delete"}
    assert deleted == {"slow", "bad"}


def test_failed_update_restores_and_removes_what_is_new(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(P=parameter("old", Name="/p"), Gone=topic(TopicName="gone")))
    update = of(
        P=parameter("new", Name="/p"),
        New=topic(TopicName="new"),
        Bad={**failing(), "DependsOn": ["P", "New"]},
    )
    assert stacks.deploy("s", update) == "UPDATE_ROLLBACK_COMPLETE"
    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "old"
    assert topics(clients) == {"gone"}
    stack_events = [status for name, status in stacks.events("s") if name == "s"]
    assert stack_events[-4:] == [
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
    ]
    template = stacks.client.get_template(StackName="s")["TemplateBody"]
    assert set(template["Resources"]) == {"P", "Gone"}
    assert stacks.deploy("s", of(P=parameter("newest", Name="/p"))) == "UPDATE_COMPLETE"


def test_rollback_of_a_replacement_keeps_the_old_resource(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(T=topic(TopicName="one")))
    update = of(T=topic(TopicName="two"), Bad={**failing(), "DependsOn": "T"})
    assert stacks.deploy("s", update) == "UPDATE_ROLLBACK_COMPLETE"
    assert topics(clients) == {"one"}
    assert stacks.physical_id("s", "T").endswith(":one")


def test_failed_rollback_is_reported_and_can_be_continued(stacks: StackDeployer, functions: FakeFunctions) -> None:
    broken = threading.Event()

    def answer(request: dict[str, Any]) -> dict[str, str]:
        back = request["RequestType"] == "Update" and request["ResourceProperties"]["Size"] == "1"
        failed = back and broken.is_set()
        return {"Status": "FAILED" if failed else "SUCCESS", "Reason": "stuck", "PhysicalResourceId": "x"}

    token = functions.function("f", answer)

    def custom(size: int) -> dict[str, Any]:
        return {"Type": "Custom::C", "Properties": {"ServiceToken": token, "Size": size}}

    stacks.deploy("s", of(C=custom(1)))
    broken.set()
    assert stacks.deploy("s", of(C=custom(2), Bad={**failing(), "DependsOn": "C"})) == "UPDATE_ROLLBACK_FAILED"
    assert "stuck" in stacks.reason("s", "C", "UPDATE_FAILED")
    broken.clear()
    stacks.client.continue_update_rollback(StackName="s")
    assert stacks.wait("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert functions.requests[-1]["ResourceProperties"]["Size"] == "1"


def test_failed_create_without_rollback_waits_and_is_resumed(stacks: StackDeployer, clients: Clients) -> None:
    no_rollback = {"DisableRollback": True}
    template = of(Good=topic(TopicName="good"), Bad={**failing(), "DependsOn": "Good"})
    assert stacks.deploy("s", template, execution=no_rollback) == "CREATE_FAILED"
    assert topics(clients) == {"good"}
    fixed = of(Good=topic(TopicName="good"), Bad={**topic(TopicName="fixed"), "DependsOn": "Good"})
    with pytest.raises(ClientError, match="non-terminal"):
        stacks.deploy("s", fixed)
    stacks.client.execute_change_set(StackName="s", ChangeSetName="cs", **no_rollback)
    assert stacks.wait("s") == "UPDATE_COMPLETE"
    assert topics(clients) == {"good", "fixed"}


def test_stack_that_waits_after_a_failure_can_be_rolled_back(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(P=parameter("old", Name="/p")))
    update = of(P=parameter("new", Name="/p"), New=topic(), Bad={**failing(), "DependsOn": ["P", "New"]})
    assert stacks.deploy("s", update, execution={"DisableRollback": True}) == "UPDATE_FAILED"
    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "new"
    stacks.client.rollback_stack(StackName="s")
    assert stacks.wait("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "old"
    assert topics(clients) == set()


def test_on_failure_delete_leaves_no_stack(stacks: StackDeployer, clients: Clients) -> None:
    import json

    stack_id = stacks.client.create_stack(
        StackName="s", TemplateBody=json.dumps(of(T=topic(), Bad={**failing(), "DependsOn": "T"})), OnFailure="DELETE"
    )["StackId"]
    assert stacks.wait(stack_id) == "DELETE_COMPLETE"
    assert not stacks.exists("s")
    assert topics(clients) == set()


# --- replacement and removal -----------------------------------------------------------------------------


def test_replacement_creates_the_new_resource_before_deleting_the_old(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(T=topic(TopicName="one"), P=parameter(ref("T"), Name="/p")))
    assert stacks.deploy("s", of(T=topic(TopicName="two"), P=parameter(ref("T"), Name="/p"))) == "UPDATE_COMPLETE"
    assert topics(clients) == {"two"}
    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Value"].endswith(":two")
    events = stacks.events("s")
    assert events.index(("P", "UPDATE_COMPLETE")) < events.index(("s", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"))
    assert events.index(("s", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")) < events.index(("T", "DELETE_IN_PROGRESS"))
    assert "creation of a new physical resource" in stacks.reason("s", "T", "UPDATE_IN_PROGRESS")


def test_update_replace_policy_keeps_the_old_one(stacks: StackDeployer, clients: Clients) -> None:
    kept = {"UpdateReplacePolicy": "Retain"}
    stacks.deploy("s", of(T={**topic(TopicName="one"), **kept}))
    stacks.deploy("s", of(T={**topic(TopicName="two"), **kept}))
    assert topics(clients) == {"one", "two"}


def test_named_resource_that_needs_replacing_is_refused(stacks: StackDeployer) -> None:
    encrypted = {"EncryptionConfiguration": {"EncryptionType": "KMS"}}
    stacks.deploy("s", of(R=repository(RepositoryName="images", **encrypted)))
    assert stacks.deploy("s", of(R=repository(RepositoryName="images"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "when a custom-named resource requires replacing. Rename images" in stacks.reason("s", "R", "UPDATE_FAILED")


def test_update_in_place_keeps_the_resource_and_its_generated_name(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(T=topic(DisplayName="one")))
    arn = stacks.physical_id("s", "T")
    assert stacks.deploy("s", of(T=topic(DisplayName="two"))) == "UPDATE_COMPLETE"
    assert stacks.physical_id("s", "T") == arn
    assert clients("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == "two"


def test_update_that_a_model_cannot_do_fails_instead_of_being_forgotten(
    stacks: StackDeployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks.deploy("s", of(T=topic(DisplayName="one")))
    monkeypatch.setattr(REGISTERED["AWS::SNS::Topic"], "MUTABLE", frozenset({"Tags"}))
    assert stacks.deploy("s", of(T=topic(DisplayName="two"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "cannot update DisplayName of AWS::SNS::Topic: its model" in stacks.reason("s", "T", "UPDATE_FAILED")


def test_resource_removed_from_the_template_is_deleted_or_retained(stacks: StackDeployer, clients: Clients) -> None:
    kept = {**topic(TopicName="kept"), "DeletionPolicy": "Retain"}
    stacks.deploy("s", of(Stays=topic(TopicName="stays"), Goes=topic(TopicName="goes"), Kept=kept))
    stacks.deploy("s", of(Stays=topic(TopicName="stays")))
    assert topics(clients) == {"stays", "kept"}
    assert ("Kept", "DELETE_SKIPPED") in stacks.events("s")
    resources = stacks.client.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert [each["LogicalResourceId"] for each in resources] == ["Stays"]


def test_resource_that_the_cleanup_cannot_delete_is_tried_three_times_and_left(
    stacks: StackDeployer, clients: Clients
) -> None:
    """The user guide, "Resource removed from stack but not deleted"; what it needs is tried, too."""
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}, "DependsOn": "Needed"}
    stacks.deploy("s", of(Stays=topic(TopicName="stays"), Full=bucket, Needed=topic(TopicName="needed")))
    clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
    assert stacks.deploy("s", of(Stays=topic(TopicName="stays"))) == "UPDATE_COMPLETE"
    left = "Update successful. One or more resources could not be deleted."
    assert stacks.describe("s")["StackStatusReason"] == left
    assert stacks.events("s").count(("Full", "DELETE_FAILED")) == 3
    assert "not empty" in stacks.reason("s", "Full", "DELETE_FAILED")
    assert topics(clients) == {"stays"}
    assert [each["Name"] for each in clients("s3").list_buckets()["Buckets"]] == ["data"]
    resources = stacks.client.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert [each["LogicalResourceId"] for each in resources] == ["Stays"]
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert [each["Name"] for each in clients("s3").list_buckets()["Buckets"]] == ["data"]


# --- delete ----------------------------------------------------------------------------------------------


def test_deletion_reverses_the_order_of_creation(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(A=topic(), B=parameter(ref("A")), C={**topic(), "DependsOn": "B"}))
    stack_id = stacks.describe("s")["StackId"]
    stacks.delete("s")
    deleted = [name for name, status in stacks.events(stack_id) if status == "DELETE_COMPLETE"]
    assert deleted == ["C", "B", "A", "s"]


def test_failed_deletion_can_be_retried(stacks: StackDeployer, clients: Clients) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}}
    stacks.deploy("s", of(B=bucket, P=parameter(ref("B")), T=topic()))
    stack_id = stacks.describe("s")["StackId"]
    clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
    assert stacks.delete("s") == "DELETE_FAILED"
    assert "failed to delete: [B]" in stacks.describe("s")["StackStatusReason"]
    assert "not empty" in stacks.reason("s", "B", "DELETE_FAILED")
    assert topics(clients) == set()
    clients("s3").delete_object(Bucket="data", Key="k")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert stacks.describe(stack_id)["StackStatus"] == "DELETE_COMPLETE"
    assert clients("s3").list_buckets()["Buckets"] == []


def test_resource_that_a_remaining_one_needs_is_not_deleted(stacks: StackDeployer, clients: Clients) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}, "DependsOn": "Needed"}
    stacks.deploy("s", of(Needed=topic(TopicName="needed"), B=bucket))
    clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
    assert stacks.delete("s") == "DELETE_FAILED"
    assert topics(clients) == {"needed"}


def test_second_deletion_deletes_what_the_first_did_not_reach(stacks: StackDeployer, clients: Clients) -> None:
    """Source: CloudFormation user guide, stack status codes: after DELETE_FAILED, delete the stack again."""
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}, "DependsOn": "Needed"}
    stacks.deploy("s", of(Needed=topic(TopicName="needed"), B=bucket))
    clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
    assert stacks.delete("s") == "DELETE_FAILED"
    described = stacks.client.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert {each["LogicalResourceId"] for each in described} == {"Needed", "B"}
    assert "failed to delete: [B]" in stacks.describe("s")["StackStatusReason"]
    clients("s3").delete_object(Bucket="data", Key="k")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert topics(clients) == set()


def test_creation_whose_rollback_failed_is_deleted_as_a_whole(
    stacks: StackDeployer, clients: Clients, functions: FakeFunctions
) -> None:
    def fill_and_fail(request: dict[str, Any]) -> dict[str, str]:
        if request["RequestType"] == "Delete":
            return {}
        clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
        return {"Status": "FAILED", "Reason": "no", "PhysicalResourceId": "f"}

    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}, "DependsOn": "Needed"}
    function = functions.function("f", fill_and_fail)
    fails = {"Type": "Custom::F", "Properties": {"ServiceToken": function}, "DependsOn": "B"}
    assert stacks.deploy("s", of(Needed=topic(TopicName="needed"), B=bucket, F=fails)) == "ROLLBACK_FAILED"
    clients("s3").delete_object(Bucket="data", Key="k")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert topics(clients) == set()
    assert functions.types() == ["Create", "Delete"]


def test_resources_can_be_left_behind_only_after_a_failed_deletion(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(B={"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}}))
    clients("s3").put_object(Bucket="data", Key="k", Body=b"x")
    with pytest.raises(ClientError, match="RetainResources can only be used"):
        stacks.client.delete_stack(StackName="s", RetainResources=["B"])
    stacks.delete("s")
    assert stacks.delete("s", RetainResources=["B"]) == "DELETE_COMPLETE"
    assert [bucket["Name"] for bucket in clients("s3").list_buckets()["Buckets"]] == ["data"]


def test_resource_that_no_longer_exists_does_not_block_deletion(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("s", of(P=parameter("x", Name="/p")))
    clients("ssm").delete_parameter(Name="/p")
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_log_group_has_no_tags_of_a_deleted_one(stacks: StackDeployer, clients: Clients) -> None:
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "g"}}
    tagged = {**group, "Properties": {"LogGroupName": "g", "Tags": [{"Key": "old", "Value": "x"}]}}
    stacks.deploy("s", of(G=tagged))
    stacks.delete("s")
    stacks.deploy("s", of(G=group))
    assert clients("logs").list_tags_log_group(logGroupName="g")["tags"] == {}


def test_termination_protection_refuses_deletion(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    stacks.client.update_termination_protection(StackName="s", EnableTerminationProtection=True)
    assert stacks.describe("s")["EnableTerminationProtection"] is True
    with pytest.raises(ClientError, match="cannot be deleted while TerminationProtection is enabled"):
        stacks.client.delete_stack(StackName="s")
    assert stacks.describe("s")["StackStatus"] == "CREATE_COMPLETE"
    stacks.client.update_termination_protection(StackName="s", EnableTerminationProtection=False)
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_deleting_a_missing_stack_succeeds(stacks: StackDeployer) -> None:
    stacks.client.delete_stack(StackName="nobody")


# --- exports ---------------------------------------------------------------------------------------------


def exporting(value: Any, name: str = "shared") -> Template:
    return {**of(T=topic()), "Outputs": {"O": {"Value": value, "Export": {"Name": name}}}}


IMPORTING = of(P=parameter({"Fn::ImportValue": "shared"}, Name="/imported"))


def test_imported_value_is_the_exported_one(stacks: StackDeployer, clients: Clients) -> None:
    stacks.deploy("producer", exporting("7"))
    stacks.deploy("consumer", IMPORTING)
    assert clients("ssm").get_parameter(Name="/imported")["Parameter"]["Value"] == "7"
    assert stacks.client.list_exports()["Exports"][0]["Name"] == "shared"
    assert stacks.client.list_imports(ExportName="shared")["Imports"] == ["consumer"]


def test_export_in_use_cannot_be_deleted(stacks: StackDeployer) -> None:
    stacks.deploy("producer", exporting("7"))
    stacks.deploy("consumer", IMPORTING)
    assert stacks.delete("producer") == "CREATE_COMPLETE"
    why = stacks.describe("producer")["StackStatusReason"]
    assert why == "Delete canceled. Cannot delete export shared as it is in use by consumer."
    assert stacks.deploy("producer", of(T=topic())) == "UPDATE_ROLLBACK_COMPLETE"
    why = stacks.reason("producer", "producer", "UPDATE_ROLLBACK_IN_PROGRESS")
    assert why == "Export shared cannot be deleted as it is in use by consumer"
    stacks.delete("consumer")
    assert stacks.delete("producer") == "DELETE_COMPLETE"


def test_export_in_use_cannot_be_changed(stacks: StackDeployer) -> None:
    stacks.deploy("producer", exporting("7"))
    stacks.deploy("consumer", IMPORTING)
    assert stacks.deploy("producer", exporting("8")) == "UPDATE_ROLLBACK_COMPLETE"
    why = stacks.reason("producer", "producer", "UPDATE_ROLLBACK_IN_PROGRESS")
    assert why == "Export shared cannot be updated as it is in use by consumer"
    assert stacks.outputs("producer") == {"O": "7"}


def test_export_can_be_changed_after_its_last_import_is_removed(stacks: StackDeployer) -> None:
    stacks.deploy("producer", exporting("7"))
    stacks.deploy("consumer", IMPORTING)
    stacks.deploy("consumer", of(P=parameter("own", Name="/imported")))
    with pytest.raises(ClientError, match="Export 'shared' is not imported by any stack"):
        stacks.client.list_imports(ExportName="shared")
    assert stacks.deploy("producer", exporting("8")) == "UPDATE_COMPLETE"


def test_name_of_an_export_is_unique(stacks: StackDeployer) -> None:
    stacks.deploy("one", exporting("7"))
    assert stacks.deploy("two", exporting("7")) == "ROLLBACK_COMPLETE"
    why = stacks.reason("two", "two", "ROLLBACK_IN_PROGRESS")
    assert why == "Export with name shared is already exported by stack one."


def test_import_of_a_missing_export_fails_the_change_set(stacks: StackDeployer) -> None:
    with pytest.raises(ClientError, match="No export named shared found"):
        stacks.change_set("consumer", IMPORTING)


def test_failed_update_does_not_lose_the_import(stacks: StackDeployer) -> None:
    stacks.deploy("producer", exporting("7"))
    stacks.deploy("consumer", IMPORTING)
    stacks.deploy("consumer", of(P=parameter("own", Name="/imported"), Bad={**failing(), "DependsOn": "P"}))
    assert stacks.client.list_imports(ExportName="shared")["Imports"] == ["consumer"]
