"""Describe stacks, resources, events and change sets in the shapes of CloudFormation's API."""

from typing import Any

from embedded_account.cloudformation.change_set import ChangeSet
from embedded_account.cloudformation.change_sets import without_values
from embedded_account.cloudformation.stack import Output, Stack, StackEvent, StackResource
from embedded_account.cloudformation.templates.template import Template
from embedded_account.tags import tag_list

Answer = dict[str, Any]

_DRIFT = {"StackDriftStatus": "NOT_CHECKED"}


def _without_none(answer: Answer) -> Answer:
    return {key: value for key, value in answer.items() if value is not None}


def stack(item: Stack) -> Answer:
    """Return an entry of DescribeStacks."""
    desired = item.desired
    return _without_none(
        {
            "StackId": item.stack_id,
            "StackName": item.name,
            "Description": desired.template.get("Description"),
            "Parameters": desired.parameters.describe(),
            "CreationTime": item.created,
            "LastUpdatedTime": item.updated,
            "DeletionTime": item.deleted,
            "RollbackConfiguration": {},
            "StackStatus": item.status,
            "StackStatusReason": item.reason,
            "DisableRollback": False,
            "NotificationARNs": [],
            "Capabilities": list(desired.capabilities),
            "Outputs": [_output(output) for output in item.outputs],
            "RoleARN": desired.role_arn,
            "Tags": tag_list(desired.tags),
            "EnableTerminationProtection": item.termination_protection,
            "DriftInformation": _DRIFT,
        }
    )


def _output(output: Output) -> Answer:
    return _without_none(
        {
            "OutputKey": output.key,
            "OutputValue": output.value,
            "Description": output.description,
            "ExportName": output.export,
        }
    )


def stack_summary(item: Stack) -> Answer:
    """Return an entry of ListStacks."""
    return _without_none(
        {
            "StackId": item.stack_id,
            "StackName": item.name,
            "TemplateDescription": item.desired.template.get("Description"),
            "CreationTime": item.created,
            "LastUpdatedTime": item.updated,
            "DeletionTime": item.deleted,
            "StackStatus": item.status,
            "StackStatusReason": item.reason,
            "DriftInformation": _DRIFT,
        }
    )


def event(item: StackEvent) -> Answer:
    """Return an entry of DescribeStackEvents."""
    return _without_none(
        {
            "StackId": item.stack_id,
            "EventId": item.event_id,
            "StackName": item.stack_name,
            "LogicalResourceId": item.logical_id,
            "PhysicalResourceId": item.physical_id,
            "ResourceType": item.type,
            "Timestamp": item.timestamp,
            "ResourceStatus": item.status,
            "ResourceStatusReason": item.reason,
            "ClientRequestToken": item.token,
        }
    )


def operation_event(item: StackEvent) -> Answer:
    """Return an entry of DescribeEvents."""
    return {**event(item), "EventType": "STACK_EVENT", "StartTime": item.timestamp}


def resource(owner: Stack, item: StackResource) -> Answer:
    """Return an entry of DescribeStackResources."""
    return {
        "StackId": owner.stack_id,
        "StackName": owner.name,
        "Timestamp": item.timestamp,
        **_resource_status(item),
    }


def resource_detail(owner: Stack, item: StackResource) -> Answer:
    """Return the answer of DescribeStackResource."""
    return {
        "StackId": owner.stack_id,
        "StackName": owner.name,
        "LastUpdatedTimestamp": item.timestamp,
        **_resource_status(item),
    }


def resource_summary(item: StackResource) -> Answer:
    """Return an entry of ListStackResources."""
    return {"LastUpdatedTimestamp": item.timestamp, **_resource_status(item)}


def _resource_status(item: StackResource) -> Answer:
    return _without_none(
        {
            "LogicalResourceId": item.logical_id,
            "PhysicalResourceId": item.physical_id or None,
            "ResourceType": item.type,
            "ResourceStatus": item.status,
            "ResourceStatusReason": item.reason,
            "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
        }
    )


def change_set_summary(item: ChangeSet) -> Answer:
    """Return an entry of ListChangeSets."""
    return _without_none(
        {
            "StackId": item.stack.stack_id,
            "StackName": item.stack.name,
            "ChangeSetId": item.change_set_id,
            "ChangeSetName": item.name,
            "ExecutionStatus": item.execution_status,
            "Status": item.status,
            "StatusReason": item.status_reason,
            "CreationTime": item.created,
            "Description": item.description,
        }
    )


def change_set(item: ChangeSet, *, with_values: bool) -> Answer:
    """Return the answer of DescribeChangeSet, on one page."""
    desired = item.desired
    changes = item.changes if with_values else [without_values(change) for change in item.changes]
    return {
        **change_set_summary(item),
        "Parameters": desired.parameters.describe(),
        "NotificationARNs": [],
        "RollbackConfiguration": {},
        "Capabilities": list(desired.capabilities),
        "Tags": tag_list(desired.tags),
        "Changes": [{"Type": "Resource", "ResourceChange": change} for change in changes],
        "IncludeNestedStacks": False,
    }


def template_summary(template: Template) -> Answer:
    """Return the answer of GetTemplateSummary."""
    return _without_none(
        {
            "Description": template.get("Description"),
            "Metadata": None,
            "Version": template.get("AWSTemplateFormatVersion"),
            "ResourceTypes": sorted({item["Type"] for item in template["Resources"].values()}),
            "Parameters": [
                {
                    **_parameter(name, slot),
                    "ParameterType": slot["Type"],
                    "ParameterConstraints": {"AllowedValues": [str(v) for v in slot.get("AllowedValues", [])]},
                }
                for name, slot in template.get("Parameters", {}).items()
            ],
        }
    )


def validated_template(template: Template) -> Answer:
    """Return the answer of ValidateTemplate."""
    return _without_none(
        {
            "Description": template.get("Description"),
            "Parameters": [_parameter(name, slot) for name, slot in template.get("Parameters", {}).items()],
            "Capabilities": [],
            "DeclaredTransforms": [],
        }
    )


def _parameter(name: str, slot: dict[str, Any]) -> Answer:
    return _without_none(
        {
            "ParameterKey": name,
            "DefaultValue": str(slot["Default"]) if "Default" in slot else None,
            "NoEcho": str(slot.get("NoEcho", False)).lower() == "true",
            "Description": slot.get("Description"),
        }
    )
