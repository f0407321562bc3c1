"""Exceptions from cdk-nag's AwsSolutions rules, written beside the resource, with a reason."""

from aws_cdk import Acknowledgment, CfnElement, Stack, Token, Validations
from constructs import IConstruct


def acknowledge(scope: IConstruct, reason: str, *findings: str) -> None:
    """Accept findings on `scope` and below; name each as in the report, without `AwsSolutions-` (for example `S1`)."""
    Validations.of(scope).acknowledge(
        *(Acknowledgment(id=f"AwsSolutions-{finding}", reason=reason) for finding in findings)
    )


def managed_policy(name: str) -> str:
    """Return the finding that AWS's managed policy `name` is used."""
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"


def wildcard(resource: str) -> str:
    """Return the finding that a statement's resource has a wildcard."""
    return f"IAM5[Resource::{resource}]"


def imported(value: str, producer: IConstruct) -> str:
    """Return a value of another stack as findings spell it: its export's name if known only at deployment."""
    if not Token.is_unresolved(value):
        return value
    stack = Stack.of(producer)
    export: str = stack.resolve(stack.export_value(value))["Fn::ImportValue"]
    return export


def attribute_arn(resource: IConstruct) -> str:
    """Return the ARN of a resource of the same stack as findings spell it."""
    element = resource.node.default_child
    assert isinstance(element, CfnElement)  # noqa: S101 - an L2 construct's default child is its resource
    return f"<{Stack.of(resource).get_logical_id(element)}.Arn>"
