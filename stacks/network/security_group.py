"""The security group that HyperPod nodes, system nodes, file system and EKS control plane share."""

from typing import Final

from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IDependable

ALL: Final = "-1"


class SharedSecurityGroup(Construct):
    """A group that allows all traffic between its members, and all outbound traffic.

    The rules are separate resources, none is inline. EFA's health check requires explicit rules from the group to
    itself in both directions (egress to 0.0.0.0/0 does not count). CDK's `SecurityGroup` drops the egress to itself
    beside "all outbound", and CloudFormation drops inline egress once an egress resource is attached. A resource that
    starts nodes must depend on `rules`; otherwise the check may run before the rules exist.

    The VPC's default security group keeps its rules: CloudFormation cannot change it, and nothing uses it.
    """

    security_group: ec2.ISecurityGroup
    rules: list[IDependable]

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc, for_eks: bool = True) -> None:
        super().__init__(scope, id)
        group = ec2.CfnSecurityGroup(
            self,
            "Resource",
            vpc_id=vpc.vpc_id,
            group_description="HyperPod nodes, system nodes, FSx for Lustre and the EKS control plane"
            if for_eks
            else "HyperPod nodes and FSx for Lustre",
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
        # Immutable: if CDK could add rules for resources of other stacks, the stacks would depend on each other.
        self.security_group = ec2.SecurityGroup.from_security_group_id(self, "Group", group_id, mutable=False)
