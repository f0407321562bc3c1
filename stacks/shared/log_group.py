"""Log groups that are declared, so that they have a retention and are deleted with their stack."""

from typing import Final, cast

from aws_cdk import RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from stacks.shared.resources import resources_of_type

RETENTION: Final = logs.RetentionDays.ONE_MONTH


def declared_log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    """Return a log group that keeps events for a month. Set `name` only if the service dictates it."""
    return logs.LogGroup(scope, id, log_group_name=name, retention=RETENTION, removal_policy=RemovalPolicy.DESTROY)


def declare_function_logs(scope: IConstruct) -> None:
    """Give each Lambda function in the tree a log group that is created before it and deleted after it.

    Call this once the tree is complete; it includes CDK's own functions. Lambda itself creates a missing group without
    a retention, and nobody deletes it. CDK's own way (`@aws-cdk/aws-lambda:useCdkManagedLogGroup`) creates the group
    after the function, which may have created it by then, and deletes the group first. It keeps events for two years
    and leaves out the functions of CDK's older custom resources.
    """
    for function in resources_of_type(scope, lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME):
        log_group = declared_log_group(function, "Log")
        function.add_property_override("LoggingConfig.LogGroup", log_group.log_group_name)
        # As a child of the function it would wait for the function's role and policies, which it does not need.
        cast(logs.CfnLogGroup, log_group.node.default_child).add_deletion_override("DependsOn")
