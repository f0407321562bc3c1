"""Log groups that are declared, so that they have a retention and go with their stack."""

from typing import Final

import jsii
from aws_cdk import CfnResource, IAspect, RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

RETENTION: Final = logs.RetentionDays.ONE_MONTH


def declared_log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    """Log group kept for a month. `name` only where the service dictates it."""
    return logs.LogGroup(scope, id, log_group_name=name, retention=RETENTION, removal_policy=RemovalPolicy.DESTROY)


@jsii.implements(IAspect)
class FunctionLogGroups:
    """Gives each Lambda function below, CDK's own included, a log group that exists before it and goes after it.

    Lambda makes a missing group by itself, without a retention, and nobody would delete it. CDK's own way
    (`@aws-cdk/aws-lambda:useCdkManagedLogGroup`) declares the group after the function, which may have made it by
    then, deletes it first, keeps it for two years, and leaves out the functions of CDK's older custom resources.
    """

    def visit(self, node: IConstruct) -> None:
        """Called by CDK for each construct of the tree."""
        if isinstance(node, CfnResource) and node.cfn_resource_type == lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME:
            log_group = declared_log_group(node, "Log")
            node.add_property_override("LoggingConfig.LogGroup", log_group.log_group_name)
