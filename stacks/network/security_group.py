"""The one security group that HyperPod nodes, system nodes, file system and EKS control plane share."""

from typing import Final

from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IDependable

ALL: Final = "-1"


class SharedSecurityGroup(Construct):
    """Everything within the group, and everything out of it.

    The rules are resources of their own, and none is inline: EFA's health check wants explicit rules from the group
    to itself in both directions (an egress to 0.0.0.0/0 does not stand in for one), CDK's `SecurityGroup` drops the
    self egress beside "all outbound", and CloudFormation drops inline egress once an egress resource is attached.
    Whoever starts nodes depends on `rules`, else the check may run before they exist.

    AWS's default security group of the VPC keeps its own rules: CloudFormation cannot change it, and nothing uses it.
    """

    security_group: ec2.ISecurityGroup
    rules: list[IDependable]

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, id)
        group = ec2.CfnSecurityGroup(
            self,
            "Resource",
            vpc_id=vpc.vpc_id,
            group_description="HyperPod nodes, system nodes, FSx for Lustre and the EKS control plane",
        )
        group_id = group.attr_group_id
        self.rules = [
            ec2.CfnSecurityGroupIngress(
                self,
                "FromSelf",
                group_id=group_id,
                ip_protocol=ALL,
                source_security_group_id=group_id,
                description="Everything within the group (EFA, Lustre, kubelet, Ray)",
            ),
            ec2.CfnSecurityGroupEgress(
                self,
                "ToSelf",
                group_id=group_id,
                ip_protocol=ALL,
                destination_security_group_id=group_id,
                description="Everything within the group (EFA checks for this very rule)",
            ),
            ec2.CfnSecurityGroupEgress(
                self,
                "ToAnywhere",
                group_id=group_id,
                ip_protocol=ALL,
                cidr_ip="0.0.0.0/0",
                description="AWS APIs and image registries",
            ),
        ]
        # Immutable: rules that CDK would add for other stacks' resources make a cycle between stacks.
        self.security_group = ec2.SecurityGroup.from_security_group_id(self, "Group", group_id, mutable=False)
