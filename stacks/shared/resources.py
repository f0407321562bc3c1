"""Finds resources in a construct tree."""

from aws_cdk import CfnResource, ConstructSelector
from constructs import IConstruct


def resources_of_type(scope: IConstruct, resource_type: str) -> list[CfnResource]:
    """Return the resources of CloudFormation's `resource_type` in the tree of `scope`, in its order.

    CDK looks for them: walking the tree here, like an aspect in Python, asks Node about each construct.
    """
    found = ConstructSelector.resources_of_type(resource_type).select(scope)
    return [resource for resource in found if isinstance(resource, CfnResource)]
