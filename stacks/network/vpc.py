"""What every stack may know of an environment's VPC, whether it is made (new_vpc.py) or used (existing_vpc.py)."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class Vpc(Construct):
    """`node_subnets` (one per zone, the file system's first) and `control_plane_subnets` (of EKS's own interfaces).

    `vpc` itself lists no subnets: whoever places something names them. Nobody reads a zone's *name*: those of an
    existing VPC are not known.
    """

    vpc: ec2.IVpc
    node_subnets: list[ec2.ISubnet]
    control_plane_subnets: list[ec2.ISubnet]
