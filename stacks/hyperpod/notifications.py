"""Email notifications about the cluster and its nodes."""

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct


class ClusterNotifications(Construct):
    """EventBridge rules of this cluster, an encrypted topic that accepts TLS only, and an email subscription.

    The owner of the address must confirm the subscription.
    """

    topic: sns.Topic
    key: kms.IKey

    def __init__(
        self, scope: Construct, id: str, *, cluster_name: str, email: str, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        # Not SNS's AWS managed key: its policy does not admit EventBridge and cannot be changed.
        self.key = key or self._own_key(cluster_name)
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=f"HyperPod cluster {cluster_name}",
            enforce_ssl=True,
            master_key=self.key,
        )
        self.topic.add_subscription(subscriptions.EmailSubscription(email))
        # AWS docs, automating-sagemaker-with-eventbridge, has an example of each of the three event types. A "Cluster
        # Event" carries the cluster's name one level deeper than the others; below Error it is noise in a mailbox.
        self._rule(
            "StateAndHealth",
            ["SageMaker HyperPod Cluster State Change", "SageMaker HyperPod Cluster Node Health Event"],
            {"ClusterName": [cluster_name]},
        )
        self._rule(
            "Errors",
            ["SageMaker HyperPod Cluster Event"],
            {"EventDetails": {"ClusterName": [cluster_name], "EventLevel": ["Error"]}},
        )

    def _own_key(self, cluster_name: str) -> kms.IKey:
        return kms.Key(
            self,
            "Key",
            description=f"Notifications of HyperPod cluster {cluster_name}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _rule(self, id: str, detail_types: list[str], detail: dict[str, Any]) -> None:
        events.Rule(
            self,
            id,
            description=", ".join(detail_types),
            event_pattern=events.EventPattern(source=["aws.sagemaker"], detail_type=detail_types, detail=detail),
            targets=[targets.SnsTopic(self.topic)],
        )
