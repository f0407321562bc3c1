"""The role of Alertmanager."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from k8s_charts.shared import names
from stacks.observability.alert_topic import AlertTopic
from stacks.shared.company_key import may_use
from stacks.shared.irsa import IrsaRole


def publisher_role(scope: Construct, cluster: eks.ICluster, alerts: AlertTopic) -> IrsaRole:
    """Return the role of Alertmanager, which may publish to this topic only.

    SNS developer guide, "Key management": who publishes to an encrypted topic needs the two rights on its key.
    """
    return IrsaRole(
        scope,
        "AlertmanagerRole",
        cluster=cluster,
        namespace=names.PROMETHEUS_NAMESPACE,
        service_account=names.ALERTMANAGER,
        description="Alertmanager: publishes to the topic of alerts",
        statements=[
            iam.PolicyStatement(actions=["sns:Publish"], resources=[alerts.topic.topic_arn]),
            may_use(alerts.key, "sns", "kms:Decrypt", "kms:GenerateDataKey"),
        ],
    )
