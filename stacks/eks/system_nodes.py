"""The managed node group `system`, which runs CoreDNS, operators, the CSI controller and the image build."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from config.model import SystemNodes as Settings
from stacks.shared.nag_suppressions import acknowledge, managed_policy

# AmazonEKS_CNI_Policy: the VPC CNI runs on these nodes with the node's own role.
_NODE_POLICIES: Final = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")


class SystemNodeGroup(Construct):
    """EC2 nodes with a label and no taint: pods without a node selector may run here too.

    The nodes are in the shared security group (to reach Ray's pods, the file system and the API) and in the
    cluster's own group, which EKS does not add if a launch template names groups. Pods cannot reach the instance
    metadata (hop limit 1), as on HyperPod.
    """

    node_group: eks.CfnNodegroup

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        settings: Settings,
        version: str,
        subnets: list[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        tags: Mapping[str, str],
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in _NODE_POLICIES],
        )
        acknowledge(role, "EKS requires these policies of its nodes", *map(managed_policy, _NODE_POLICIES))
        template = self._launch_template(
            volume_gib=settings.volume_gib,
            security_groups=[security_group.security_group_id, cluster.cluster_security_group_id],
            tags=tags,
            key=key,
        )
        self.node_group = eks.CfnNodegroup(
            self,
            "Resource",
            cluster_name=cluster.cluster_name,
            node_role=role.role_arn,
            subnets=[subnet.subnet_id for subnet in subnets],
            # Without `version` the nodes keep their Kubernetes version when the control plane is upgraded.
            version=version,
            ami_type="AL2023_x86_64_STANDARD",
            instance_types=[settings.instance_type],
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                desired_size=settings.count, min_size=settings.count, max_size=settings.count
            ),
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.attr_launch_template_id, version=template.attr_latest_version_number
            ),
            labels={SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE},
        )

    def _launch_template(
        self, *, volume_gib: int, security_groups: list[str], tags: Mapping[str, str], key: kms.IKey | None
    ) -> ec2.CfnLaunchTemplate:
        given = [{"key": key, "value": value} for key, value in tags.items()]
        return ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                security_group_ids=security_groups,
                metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                    http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[
                    ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
                        device_name="/dev/xvda",
                        ebs=ec2.CfnLaunchTemplate.EbsProperty(
                            volume_size=volume_gib,
                            volume_type="gp3",
                            encrypted=True,
                            kms_key_id=key.key_arn if key else None,
                            delete_on_termination=True,
                        ),
                    )
                ],
                tag_specifications=[
                    ec2.CfnLaunchTemplate.TagSpecificationProperty(
                        resource_type="instance", tags=[{"key": "Name", "value": self.node.path}, *given]
                    ),
                    *(
                        [ec2.CfnLaunchTemplate.TagSpecificationProperty(resource_type="volume", tags=given)]
                        if given
                        else []
                    ),
                ],
            ),
        )
