"""The CloudFormation models of VPCs and their parts: subnets, route tables, gateways, addresses, flow logs."""

from typing import Any

from embedded_account.services.ec2.model import Ec2Model
from embedded_account.services.shared.api_model import Properties
from embedded_account.services.shared.resource_model import cloudformation_model

NO_TAGS: frozenset[str] = frozenset()


@cloudformation_model("AWS::EC2::VPC")
class Vpc(Ec2Model):
    """A VPC with its main route table, default security group and default network ACL."""

    KNOWN = frozenset({"CidrBlock", "EnableDnsHostnames", "EnableDnsSupport", "InstanceTenancy", "Tags"})
    MUTABLE = frozenset({"EnableDnsHostnames", "EnableDnsSupport", "Tags"})

    def make(self) -> str:
        if "CidrBlock" not in self.properties:
            self.refuse("either CidrBlock or Ipv4IpamPoolId must be provided")
        response = self.api.create_vpc(**self.only("CidrBlock", "InstanceTenancy"))
        return str(response["Vpc"]["VpcId"])

    def settle(self) -> None:
        super().settle()
        self._set_dns(frozenset({"EnableDnsHostnames", "EnableDnsSupport"}))

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        super().change(old, changed)
        self._set_dns(changed)

    def unmake(self) -> None:
        self.api.delete_vpc(VpcId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        vpc = self.api.describe_vpcs(VpcIds=[self.physical_resource_id])["Vpcs"][0]
        mine = [{"Name": "vpc-id", "Values": [self.physical_resource_id]}]
        default = {"Name": "group-name", "Values": ["default"]}
        groups = self.api.describe_security_groups(Filters=[*mine, default])["SecurityGroups"]
        acls = self.api.describe_network_acls(Filters=mine)["NetworkAcls"]
        return {
            "VpcId": self.physical_resource_id,
            "CidrBlock": vpc["CidrBlock"],
            "CidrBlockAssociations": [each["AssociationId"] for each in vpc["CidrBlockAssociationSet"]],
            "DefaultSecurityGroup": groups[0]["GroupId"],
            "DefaultNetworkAcl": next(acl["NetworkAclId"] for acl in acls if acl["IsDefault"]),
            "Ipv6CidrBlocks": [],
        }

    def _set_dns(self, names: frozenset[str]) -> None:
        defaults = {"EnableDnsHostnames": False, "EnableDnsSupport": True}
        for name in sorted(names & defaults.keys()):
            value = {"Value": self.properties.get(name, defaults[name])}
            self.api.modify_vpc_attribute(VpcId=self.physical_resource_id, **{name: value})


@cloudformation_model("AWS::EC2::VPCCidrBlock")
class VpcCidrBlock(Ec2Model):
    """A secondary IPv4 CIDR block of a VPC."""

    KNOWN = frozenset({"VpcId", "CidrBlock"})
    MUTABLE = NO_TAGS

    def make(self) -> str:
        response = self.api.associate_vpc_cidr_block(**self.properties)
        return str(response["CidrBlockAssociation"]["AssociationId"])

    def settle(self) -> None:
        """Do nothing: an association has no tags."""

    def unmake(self) -> None:
        self.api.disassociate_vpc_cidr_block(AssociationId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}


@cloudformation_model("AWS::EC2::Subnet")
class Subnet(Ec2Model):
    """A subnet; its zone is given by name or by id."""

    KNOWN = frozenset({"VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId", "MapPublicIpOnLaunch", "Tags"})
    MUTABLE = frozenset({"MapPublicIpOnLaunch", "Tags"})

    def make(self) -> str:
        given = self.only("VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        return str(self.api.create_subnet(**given)["Subnet"]["SubnetId"])

    def settle(self) -> None:
        super().settle()
        self._set_public_addresses()

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        super().change(old, changed)
        self._set_public_addresses()

    def unmake(self) -> None:
        self.api.delete_subnet(SubnetId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        subnet = self.api.describe_subnets(SubnetIds=[self.physical_resource_id])["Subnets"][0]
        names = ("SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        mine = [{"Name": "association.subnet-id", "Values": [self.physical_resource_id]}]
        acls = self.api.describe_network_acls(Filters=mine)["NetworkAcls"]
        return {
            **{name: subnet[name] for name in names},
            "NetworkAclAssociationId": next(
                each["NetworkAclAssociationId"]
                for acl in acls
                for each in acl["Associations"]
                if each["SubnetId"] == self.physical_resource_id
            ),
            "Ipv6CidrBlocks": [],
        }

    def _set_public_addresses(self) -> None:
        value = {"Value": self.properties.get("MapPublicIpOnLaunch", False)}
        self.api.modify_subnet_attribute(SubnetId=self.physical_resource_id, MapPublicIpOnLaunch=value)


@cloudformation_model("AWS::EC2::RouteTable")
class RouteTable(Ec2Model):
    """A route table; its routes and associations are separate resources."""

    KNOWN = frozenset({"VpcId", "Tags"})

    def make(self) -> str:
        return str(self.api.create_route_table(**self.only("VpcId"))["RouteTable"]["RouteTableId"])

    def unmake(self) -> None:
        self.api.delete_route_table(RouteTableId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"RouteTableId": self.physical_resource_id}


@cloudformation_model("AWS::EC2::Route")
class Route(Ec2Model):
    """A route to an internet gateway, a NAT gateway or a network interface."""

    TARGETS = frozenset({"GatewayId", "NatGatewayId", "NetworkInterfaceId"})
    KNOWN = frozenset({"RouteTableId", "DestinationCidrBlock"}) | TARGETS
    MUTABLE = frozenset({"GatewayId", "NatGatewayId"})

    def make(self) -> str:
        targets = self.TARGETS & self.properties.keys()
        if len(targets) != 1:
            self.refuse(f"a route must have exactly one target, not {len(targets)}")
        self.api.create_route(**self.properties)
        return f"{self.properties['RouteTableId']}|{self.properties['DestinationCidrBlock']}"

    def settle(self) -> None:
        """Do nothing: a route has no tags."""

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old, changed
        self.api.replace_route(**self.properties)

    def unmake(self) -> None:
        self.api.delete_route(**self.only("RouteTableId", "DestinationCidrBlock"))

    def attributes(self) -> dict[str, Any]:
        return {"CidrBlock": self.properties["DestinationCidrBlock"]}


@cloudformation_model("AWS::EC2::SubnetRouteTableAssociation")
class SubnetRouteTableAssociation(Ec2Model):
    """The association of a subnet with its route table."""

    KNOWN = frozenset({"RouteTableId", "SubnetId"})
    MUTABLE = NO_TAGS

    def make(self) -> str:
        return str(self.api.associate_route_table(**self.properties)["AssociationId"])

    def settle(self) -> None:
        """Do nothing: an association has no tags."""

    def unmake(self) -> None:
        self.api.disassociate_route_table(AssociationId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}


@cloudformation_model("AWS::EC2::InternetGateway")
class InternetGateway(Ec2Model):
    """An internet gateway; its attachment is a separate resource."""

    KNOWN = frozenset({"Tags"})

    def make(self) -> str:
        return str(self.api.create_internet_gateway()["InternetGateway"]["InternetGatewayId"])

    def unmake(self) -> None:
        self.api.delete_internet_gateway(InternetGatewayId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"InternetGatewayId": self.physical_resource_id}


@cloudformation_model("AWS::EC2::VPCGatewayAttachment")
class VpcGatewayAttachment(Ec2Model):
    """The attachment of an internet gateway to a VPC."""

    KNOWN = frozenset({"VpcId", "InternetGatewayId"})
    MUTABLE = NO_TAGS

    def make(self) -> str:
        self.api.attach_internet_gateway(**self.properties)
        return f"IGW|{self.properties['VpcId']}"

    def settle(self) -> None:
        """Do nothing: an attachment has no tags."""

    def unmake(self) -> None:
        self.api.detach_internet_gateway(**self.properties)

    def attributes(self) -> dict[str, Any]:
        return {"AttachmentType": "IGW"}


@cloudformation_model("AWS::EC2::EIP")
class ElasticAddress(Ec2Model):
    """A public IPv4 address; `Ref` is the address itself."""

    KNOWN = frozenset({"Domain", "Tags"})
    allocation_id = ""

    def make(self) -> str:
        address = self.api.allocate_address(Domain=self.properties.get("Domain", "vpc"))
        self.allocation_id = address["AllocationId"]
        return str(address["PublicIp"])

    @property
    def tagged_id(self) -> str:
        return self.allocation_id

    def unmake(self) -> None:
        self.api.release_address(AllocationId=self.allocation_id)

    def attributes(self) -> dict[str, Any]:
        return {"PublicIp": self.physical_resource_id, "AllocationId": self.allocation_id}


@cloudformation_model("AWS::EC2::NatGateway")
class NatGateway(Ec2Model):
    """A NAT gateway, public (with an address) or private."""

    KNOWN = frozenset({"SubnetId", "AllocationId", "ConnectivityType", "Tags"})

    def make(self) -> str:
        given = self.only("SubnetId", "AllocationId", "ConnectivityType")
        return str(self.api.create_nat_gateway(**given)["NatGateway"]["NatGatewayId"])

    def unmake(self) -> None:
        self.api.delete_nat_gateway(NatGatewayId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_nat_gateways(NatGatewayIds=[self.physical_resource_id])["NatGateways"][0]
        return {
            "NatGatewayId": self.physical_resource_id,
            "EniId": found["NatGatewayAddresses"][0]["NetworkInterfaceId"],
        }


@cloudformation_model("AWS::EC2::FlowLog")
class FlowLog(Ec2Model):
    """A flow log of a VPC, subnet or interface, delivered to CloudWatch Logs or S3."""

    KNOWN = frozenset(
        {
            "DeliverLogsPermissionArn",
            "LogDestination",
            "LogDestinationType",
            "LogFormat",
            "LogGroupName",
            "MaxAggregationInterval",
            "ResourceId",
            "ResourceType",
            "Tags",
            "TrafficType",
        }
    )

    def make(self) -> str:
        given = self.only(*self.KNOWN - {"ResourceId", "Tags"})
        response = self.api.create_flow_logs(ResourceIds=[self.properties["ResourceId"]], **given)
        for failed in response.get("Unsuccessful", []):
            self.refuse(failed["Error"]["Message"])
        return str(response["FlowLogIds"][0])

    def unmake(self) -> None:
        self.api.delete_flow_logs(FlowLogIds=[self.physical_resource_id])

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}
