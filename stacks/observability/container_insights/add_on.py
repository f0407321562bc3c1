"""CloudWatch Container Insights: the add-on with its role and log groups, and the alarms on its metrics."""

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from config import Environment, naming
from config.container_insights import AlarmFacts, alarms_of
from config.facts.add_ons import CLOUDWATCH
from config.model import ContainerInsights
from stacks.eks.add_ons import add_on_role, eks_add_on
from stacks.shared.irsa import IrsaRole
from stacks.shared.nag_suppressions import acknowledge, wildcard

_CONFIGURATION: Final = {
    # Without a configuration the agent also collects traces (Application Signals), for which it has no right.
    "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": {"enhanced_container_insights": True}}}}}
}


class Insights(Construct):
    """The add-on, after log groups that keep events for a stated time and a role that may write only to them."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, cluster_name: str, settings: ContainerInsights
    ) -> None:
        super().__init__(scope, id)
        groups = [
            logs.CfnLogGroup(
                self,
                f"Log-{name}",
                log_group_name=naming.container_insights_log_group(cluster_name, name),
                retention_in_days=settings.log_retention_days,
            )
            for name in naming.CONTAINER_INSIGHTS_LOGS
        ]
        for group in groups:
            group.apply_removal_policy(RemovalPolicy.DESTROY)
        add_on = eks_add_on(
            self,
            CLOUDWATCH,
            cluster=cluster,
            configuration=json.dumps(_CONFIGURATION),
            role_arn=self._role(cluster, cluster_name).arn,
        )
        # The agents create a missing group, without a retention, and nobody would delete it.
        add_on.node.add_dependency(*groups)

    def _role(self, cluster: eks.ICluster, cluster_name: str) -> IrsaRole:
        stack = Stack.of(self)
        own = [
            f"arn:aws:logs:{stack.region}:{stack.account}:log-group:"
            f"{naming.container_insights_log_group(cluster_name, name)}:*"
            for name in naming.CONTAINER_INSIGHTS_LOGS
        ]
        role = add_on_role(
            self,
            CLOUDWATCH,
            cluster=cluster,
            description="CloudWatch agents: metrics and logs of this cluster",
            statements=[
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                    resources=own,
                ),
                iam.PolicyStatement(
                    actions=["cloudwatch:PutMetricData"],
                    resources=["*"],
                    conditions={"StringEquals": {"cloudwatch:namespace": "ContainerInsights"}},
                ),
                iam.PolicyStatement(
                    actions=["ec2:DescribeTags", "ec2:DescribeVolumes", "logs:DescribeLogGroups"], resources=["*"]
                ),
            ],
        )
        reason = "PutMetricData and Describe calls have no resource type; metrics are limited to their namespace"
        acknowledge(role, reason, wildcard("*"))
        reason = "The agents name their streams; the log groups limit them"
        acknowledge(role, reason, *map(wildcard, own))
        return role


class Alarms(Construct):
    """The alarms of `config.container_insights`, each with its runbook in the description, sent to one topic."""

    made: list[cloudwatch.CfnAlarm]

    def __init__(
        self, scope: Construct, id: str, *, environment: Environment, topic: sns.ITopic, dimensions: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        self.made = [self._alarm(alarm, environment, topic, dimensions[alarm.of]) for alarm in alarms_of(environment)]

    def _alarm(self, alarm: AlarmFacts, environment: Environment, topic: sns.ITopic, of: str) -> cloudwatch.CfnAlarm:
        return cloudwatch.CfnAlarm(
            self,
            alarm.name,
            alarm_description=f"{alarm.summary} Runbook: {alarm.runbook}",
            namespace=alarm.namespace,
            metric_name=alarm.metric,
            dimensions=[cloudwatch.CfnAlarm.DimensionProperty(name=alarm.of, value=of)],
            statistic=alarm.statistic,
            period=alarm.seconds,
            evaluation_periods=alarm.periods,
            threshold=alarm.threshold(environment),
            comparison_operator="LessThanThreshold" if alarm.below else "GreaterThanOrEqualToThreshold",
            # A cluster without nodes, as after `ops scale`, has no metrics and no fault.
            treat_missing_data="notBreaching",
            alarm_actions=[topic.topic_arn],
            ok_actions=[topic.topic_arn],
        )
