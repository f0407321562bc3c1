"""Create a network, roles and clusters for tests of EKS."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import make_role
from embedded_account.testing.ways_out import give_way_out

NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")


@dataclass
class EksSetup:
    """EKS of a test account, with the network and the roles that a cluster needs."""

    account: Account
    clients: Clients
    vpc_id: str
    subnets: list[str]
    role_arn: str
    node_role_arn: str

    @cached_property
    def api(self) -> Any:
        """EKS's boto3 client."""
        return self.clients("eks")

    @property
    def kubernetes(self) -> Any:
        """The FakeApi of the cluster named `c`."""
        plane = self.account.clusters.get("c").control_plane
        assert isinstance(plane, FakePlane)
        return plane.api

    def request(self, **changes: Any) -> dict[str, Any]:
        """Return a valid CreateCluster request; `changes` add or replace members."""
        return {
            "name": "c",
            "version": "1.35",
            "roleArn": self.role_arn,
            "resourcesVpcConfig": {"subnetIds": self.subnets},
            "accessConfig": {"authenticationMode": "API"},
            **changes,
        }

    def create(self, **changes: Any) -> dict[str, Any]:
        """Create a cluster, wait until it is ACTIVE, and return its description."""
        from embedded_account.services.eks.service import service_of

        request = self.request(**changes)
        self.api.create_cluster(**request)
        service_of(self.account).wait_until_active(request["name"])
        found: dict[str, Any] = self.api.describe_cluster(name=request["name"])["cluster"]
        return found

    def create_nodegroup(self, **changes: Any) -> dict[str, Any]:
        """Create a node group of two m5.large in cluster `c`; return its description."""
        request = {
            "clusterName": "c",
            "nodegroupName": "system",
            "nodeRole": self.node_role_arn,
            "subnets": self.subnets,
            "instanceTypes": ["m5.large"],
            "scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 3},
            **changes,
        }
        made: dict[str, Any] = self.api.create_nodegroup(**request)["nodegroup"]
        return made


def make_network(clients: Clients) -> tuple[str, list[str]]:
    """Create a VPC with two subnets; return their ids."""
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"us-west-2{zone}")["Subnet"][
            "SubnetId"
        ]
        for i, zone in enumerate("ab")
    ]
    return vpc, subnets


def set_up(account: Account, clients: Clients, network: tuple[str, list[str]] | None = None) -> EksSetup:
    """Give a network a way out, and create a cluster role and a node role. Without `network`, create it, too."""
    vpc, subnets = network or make_network(clients)
    give_way_out(clients("ec2"), vpc)
    role = make_role(account, "cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    node_role = make_role(account, "nodes", "ec2.amazonaws.com", *NODE_POLICIES)
    return EksSetup(account, clients, vpc, subnets, role.attributes()["Arn"], node_role.attributes()["Arn"])
