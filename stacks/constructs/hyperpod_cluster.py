"""The HyperPod cluster."""

from typing import Any

from aws_cdk import CustomResource
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from config.model import HyperPod, InstanceGroup
from stacks.constructs.cluster_provider import ClusterProvider
from stacks.constructs.lifecycle_scripts import LifecycleScripts


class HyperPodCluster(Construct):
    """A cluster made by the boto3 custom resource; its properties are CreateCluster's own fields.

    So `cdk diff` shows an instance count as a number beside its name. What an update of each field means stands in
    `handlers/hyperpod_cluster/changes.py`. Created means accepted and InService; nodes come later.
    """

    resource: CustomResource
    arn: str

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        provider: ClusterProvider,
        settings: HyperPod,
        tags: dict[str, str],
        execution_role: iam.IRole,
        lifecycle_scripts: LifecycleScripts,
        eks_cluster: eks.ICluster,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, id)
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::HyperPodCluster",
            service_token=provider.service_token,
            properties={
                "ClusterName": settings.cluster_name,
                "Orchestrator": {"Eks": {"ClusterArn": eks_cluster.cluster_arn}},
                # One subnet: given several, HyperPod chooses one for all nodes, and nobody knows which.
                "VpcConfig": {"SecurityGroupIds": [security_group.security_group_id], "Subnets": [subnet.subnet_id]},
                "NodeProvisioningMode": "Continuous",
                "NodeRecovery": settings.node_recovery,
                "InstanceGroups": [
                    instance_group(group, execution_role, lifecycle_scripts) for group in settings.instance_groups
                ],
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            },
        )
        self.arn = self.resource.get_att_string("ClusterArn")


def instance_group(
    group: InstanceGroup, execution_role: iam.IRole, lifecycle_scripts: LifecycleScripts
) -> dict[str, Any]:
    """A group as CreateCluster wants it (`ClusterInstanceGroupSpecification`)."""
    specification: dict[str, Any] = {
        "InstanceGroupName": group.name,
        "InstanceType": group.instance_type,
        "InstanceCount": group.count,
        "ThreadsPerCore": group.threads_per_core,
        "ExecutionRole": execution_role.role_arn,
        "LifeCycleConfig": {"SourceS3Uri": lifecycle_scripts.uri, "OnCreate": lifecycle_scripts.entry_point},
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": group.volume_gib}}],
    }
    if group.deep_health_checks:
        specification["OnStartDeepHealthChecks"] = list(group.deep_health_checks)
    return specification
