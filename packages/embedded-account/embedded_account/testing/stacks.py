"""Deploy stacks in tests, and let tests define the functions of custom resources in Python."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from embedded_account.testing.waiting import PATIENCE_SECONDS

Template = dict[str, Any]

_BUSY = "_IN_PROGRESS"


class StackDeployer:
    """The stacks of the embedded account, deployed by change set like the CDK CLI."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def change_set(self, name: str, template: Template, *, changing: str = "cs", **options: Any) -> dict[str, Any]:
        """Create a change set (UPDATE for an existing stack, else CREATE); return its description."""
        kind = "UPDATE" if self.exists(name) else "CREATE"
        self.client.create_change_set(
            StackName=name,
            ChangeSetName=changing,
            ChangeSetType=kind,
            TemplateBody=json.dumps(template),
            **options,
        )
        described: dict[str, Any] = self.client.describe_change_set(
            StackName=name, ChangeSetName=changing, IncludePropertyValues=True
        )
        return described

    def deploy(self, name: str, template: Template, *, execution: Any = None, **options: Any) -> str:
        """Create or update a stack and wait for the end; return its status."""
        described = self.change_set(name, template, **options)
        assert described["Status"] == "CREATE_COMPLETE", described["StatusReason"]
        self.client.execute_change_set(StackName=name, ChangeSetName="cs", **(execution or {}))
        return self.wait(described["StackId"])

    def delete(self, name: str, **options: Any) -> str:
        """Delete a stack and wait for the end; return its status."""
        stack_id = self.describe(name)["StackId"]
        self.client.delete_stack(StackName=name, **options)
        return self.wait(stack_id)

    def wait(self, name: str) -> str:
        """Wait until no operation of the stack is in progress; return its status."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (status := self.describe(name)["StackStatus"]).endswith(_BUSY):
            assert time.monotonic() < deadline, f"{name} is still {status}"
            time.sleep(0.01)
        return str(status)

    def exists(self, name: str) -> bool:
        """Return whether the stack exists; a stack in review does not count."""
        return any(
            stack["StackName"] == name and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
            for stack in self.client.describe_stacks()["Stacks"]
        )

    def describe(self, name: str) -> dict[str, Any]:
        """Return the stack's description."""
        described: dict[str, Any] = self.client.describe_stacks(StackName=name)["Stacks"][0]
        return described

    def outputs(self, name: str) -> dict[str, str]:
        """Return the stack's outputs by key."""
        return {each["OutputKey"]: each["OutputValue"] for each in self.describe(name).get("Outputs", [])}

    def resource(self, name: str, logical_id: str) -> dict[str, Any]:
        """Return a resource's detail from DescribeStackResource."""
        answer = self.client.describe_stack_resource(StackName=name, LogicalResourceId=logical_id)
        detail: dict[str, Any] = answer["StackResourceDetail"]
        return detail

    def physical_id(self, name: str, logical_id: str) -> str:
        """Return a resource's physical id, the value of its Ref."""
        return str(self.resource(name, logical_id)["PhysicalResourceId"])

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return the logical id and the status of all events, the oldest first."""
        events = self.client.describe_stack_events(StackName=name)["StackEvents"]
        return [(event["LogicalResourceId"], event["ResourceStatus"]) for event in reversed(events)]

    def reason(self, name: str, logical_id: str, status: str) -> str:
        """Return the reason in the resource's latest event with this status; "" if it has none."""
        for event in self.client.describe_stack_events(StackName=name)["StackEvents"]:
            if (event["LogicalResourceId"], event["ResourceStatus"]) == (logical_id, status):
                return str(event.get("ResourceStatusReason", ""))
        raise AssertionError(f"no event {status} of {logical_id}: {self.events(name)}")


Event = dict[str, Any]
Behaviour = Callable[[Event], Mapping[str, Any] | None]


@dataclass
class InvocationResult:
    """The result of an invocation."""

    payload: bytes
    error: bool
    logs: str = ""


@dataclass
class FakeFunctions:
    """A function runtime whose functions are Python callables (behaviours) of the test.

    A behaviour returns its response to CloudFormation, to which the request's ids are added. It returns None to send
    no response, and raises an exception to fail like a function.
    """

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    requests: list[Event] = field(default_factory=list)

    def function(self, name: str, behaviour: Behaviour) -> str:
        """Add a function; return its ARN for ServiceToken."""
        arn = f"arn:aws:lambda:us-west-2:111122223333:function:{name}"
        self.behaviours[arn] = behaviour
        return arn

    def types(self) -> list[str]:
        """Return the types of all requests, in order."""
        return [str(request["RequestType"]) for request in self.requests]

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> InvocationResult:
        """Invoke a function in the same way as the account's runtime; return its result."""
        request = json.loads(json.dumps(event))
        self.requests.append(request)
        try:
            answer = self.behaviours[function_arn](request)
        except Exception as error:  # noqa: BLE001 - functions fail with anything
            return InvocationResult(json.dumps({"errorMessage": str(error)}).encode(), error=True)
        if answer is not None:
            respond(request, **answer)
        return InvocationResult(b"null", error=False)


def respond(request: Event, **answer: Any) -> int:
    """Send a custom resource's response over HTTP; return the status code."""
    ids = {name: request[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body = {"Status": "SUCCESS", "PhysicalResourceId": request.get("PhysicalResourceId"), **ids, **answer}
    return requests.put(request["ResponseURL"], data=json.dumps(body), timeout=PATIENCE_SECONDS).status_code


def topic(**properties: Any) -> dict[str, Any]:
    """Return an SNS topic for a template."""
    return {"Type": "AWS::SNS::Topic", "Properties": properties}


def repository(**properties: Any) -> dict[str, Any]:
    """Return an ECR repository for a template."""
    return {"Type": "AWS::ECR::Repository", "Properties": properties}


def failing() -> dict[str, Any]:
    """Return a resource that passes validation but fails on creation: its topic name is invalid."""
    return topic(TopicName="no name")


def parameter(value: Any, **properties: Any) -> dict[str, Any]:
    """Return an SSM parameter for a template."""
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value, **properties}}


def ref(name: str) -> dict[str, str]:
    """Return a Ref."""
    return {"Ref": name}


def att(name: str, attribute: str) -> dict[str, list[str]]:
    """Return a Fn::GetAtt."""
    return {"Fn::GetAtt": [name, attribute]}
