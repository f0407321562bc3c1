"""Find resources in a construct tree."""

from aws_cdk import CfnResource, ConstructSelector
from constructs import IConstruct


def resources_of_type(scope: IConstruct, resource_type: str) -> list[CfnResource]:
    """Return the resources of CloudFormation type `resource_type` in the tree of `scope`, in the tree's order.

    CDK does the search in Node: a walk in Python, like an aspect, would call Node for each construct.
    """
    found = ConstructSelector.resources_of_type(resource_type).select(scope)
    return [resource for resource in found if isinstance(resource, CfnResource)]
