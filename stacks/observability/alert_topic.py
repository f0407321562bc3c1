"""The topic that receives alarms, and its subscriptions."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from config.model import Alerts


class AlertTopic(Construct):
    """An encrypted topic that accepts TLS only, and to which only CloudWatch's alarms of this account publish."""

    topic: sns.ITopic

    def __init__(
        self, scope: Construct, id: str, *, display_name: str, alerts: Alerts, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=display_name,
            enforce_ssl=True,
            # Not SNS's AWS managed key: its policy does not admit CloudWatch and cannot be changed.
            master_key=key or self._own_key(display_name),
        )
        self.topic.add_to_resource_policy(self._alarms_may("sns:Publish", resource=self.topic.topic_arn))
        for email in alerts.emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        for url in alerts.https:
            self.topic.add_subscription(subscriptions.UrlSubscription(url, protocol=sns.SubscriptionProtocol.HTTPS))

    def _own_key(self, display_name: str) -> kms.IKey:
        key = kms.Key(
            self,
            "Key",
            description=display_name,
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        key.add_to_resource_policy(self._alarms_may("kms:Decrypt", "kms:GenerateDataKey*", resource="*"))
        return key

    def _alarms_may(self, *actions: str, resource: str) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            sid="Alarms",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=list(actions),
            resources=[resource],
            conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
        )
