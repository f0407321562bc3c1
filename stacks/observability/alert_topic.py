"""The topic that receives alarms and alerts, its subscriptions, and who may publish."""

from collections.abc import Iterator, Mapping

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from config.model import Alerts


class AlertTopic(Construct):
    """An encrypted topic that accepts TLS only.

    `services` of AWS publish to it for this account (a principal by the statement's id), and roles with a right.
    """

    topic: sns.ITopic
    key: kms.IKey

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        display_name: str,
        alerts: Alerts,
        services: Mapping[str, str],
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        # Not SNS's AWS managed key: its policy does not admit CloudWatch and cannot be changed.
        self.key = key or self._own_key(display_name, services)
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=display_name,
            enforce_ssl=True,
            master_key=self.key,
        )
        for statement in self._services_may(services, "sns:Publish", resource=self.topic.topic_arn):
            self.topic.add_to_resource_policy(statement)
        for email in alerts.emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        for url in alerts.https:
            self.topic.add_subscription(subscriptions.UrlSubscription(url, protocol=sns.SubscriptionProtocol.HTTPS))

    def _own_key(self, display_name: str, services: Mapping[str, str]) -> kms.IKey:
        key = kms.Key(
            self,
            "Key",
            description=display_name,
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        for statement in self._services_may(services, "kms:Decrypt", "kms:GenerateDataKey*", resource="*"):
            key.add_to_resource_policy(statement)
        return key

    def _services_may(self, services: Mapping[str, str], *actions: str, resource: str) -> Iterator[iam.PolicyStatement]:
        for sid, principal in services.items():
            yield iam.PolicyStatement(
                sid=sid,
                principals=[iam.ServicePrincipal(principal)],
                actions=list(actions),
                resources=[resource],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
