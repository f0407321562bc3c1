"""The interface of an environment's VPC, new (new_vpc.py) or existing (existing_vpc.py)."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class EnvironmentVpc(Construct):
    """A VPC, its `node_subnets` (one per zone, the file system's first) and `control_plane_subnets` (EKS's interfaces).

    `vpc` itself lists no subnets: each construct names the subnets that it uses. No code reads the *name* of a zone,
    because the names of an existing VPC's zones are unknown.
    """

    vpc: ec2.IVpc
    node_subnets: list[ec2.ISubnet]
    control_plane_subnets: list[ec2.ISubnet]
