"""Test that change sets describe the changes as `cdk diff` and `cdk deploy` require."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.testing.clients import NODE_MODULES, Clients
from embedded_account.testing.stacks import FakeFunctions, StackDeployer, Template, att, failing, parameter, ref, topic


def of(**resources: Any) -> Template:
    return {"Resources": resources}


def changes(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"] for change in described["Changes"]}


def test_new_stack_is_in_review_until_the_change_set_is_executed(stacks: StackDeployer, clients: Clients) -> None:
    described = stacks.change_set("s", of(T=topic()))
    assert stacks.describe("s")["StackStatus"] == "REVIEW_IN_PROGRESS"
    assert changes(described)["T"]["Action"] == "Add"
    assert described["ExecutionStatus"] == "AVAILABLE"
    assert clients("sns").list_topics()["Topics"] == []
    with pytest.raises(ClientError, match="cannot be called on REVIEW_IN_PROGRESS"):
        stacks.client.get_template_summary(StackName="s")
    stacks.client.execute_change_set(StackName="s", ChangeSetName="cs")
    assert stacks.wait("s") == "CREATE_COMPLETE"


def test_stack_in_review_can_be_deleted(stacks: StackDeployer) -> None:
    stacks.change_set("s", of(T=topic()))
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_changes_show_action_replacement_and_properties(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(InPlace=topic(DisplayName="a"), Replaced=topic(TopicName="a"), Removed=topic(), Same=topic()))
    update = of(InPlace=topic(DisplayName="b"), Replaced=topic(TopicName="b"), Added=topic(), Same=topic())
    found = changes(stacks.change_set("s", update))
    actions = {name: (change["Action"], change.get("Replacement")) for name, change in found.items()}
    assert actions == {
        "InPlace": ("Modify", "False"),
        "Replaced": ("Modify", "True"),
        "Added": ("Add", None),
        "Removed": ("Remove", None),
    }
    (detail,) = found["Replaced"]["Details"]
    assert detail["Target"] == {
        "Attribute": "Properties",
        "Name": "TopicName",
        "RequiresRecreation": "Always",
        "Path": "/Properties/TopicName",
        "BeforeValue": "a",
        "AfterValue": "b",
    }
    assert (detail["Evaluation"], detail["ChangeSource"]) == ("Static", "DirectModification")
    assert found["Replaced"]["PolicyAction"] == "ReplaceAndDelete"
    assert found["InPlace"]["Details"][0]["Target"]["RequiresRecreation"] == "Never"
    assert json.loads(found["InPlace"]["AfterContext"]) == {"Properties": {"DisplayName": "b"}}


def test_values_are_shown_only_on_request(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic(DisplayName="a")))
    stacks.change_set("s", of(T=topic(DisplayName="b")))
    plain = changes(stacks.client.describe_change_set(StackName="s", ChangeSetName="cs"))["T"]
    assert "AfterContext" not in plain
    assert plain["Details"][0]["Target"] == {
        "Attribute": "Properties",
        "Name": "DisplayName",
        "RequiresRecreation": "Never",
    }


def test_change_inside_an_object_can_force_a_replacement(stacks: StackDeployer) -> None:
    """The LustreConfiguration of AWS::FSx::FileSystem changes in place, but its DeploymentType does not."""
    from embedded_account.cloudformation.planning import property_changes
    from embedded_account.cloudformation.templates.resource_types import resource_types

    def change(name: str, after: Any) -> str:
        before = {"DeploymentType": "PERSISTENT_2", "DataCompressionType": "LZ4"}
        (found,) = property_changes(
            "AWS::FSx::FileSystem",
            {"LustreConfiguration": before},
            {"LustreConfiguration": {**before, name: after}},
            resource_types(NODE_MODULES),
        )
        return found.replacement

    assert change("DeploymentType", "SCRATCH_2") == "yes"
    assert change("DataCompressionType", "NONE") == "no"


def test_what_depends_on_a_replacement_changes_by_a_value_not_yet_known(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic(TopicName="a"), P=parameter(ref("T")), Q=topic(TopicName=att("T", "TopicName"))))
    found = changes(
        stacks.change_set(
            "s", of(T=topic(TopicName="b"), P=parameter(ref("T")), Q=topic(TopicName=att("T", "TopicName")))
        )
    )
    (detail,) = found["P"]["Details"]
    assert (detail["Evaluation"], detail["ChangeSource"], detail["CausingEntity"]) == (
        "Dynamic",
        "ResourceReference",
        "T",
    )
    assert detail["Target"]["AfterValue"] == "{{changeSet:KNOWN_AFTER_APPLY}}"
    assert found["Q"]["Replacement"] == "Conditional"
    assert found["Q"]["Details"][0]["CausingEntity"] == "T.TopicName"


def test_what_a_custom_resource_will_return_is_not_yet_known(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", lambda _: {"PhysicalResourceId": "x", "Data": {"V": "v"}})

    def template(size: int) -> Template:
        custom = {"Type": "Custom::C", "Properties": {"ServiceToken": token, "Size": size}}
        return of(C=custom, P=parameter(att("C", "V")), R=parameter(ref("C")))

    stacks.deploy("s", template(1))
    found = changes(stacks.change_set("s", template(2)))
    assert set(found) == {"C", "P"}
    assert found["C"]["Replacement"] == "False"


def test_parameter_alone_changes_what_refers_to_it(stacks: StackDeployer) -> None:
    template = {
        "Parameters": {"N": {"Type": "String", "Default": "a"}},
        "Resources": {"T": topic(DisplayName=ref("N")), "U": topic()},
    }
    stacks.deploy("s", template)
    found = changes(stacks.change_set("s", template, Parameters=[{"ParameterKey": "N", "ParameterValue": "b"}]))
    assert set(found) == {"T"}
    assert found["T"]["Details"][0]["ChangeSource"] == "ParameterReference"
    assert found["T"]["Details"][0]["CausingEntity"] == "N"


def test_policies_and_metadata_are_changes_of_their_own(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    found = changes(stacks.change_set("s", of(T={**topic(), "DeletionPolicy": "Retain", "Metadata": {"a": 1}})))
    assert found["T"]["Scope"] == ["DeletionPolicy", "Metadata"]
    assert found["T"]["Replacement"] == "False"


def test_same_template_gives_a_failed_change_set(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic(DisplayName="a")))
    described = stacks.change_set("s", of(T=topic(DisplayName="a")))
    assert described["Status"] == "FAILED"
    assert described["ExecutionStatus"] == "UNAVAILABLE"
    assert described["StatusReason"].startswith("The submitted information didn't contain changes.")
    with pytest.raises(ClientError, match="cannot be executed in its current status"):
        stacks.client.execute_change_set(StackName="s", ChangeSetName="cs")


@pytest.mark.parametrize("extra", [{"Description": "other"}, {"Conditions": {"A": {"Fn::Equals": ["a", "a"]}}}])
def test_change_that_affects_no_resource_is_no_change(stacks: StackDeployer, extra: Template) -> None:
    stacks.deploy("s", of(T=topic()))
    assert stacks.change_set("s", {**of(T=topic()), **extra})["Status"] == "FAILED"


def test_outputs_and_tags_alone_are_a_change(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    with_output = {**of(T=topic()), "Outputs": {"O": {"Value": "1"}}}
    assert stacks.deploy("s", with_output) == "UPDATE_COMPLETE"
    assert stacks.outputs("s") == {"O": "1"}
    assert stacks.deploy("s", with_output, Tags=[{"Key": "a", "Value": "b"}]) == "UPDATE_COMPLETE"
    assert stacks.describe("s")["Tags"] == [{"Key": "a", "Value": "b"}]


def test_direct_update_without_changes_is_refused(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    with pytest.raises(ClientError, match="No updates are to be performed"):
        stacks.client.update_stack(StackName="s", UsePreviousTemplate=True)


def test_direct_update_is_carried_out(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic(DisplayName="a")))
    stacks.client.update_stack(StackName="s", TemplateBody=json.dumps(of(T=topic(DisplayName="b"))))
    assert stacks.wait("s") == "UPDATE_COMPLETE"


def test_change_sets_of_two_stacks_may_have_one_name(stacks: StackDeployer) -> None:
    first = stacks.change_set("one", of(T=topic()))
    second = stacks.change_set("two", of(T=topic()))
    assert first["ChangeSetId"] != second["ChangeSetId"]
    assert stacks.client.describe_change_set(StackName="one", ChangeSetName="cs")["StackName"] == "one"
    summaries = stacks.client.list_change_sets(StackName="two")["Summaries"]
    assert [each["StackName"] for each in summaries] == ["two"]


def test_name_of_a_change_set_is_unique_per_stack(stacks: StackDeployer) -> None:
    stacks.change_set("s", of(T=topic()))
    with pytest.raises(ClientError, match="AlreadyExists"):
        stacks.change_set("s", of(T=topic()))


def test_missing_change_set_has_its_own_error_code(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    for name in ("s", "nobody"):
        with pytest.raises(ClientError) as error:
            stacks.client.describe_change_set(StackName=name, ChangeSetName="none")
        assert error.value.response["Error"]["Code"] == "ChangeSetNotFound"


def test_deleting_a_change_set_twice_succeeds(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    stacks.change_set("s", of(T=topic(DisplayName="b")))
    for _ in range(2):
        stacks.client.delete_change_set(StackName="s", ChangeSetName="cs")


def test_executing_a_change_set_deletes_the_stacks_others(stacks: StackDeployer) -> None:
    stacks.change_set("s", of(T=topic()), changing="other")
    stacks.deploy("s", of(T=topic()))
    assert stacks.client.list_change_sets(StackName="s")["Summaries"] == []


def test_update_of_a_missing_stack_is_refused(stacks: StackDeployer) -> None:
    with pytest.raises(ClientError, match=r"Stack \[s\] does not exist"):
        stacks.client.create_change_set(
            StackName="s", ChangeSetName="cs", ChangeSetType="UPDATE", TemplateBody=json.dumps(of(T=topic()))
        )


def test_creation_of_an_existing_stack_is_refused(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    body = json.dumps(of(T=topic()))
    with pytest.raises(ClientError, match="already exists and cannot be created again"):
        stacks.client.create_change_set(StackName="s", ChangeSetName="cs", ChangeSetType="CREATE", TemplateBody=body)
    with pytest.raises(ClientError, match="AlreadyExists"):
        stacks.client.create_stack(StackName="s", TemplateBody=body)


def test_imports_are_refused(stacks: StackDeployer) -> None:
    with pytest.raises(ClientError, match="does not support importing resources"):
        stacks.client.create_change_set(
            StackName="s",
            ChangeSetName="cs",
            ChangeSetType="IMPORT",
            TemplateBody=json.dumps(of(T=topic())),
            ResourcesToImport=[
                {"ResourceType": "AWS::SNS::Topic", "LogicalResourceId": "T", "ResourceIdentifier": {"TopicArn": "a"}}
            ],
        )


def test_template_is_read_from_the_asset_bucket(stacks: StackDeployer, clients: Clients) -> None:
    s3 = clients("s3")
    s3.create_bucket(Bucket="assets", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket="assets", Key="a/t.json", Body=json.dumps(of(T=topic())))
    host = s3.meta.endpoint_url.replace("127.0.0.1", "localhost")
    stacks.client.create_stack(StackName="s", TemplateURL=f"{host}/assets/a/t.json")
    assert stacks.wait("s") == "CREATE_COMPLETE"
    with pytest.raises(ClientError, match="S3 error: The specified key does not exist"):
        stacks.client.create_stack(StackName="t", TemplateURL=f"{host}/assets/none.json")


def test_template_comes_back_as_it_was_given(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(T=topic()))
    for stage in ("Original", "Processed"):
        answer = stacks.client.get_template(StackName="s", TemplateStage=stage)
        assert dict(answer["TemplateBody"]) == of(T=topic())


def test_failed_resource_of_a_waiting_stack_is_to_be_added(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(Bad={**failing(), "DependsOn": "Good"}, Good=topic()), execution={"DisableRollback": True})
    found = changes(stacks.change_set("s", of(Bad=topic(), Good=topic()), changing="again"))
    assert {name: change["Action"] for name, change in found.items()} == {"Bad": "Add"}
