"""Log groups that are declared, so that they have a retention and go with their stack."""

from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from stacks.shared.resources import resources_of_type

RETENTION: Final = logs.RetentionDays.ONE_MONTH


def declared_log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    """Log group kept for a month. `name` only where the service dictates it."""
    return logs.LogGroup(scope, id, log_group_name=name, retention=RETENTION, removal_policy=RemovalPolicy.DESTROY)


def declare_function_logs(scope: IConstruct) -> None:
    """Give each Lambda function in the tree, CDK's own included, a log group that exists before it and goes after it.

    Call it once the tree is complete. Lambda makes a missing group by itself, without a retention, and nobody would
    delete it. CDK's own way (`@aws-cdk/aws-lambda:useCdkManagedLogGroup`) declares the group after the function, which
    may have made it by then, deletes it first, keeps it for two years, and leaves out the functions of CDK's older
    custom resources.
    """
    for function in resources_of_type(scope, lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME):
        log_group = declared_log_group(function, "Log")
        function.add_property_override("LoggingConfig.LogGroup", log_group.log_group_name)
