"""HyperPod's observability add-on: its collector writes to a workspace of Amazon Managed Service for Prometheus."""

from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_aps as aps
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.facts.add_ons import HYPERPOD
from stacks.eks.add_ons import add_on_role, eks_add_on
from stacks.shared.company_key import may_use

_METRICS: Final = {
    "trainingMetrics": "BASIC",
    "inferenceMetrics": "DISABLED",
    "taskGovernanceMetrics": "DISABLED",
    "scalingMetrics": "DISABLED",
    "customMetrics": "BASIC",
    "nodeMetrics": "BASIC",
    "acceleratedComputeMetrics": "BASIC",
    "networkMetrics": "BASIC",
}
"""Level of each category (SageMaker AI developer guide, hyperpod-observability-cluster-metrics); samples cost money."""
_SECONDS: Final = 30


class HyperPodAddOn(Construct):
    """The workspace, the add-on, and a role of its collector that may only write to this workspace."""

    workspace_arn: str

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, alias: str, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        workspace = aps.CfnWorkspace(self, "Workspace", alias=alias, kms_key_arn=key.key_arn if key else None)
        self.workspace_arn = workspace.attr_arn
        write = iam.PolicyStatement(actions=["aps:RemoteWrite"], resources=[workspace.attr_arn])
        role = add_on_role(
            self,
            HYPERPOD,
            cluster=cluster,
            description="Collector of HyperPod's observability add-on: writes to its workspace",
            statements=[write, *([may_use(key, "aps", "kms:Decrypt", "kms:GenerateDataKey")] if key else [])],
        )
        eks_add_on(
            self,
            HYPERPOD,
            cluster=cluster,
            configuration=Stack.of(self).to_json_string(_configuration(Stack.of(self), workspace)),
            role_arn=role.arn,
        )


def _configuration(stack: Stack, workspace: aps.CfnWorkspace) -> dict[str, Any]:
    # Not the attribute PrometheusEndpoint, which ends in a slash.
    endpoint = f"https://aps-workspaces.{stack.region}.amazonaws.com/workspaces/{workspace.attr_workspace_id}"
    return {
        "ampWorkspace": {"prometheusEndpoint": endpoint, "arn": workspace.attr_arn},
        "metricsProvider": {name: {"level": level, "scrapeInterval": _SECONDS} for name, level in _METRICS.items()},
        # HyperPod's own logs are in CloudWatch already.
        "logging": {"enabled": False},
    }
