"""The CloudFormation models of security groups and their rules."""

from collections.abc import Mapping
from typing import Any, ClassVar

from embedded_account.services.ec2.model import Ec2Model
from embedded_account.services.shared.api_model import Properties
from embedded_account.services.shared.resource_model import cloudformation_model

Rule = Mapping[str, Any]

_DEFAULT_EGRESS = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def permission(rule: Rule, peer: str) -> dict[str, Any]:
    """Return a CloudFormation rule as an IpPermission; `peer` is Source (ingress) or Destination (egress)."""
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    found: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    for port in ("FromPort", "ToPort"):
        if port in rule:
            found[port] = int(rule[port])
    sources = {
        "IpRanges": ("CidrIp", "CidrIp"),
        "Ipv6Ranges": ("CidrIpv6", "CidrIpv6"),
        "UserIdGroupPairs": (f"{peer}SecurityGroupId", "GroupId"),
        "PrefixListIds": (f"{peer}PrefixListId", "PrefixListId"),
    }
    for list_name, (given, key) in sources.items():
        if given in rule:
            found[list_name] = [{key: rule[given], **described}]
    return found


@cloudformation_model("AWS::EC2::SecurityGroup", name_property="GroupName")
class SecurityGroup(Ec2Model):
    """A security group. If the template sets `SecurityGroupEgress`, EC2's default egress rule is removed."""

    KNOWN = frozenset({"GroupDescription", "GroupName", "SecurityGroupEgress", "SecurityGroupIngress", "Tags", "VpcId"})
    MUTABLE = frozenset({"SecurityGroupEgress", "SecurityGroupIngress", "Tags"})

    def make(self) -> str:
        response = self.api.create_security_group(
            GroupName=self.declaration.name,
            Description=self.properties["GroupDescription"],
            **self.only("VpcId"),
        )
        return str(response["GroupId"])

    def settle(self) -> None:
        super().settle()
        if self.properties.get("SecurityGroupEgress"):
            self._revoke("egress", [_DEFAULT_EGRESS])
        for direction in ("ingress", "egress"):
            self._authorize(direction, self._rules(self.properties, direction))

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        super().change(old, changed)
        for direction in ("ingress", "egress"):
            before = self._rules(old, direction) or self._implied(direction)
            after = self._rules(self.properties, direction) or self._implied(direction)
            self._revoke(direction, [rule for rule in before if rule not in after])
            self._authorize(direction, [rule for rule in after if rule not in before])

    def unmake(self) -> None:
        self.api.delete_security_group(GroupId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {
            "GroupId": self.physical_resource_id,
            "Id": self.physical_resource_id,
            "VpcId": self.properties.get("VpcId"),
        }

    @staticmethod
    def _rules(properties: Properties, direction: str) -> list[Rule]:
        return list(properties.get(f"SecurityGroup{direction.capitalize()}", []))

    @staticmethod
    def _implied(direction: str) -> list[Rule]:
        return [_DEFAULT_EGRESS] if direction == "egress" else []

    def _authorize(self, direction: str, rules: list[Rule]) -> None:
        self._call("authorize", direction, rules)

    def _revoke(self, direction: str, rules: list[Rule]) -> None:
        self._call("revoke", direction, rules)

    def _call(self, verb: str, direction: str, rules: list[Rule]) -> None:
        peer = "Source" if direction == "ingress" else "Destination"
        call = getattr(self.api, f"{verb}_security_group_{direction}")
        for rule in rules:
            call(GroupId=self.physical_resource_id, IpPermissions=[permission(rule, peer)])


class _SecurityGroupRule(Ec2Model):
    """A single rule as a resource; `Ref` is the rule's id (sgr-…)."""

    DIRECTION: ClassVar[str]
    PEER: ClassVar[str]
    MUTABLE = frozenset({"Description"})

    def make(self) -> str:
        authorize = getattr(self.api, f"authorize_security_group_{self.DIRECTION}")
        response = authorize(GroupId=self.properties["GroupId"], IpPermissions=[self._permission()])
        return str(response["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def settle(self) -> None:
        """Do nothing: CloudFormation does not tag rules."""

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old
        # moto does not find rules by their peer group; on AWS this call cannot remove a description.
        if changed and ("CidrIp" not in self.properties or "Description" not in self.properties):
            self.refuse(
                "the embedded account can change a Description only on a rule with CidrIp, and cannot remove it"
            )
        describe = getattr(self.api, f"update_security_group_rule_descriptions_{self.DIRECTION}")
        describe(GroupId=self.properties["GroupId"], IpPermissions=[self._permission()])

    def unmake(self) -> None:
        revoke = getattr(self.api, f"revoke_security_group_{self.DIRECTION}")
        revoke(GroupId=self.properties["GroupId"], SecurityGroupRuleIds=[self.physical_resource_id])

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}

    def _permission(self) -> dict[str, Any]:
        return permission(self.properties, self.PEER)


@cloudformation_model("AWS::EC2::SecurityGroupIngress")
class SecurityGroupIngress(_SecurityGroupRule):
    """An ingress rule of a security group that another resource creates."""

    DIRECTION = "ingress"
    PEER = "Source"
    KNOWN = frozenset(
        {
            "CidrIp",
            "CidrIpv6",
            "Description",
            "FromPort",
            "GroupId",
            "IpProtocol",
            "SourcePrefixListId",
            "SourceSecurityGroupId",
            "ToPort",
        }
    )


@cloudformation_model("AWS::EC2::SecurityGroupEgress")
class SecurityGroupEgress(_SecurityGroupRule):
    """An egress rule of a security group that another resource creates.

    As in CloudFormation, the first egress rule removes EC2's default rule (all traffic to anywhere, no
    description). An explicit rule with the same content is therefore no duplicate (aws/aws-cdk #987).
    """

    DIRECTION = "egress"
    PEER = "Destination"
    KNOWN = frozenset(
        {
            "CidrIp",
            "CidrIpv6",
            "Description",
            "DestinationPrefixListId",
            "DestinationSecurityGroupId",
            "FromPort",
            "GroupId",
            "IpProtocol",
            "ToPort",
        }
    )

    def make(self) -> str:
        group_id = self.properties["GroupId"]
        group = self.api.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
        default = permission(_DEFAULT_EGRESS, self.PEER)
        existing = [{key: value for key, value in rule.items() if value} for rule in group["IpPermissionsEgress"]]
        if existing == [default]:
            self.api.revoke_security_group_egress(GroupId=group_id, IpPermissions=[default])
        return super().make()
