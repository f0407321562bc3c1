"""The CloudFormation models of VPC endpoints and launch templates."""

import json
from typing import Any

from embedded_account.services.ec2.model import Ec2Model
from embedded_account.services.shared.api_model import Properties
from embedded_account.services.shared.resource_model import cloudformation_model


@cloudformation_model("AWS::EC2::VPCEndpoint")
class VpcEndpoint(Ec2Model):
    """A gateway endpoint (S3, DynamoDB) or an interface endpoint."""

    KNOWN = frozenset(
        {
            "PolicyDocument",
            "PrivateDnsEnabled",
            "RouteTableIds",
            "SecurityGroupIds",
            "ServiceName",
            "SubnetIds",
            "Tags",
            "VpcEndpointType",
            "VpcId",
        }
    )
    MUTABLE = frozenset({"PolicyDocument", "RouteTableIds", "SecurityGroupIds", "SubnetIds", "Tags"})
    LISTS = frozenset({"RouteTableIds", "SecurityGroupIds", "SubnetIds"})

    def make(self) -> str:
        given = self.only(*self.KNOWN - {"PolicyDocument", "Tags"})
        given.setdefault("PrivateDnsEnabled", False)
        response = self.api.create_vpc_endpoint(**given, **self._policy())
        return str(response["VpcEndpoint"]["VpcEndpointId"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        if "PolicyDocument" in changed and "PolicyDocument" not in self.properties:
            self.refuse("the embedded account cannot reset PolicyDocument to its default")
        super().change(old, changed)
        differences: dict[str, list[str]] = {}
        for name in sorted(self.LISTS & changed):
            before, after = old.get(name, []), self.properties.get(name, [])
            differences[f"Add{name}"] = [each for each in after if each not in before]
            differences[f"Remove{name}"] = [each for each in before if each not in after]
        given = {name: ids for name, ids in differences.items() if ids}
        self.api.modify_vpc_endpoint(VpcEndpointId=self.physical_resource_id, **given, **self._policy())

    def unmake(self) -> None:
        self.api.delete_vpc_endpoints(VpcEndpointIds=[self.physical_resource_id])

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_vpc_endpoints(VpcEndpointIds=[self.physical_resource_id])["VpcEndpoints"][0]
        return {
            "Id": self.physical_resource_id,
            "CreationTimestamp": found["CreationTimestamp"].isoformat(),
            "NetworkInterfaceIds": found.get("NetworkInterfaceIds", []),
            "DnsEntries": [
                f"{entry['HostedZoneId']}:{entry['DnsName']}"
                for entry in found.get("DnsEntries", [])
                if "HostedZoneId" in entry
            ],
        }

    def _policy(self) -> dict[str, str]:
        policy = self.properties.get("PolicyDocument")
        if policy is None:
            return {}
        return {"PolicyDocument": policy if isinstance(policy, str) else json.dumps(policy)}


@cloudformation_model("AWS::EC2::LaunchTemplate", name_property="LaunchTemplateName")
class LaunchTemplate(Ec2Model):
    """A launch template. A change of its data creates a new version and does not change the default version."""

    KNOWN = frozenset({"LaunchTemplateData", "LaunchTemplateName", "TagSpecifications", "VersionDescription"})
    MUTABLE = frozenset({"LaunchTemplateData", "VersionDescription"})

    def make(self) -> str:
        response = self.api.create_launch_template(
            LaunchTemplateName=self.declaration.name,
            **self.only("LaunchTemplateData", "VersionDescription", "TagSpecifications"),
        )
        return str(response["LaunchTemplate"]["LaunchTemplateId"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old, changed
        given = self.only("LaunchTemplateData", "VersionDescription")
        self.api.create_launch_template_version(LaunchTemplateId=self.physical_resource_id, **given)

    def unmake(self) -> None:
        self.api.delete_launch_template(LaunchTemplateId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        wanted = [self.physical_resource_id]
        found = self.api.describe_launch_templates(LaunchTemplateIds=wanted)["LaunchTemplates"][0]
        return {
            "LaunchTemplateId": self.physical_resource_id,
            "DefaultVersionNumber": str(found["DefaultVersionNumber"]),
            "LatestVersionNumber": str(found["LatestVersionNumber"]),
        }
