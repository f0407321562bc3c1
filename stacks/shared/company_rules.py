"""What a company demands of every resource of an environment."""

from collections.abc import Mapping
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import IConstruct

from config import Environment, naming
from config.model import Company
from stacks.shared.resources import resources_of_type

_UNTAGGED: Final = (
    iam.CfnRole.CFN_RESOURCE_TYPE_NAME,
    lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME,
    ssm.CfnParameter.CFN_RESOURCE_TYPE_NAME,
)
"""Types of which CDK declares some as a plain CfnResource, which it does not tag."""


def apply_company_rules(app: IConstruct, environment: Environment) -> None:
    """Set boundary and path of every role, the key of every log group, CDK's own included, and tag every resource.

    Call it once the tree is complete. Custom resources take their tags as properties. Constructs that hold data take
    the key themselves, because roles need rights on it.
    """
    company, tags = environment.company, naming.tags_of_all(environment)
    if company.kms_key:
        for log_group in resources_of_type(app, logs.CfnLogGroup.CFN_RESOURCE_TYPE_NAME):
            log_group.add_property_override("KmsKeyId", company.kms_key)
    if company.permissions_boundary or company.role_path != Company().role_path:
        for role in resources_of_type(app, iam.CfnRole.CFN_RESOURCE_TYPE_NAME):
            if company.permissions_boundary:
                role.add_property_override("PermissionsBoundary", company.permissions_boundary)
            role.add_property_override("Path", company.role_path)
    for key, value in tags.items():
        cdk.Tags.of(app).add(key, value)
    for kind in _UNTAGGED if tags else ():
        for resource in resources_of_type(app, kind):
            if not cdk.TagManager.is_taggable(resource):
                resource.add_property_override("Tags", _tags(tags, kind))


def _tags(tags: Mapping[str, str], kind: str) -> Any:
    if kind == ssm.CfnParameter.CFN_RESOURCE_TYPE_NAME:
        return dict(tags)
    return [{"Key": key, "Value": value} for key, value in tags.items()]
