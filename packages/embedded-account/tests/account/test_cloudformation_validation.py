"""Test which templates and requests the engine refuses before any change."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.stacks import StackDeployer, Template, att, parameter, ref, repository, topic
from embedded_account.testing.updates import trust


def refused(stacks: StackDeployer, template: Template, **options: Any) -> str:
    """Return why CreateChangeSet refuses a template; assert that it created no stack."""
    with pytest.raises(ClientError) as error:
        stacks.change_set("s", template, **options)
    assert stacks.client.describe_stacks()["Stacks"] == []
    return str(error.value)


def of(resource: dict[str, Any]) -> Template:
    return {"Resources": {"R": resource}}


def test_unknown_type_fails_before_anything_is_made(stacks: StackDeployer, clients: Clients) -> None:
    template = {"Resources": {"Good": topic(), "Bad": {"Type": "AWS::SNS::Topik"}}}
    assert "Unrecognized resource types: [AWS::SNS::Topik]" in refused(stacks, template)
    assert clients("sns").list_topics()["Topics"] == []


@pytest.mark.parametrize("kind", ["AWS::GameLift::Fleet", "AWS::SQS::Queue", "AWS::CloudFormation::Stack"])
def test_type_without_a_model_is_refused_with_the_reason(stacks: StackDeployer, kind: str) -> None:
    why = refused(stacks, of({"Type": kind, "Properties": {"Name": "f"}}))
    assert f"embedded account has no model for resource types: [{kind}]" in why


def test_unknown_property_is_refused(stacks: StackDeployer) -> None:
    why = refused(stacks, of(topic(Colour="red")))
    assert "Properties validation failed for resource R" in why
    assert "#: extraneous key [Colour] is not permitted" in why


def test_unknown_property_of_a_nested_object_is_refused(stacks: StackDeployer) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"VersioningConfiguration": {"Status": "Enabled", "Stat": 1}}}
    assert "#/VersioningConfiguration: extraneous key [Stat]" in refused(stacks, of(bucket))


def test_missing_required_property_is_refused(stacks: StackDeployer) -> None:
    why = refused(stacks, of({"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String"}}))
    assert "#: required key [Value] not found" in why


def test_all_problems_are_reported_at_once(stacks: StackDeployer) -> None:
    why = refused(stacks, {"Resources": {"A": topic(Colour=1), "B": repository(Size=1)}})
    assert "resource A" in why
    assert "resource B" in why


def test_list_where_an_object_belongs_is_refused(stacks: StackDeployer) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"VersioningConfiguration": []}}
    assert "expected type: JSONObject, found: JSONArray" in refused(stacks, of(bucket))


def test_value_outside_the_enumeration_is_refused(stacks: StackDeployer) -> None:
    why = refused(stacks, of({"Type": "AWS::SSM::Parameter", "Properties": {"Type": "Secret", "Value": "x"}}))
    assert "#/Type: Secret is not a valid enum value" in why


def test_required_property_that_is_no_value_counts_as_missing(stacks: StackDeployer) -> None:
    why = refused(stacks, of(parameter(ref("AWS::NoValue"))))
    assert "required key [Value] not found" in why


def test_custom_resource_needs_a_service_token(stacks: StackDeployer) -> None:
    assert "required key [ServiceToken]" in refused(stacks, of({"Type": "Custom::Thing", "Properties": {"A": 1}}))


def test_reference_to_a_missing_resource_is_refused(stacks: StackDeployer) -> None:
    why = refused(stacks, of(topic(DisplayName=ref("Nobody"))))
    assert "Unresolved resource dependencies [Nobody] in the Resources block" in why


def test_reference_to_a_resource_whose_condition_is_false_is_refused(stacks: StackDeployer) -> None:
    template = {
        "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}},
        "Resources": {"Off": {**topic(), "Condition": "Never"}, "On": topic(DisplayName=ref("Off"))},
    }
    assert "Unresolved resource dependencies [Off]" in refused(stacks, template)


def test_attribute_that_the_type_lacks_is_refused(stacks: StackDeployer) -> None:
    template = {"Resources": {"T": topic()}, "Outputs": {"O": {"Value": att("T", "Arm")}}}
    why = refused(stacks, template)
    assert "resource T does not support attribute type Arm in Fn::GetAtt" in why


def test_circular_dependency_is_refused(stacks: StackDeployer) -> None:
    template = {
        "Resources": {
            "A": topic(DisplayName=ref("B")),
            "B": topic(DisplayName=ref("C")),
            "C": {**topic(), "DependsOn": "A"},
        }
    }
    assert "Circular dependency between resources: [A, B, C]" in refused(stacks, template)


def test_iam_needs_the_callers_acknowledgement(stacks: StackDeployer) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "r"}}
    assert "Requires capabilities : [CAPABILITY_NAMED_IAM]" in refused(
        stacks, of(role), Capabilities=["CAPABILITY_IAM"]
    )


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"DeletionPolicy": "Keep"}, "DeletionPolicy of resource R must be one of"),
        ({"DeletionPolicy": "Snapshot"}, "does not support DeletionPolicy Snapshot"),
        ({"CreationPolicy": {}}, "does not support CreationPolicy"),
        ({"Propertys": {}}, "Invalid template resource property 'Propertys'"),
    ],
)
def test_wrong_resource_attributes_are_refused(stacks: StackDeployer, attributes: dict[str, Any], why: str) -> None:
    assert why in refused(stacks, of({**topic(), **attributes}))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{}", "At least one Resources member must be defined"),
        ("[1]", "unsupported structure"),
        ("{'Resources': {'A': ", "not well-formed"),
        (json.dumps({"Resources": {"A-b": topic()}}), "Resource name A-b is non alphanumeric"),
        (json.dumps({"Resources": {"A": topic()}, "Outputz": {}}), "Invalid template property or properties [Outputz]"),
        (json.dumps({"Resources": {"A": topic()}, "Transform": "AWS::Serverless"}), "does not support the transform"),
        (json.dumps({"Resources": {"A": {"Properties": {}}}}), "must contain a Type member"),
    ],
)
def test_malformed_template_is_refused(stacks: StackDeployer, body: str, why: str) -> None:
    with pytest.raises(ClientError) as error:
        stacks.client.create_stack(StackName="s", TemplateBody=body)
    assert why in str(error.value)


def test_role_that_does_not_exist_is_refused(stacks: StackDeployer) -> None:
    why = refused(stacks, of(topic()), RoleARN="arn:aws:iam::111122223333:role/nobody")
    assert "is invalid or cannot be assumed" in why


def test_role_that_does_not_trust_cloudformation_is_refused(account: Account, stacks: StackDeployer) -> None:
    other = make_role(account, "other", "ec2.amazonaws.com", "AdministratorAccess").attributes()["Arn"]
    assert f"Role {other} is invalid or cannot be assumed" in refused(stacks, of(topic()), RoleARN=other)
    with pytest.raises(ClientError, match="cannot be assumed"):
        stacks.client.create_stack(StackName="s", TemplateBody=json.dumps(of(topic())), RoleARN=other)
    own = make_role(account, "own", "cloudformation.amazonaws.com").attributes()["Arn"]
    assert stacks.deploy("s", of(topic()), RoleARN=own) == "CREATE_COMPLETE"
    with pytest.raises(ClientError, match="cannot be assumed"):
        stacks.client.delete_stack(StackName="s", RoleARN=other)
    assert stacks.describe("s")["StackStatus"] == "CREATE_COMPLETE"


def test_stack_whose_role_no_longer_trusts_cloudformation_refuses_changes(
    account: Account, stacks: StackDeployer
) -> None:
    role = make_role(account, "own", "cloudformation.amazonaws.com")
    stacks.deploy("s", of(topic()), RoleARN=role.attributes()["Arn"])
    declared = {"RoleName": "own", "ManagedPolicyArns": []}
    ResourceModels(account).update(role, {**declared, "AssumeRolePolicyDocument": trust("ec2.amazonaws.com")})
    for call in (stacks.client.delete_stack, lambda **name: stacks.change_set(name["StackName"], of(repository()))):
        with pytest.raises(ClientError, match="cannot be assumed"):
            call(StackName="s")
    assert stacks.describe("s")["StackStatus"] == "CREATE_COMPLETE"


WITH_PARAMETERS = {
    "Parameters": {
        "Size": {"Type": "Number", "Default": "3", "MaxValue": 5},
        "Colour": {"Type": "String", "AllowedValues": ["red", "blue"]},
        "Code": {"Type": "String", "Default": "ab", "AllowedPattern": "[a-z]+", "NoEcho": True},
    },
    "Resources": {"T": topic(DisplayName=ref("Colour"))},
}


def given(**values: str) -> list[dict[str, str]]:
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "Parameters: [Colour] must have values"),
        ({"Colour": "red", "Shape": "round"}, "Parameters: [Shape] do not exist in the template"),
        ({"Colour": "green"}, "must be one of AllowedValues: [red, blue]"),
        ({"Colour": "red", "Size": "many"}, "must be a number"),
        ({"Colour": "red", "Size": "6"}, "must be a number not greater than 5"),
        ({"Colour": "red", "Code": "A1"}, "must match pattern"),
    ],
)
def test_wrong_parameters_are_refused(stacks: StackDeployer, values: dict[str, str], why: str) -> None:
    assert why in refused(stacks, WITH_PARAMETERS, Parameters=given(**values))


def test_hidden_parameters_are_never_shown(stacks: StackDeployer) -> None:
    stacks.deploy("s", WITH_PARAMETERS, Parameters=given(Colour="red", Code="secret"))
    shown = {each["ParameterKey"]: each["ParameterValue"] for each in stacks.describe("s")["Parameters"]}
    assert shown == {"Size": "3", "Colour": "red", "Code": "****"}


def test_parameter_from_the_parameter_store_is_resolved_again_at_every_update(
    stacks: StackDeployer, clients: Clients
) -> None:
    clients("ssm").put_parameter(Name="/version", Value="5", Type="String")
    template = {
        "Parameters": {"V": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/version"}},
        "Resources": {"T": topic(DisplayName=ref("V"))},
        "Outputs": {"V": {"Value": ref("V")}},
    }
    stacks.deploy("s", template)
    assert stacks.describe("s")["Parameters"][0] | {"ParameterKey": "V"} == {
        "ParameterKey": "V",
        "ParameterValue": "/version",
        "ResolvedValue": "5",
    }
    clients("ssm").put_parameter(Name="/version", Value="6", Type="String", Overwrite=True)
    stacks.deploy("s", template, Parameters=[{"ParameterKey": "V", "UsePreviousValue": True}])
    assert stacks.outputs("s") == {"V": "6"}


def test_missing_entry_of_the_parameter_store_is_refused(stacks: StackDeployer) -> None:
    template = {
        "Parameters": {"V": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/none"}},
        "Resources": {"T": topic()},
    }
    assert "Unable to fetch parameters [/none]" in refused(stacks, template)


def test_rules_section_asserts(stacks: StackDeployer) -> None:
    too_old = {"Fn::Not": [{"Fn::Contains": [["1", "2", "3"], ref("V")]}]}
    template = {
        "Parameters": {"V": {"Type": "String", "Default": "2"}},
        "Rules": {"Check": {"Assertions": [{"Assert": too_old, "AssertDescription": "bootstrap again"}]}},
        "Resources": {"T": topic()},
    }
    assert "bootstrap again" in refused(stacks, template)
    stacks.change_set("s", template, Parameters=given(V="4"))


def test_change_of_a_resources_type_is_refused(stacks: StackDeployer) -> None:
    stacks.deploy("s", of(topic()))
    with pytest.raises(ClientError, match="Update of resource type is not permitted"):
        stacks.change_set("s", of(repository()))


def test_yaml_with_short_forms_is_read(stacks: StackDeployer, account: Account) -> None:
    body = """
AWSTemplateFormatVersion: 2010-09-09
Resources:
  T:
    Type: AWS::SNS::Topic
    Properties: {DisplayName: !Sub "${AWS::StackName} of ${AWS::AccountId}"}
Outputs:
  Name: {Value: !GetAtt T.TopicName}
  Shown: {Value: !Join ["-", [a, !Select [1, [b, c]]]]}
"""
    stacks.client.create_stack(StackName="s", TemplateBody=body)
    assert stacks.wait("s") == "CREATE_COMPLETE"
    assert stacks.outputs("s")["Shown"] == "a-c"
    assert stacks.outputs("s")["Name"] == stacks.physical_id("s", "T").split(":")[-1]


def test_value_that_a_function_makes_is_validated_before_anything_is_made(stacks: StackDeployer) -> None:
    long = {"Fn::Join": ["", [ref("AWS::StackName"), "a" * 64]]}
    role = {"AssumeRolePolicyDocument": trust("ec2.amazonaws.com"), "RoleName": long}
    named = {"Resources": {"T": topic(), "R": {"Type": "AWS::IAM::Role", "Properties": role}}}
    assert "#/RoleName: failed validation constraint for keyword [maxLength]. Allowed: 64" in refused(
        stacks, named, Capabilities=["CAPABILITY_NAMED_IAM"]
    )


def test_value_that_is_known_only_later_fails_its_resource(stacks: StackDeployer) -> None:
    named = {"Fn::Join": ["", [att("T", "TopicName"), " "]]}
    template = {
        "Resources": {"T": topic(), "R": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": named}}}
    }
    assert stacks.deploy("s", template) == "ROLLBACK_COMPLETE"
    assert "#/LogGroupName: failed validation" in stacks.reason("s", "R", "CREATE_FAILED")


@pytest.mark.parametrize(
    "option",
    [
        {"StackPolicyBody": "{}"},
        {"TimeoutInMinutes": 5},
        {"RollbackConfiguration": {"MonitoringTimeInMinutes": 1}},
        {"NotificationARNs": ["arn:aws:sns:us-west-2:111122223333:t"]},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_are_not_carried_out_are_refused_by_name(stacks: StackDeployer, option: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match=f"does not carry out {next(iter(option))}"):
        stacks.client.create_stack(StackName="s", TemplateBody=json.dumps(of(topic())), **option)
    assert stacks.client.describe_stacks()["Stacks"] == []


def test_unsupported_operations_are_refused_by_name(stacks: StackDeployer) -> None:
    with pytest.raises(ClientError, match="does not offer ListStackSets"):
        stacks.client.list_stack_sets()
