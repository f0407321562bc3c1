"""Give HyperPod access to the rest of the account: roles, subnets, security groups, buckets, interfaces, logs.

It uses moto's backends directly, because the service makes these calls, not a client, and makes them often.
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.sts.models import sts_backends
from moto.utilities.utils import get_partition

from embedded_account.background import Background
from embedded_account.hyperpod.errors import HyperPodAccessDeniedError
from embedded_account.hyperpod.model import Node, NodeSubnet, SimulatedCluster
from embedded_account.hyperpod.permissions.required import SERVICE_LINKED_ROLE, SERVICE_LINKED_ROLE_SERVICE
from embedded_account.services.ec2.reach import NODE_SERVICES, NetworkLocation, unreachable
from embedded_account.services.iam.grants import document, grants_of
from embedded_account.services.iam.policies import Grants, Policy
from embedded_account.services.keys import CREATE_GRANT, unusable

TEMPORARY_KEY_PREFIX = "ASIA"
"""The prefix of access keys of assumed roles (IAM user guide, unique identifiers)."""


@dataclass(frozen=True)
class NodeRole:
    """An IAM role: its trust policy and the permissions that it grants."""

    arn: str
    trust: Policy
    grants: Grants


@dataclass(frozen=True)
class Caller:
    """The caller of a request. `grants` is None for the operator's own credentials, which allow everything."""

    arn: str
    grants: Grants | None


@dataclass(frozen=True)
class NodeSecurityGroup:
    """A security group; the two flags say whether its rules allow all traffic from and to the group itself."""

    group_id: str
    vpc_id: str
    self_ingress: bool
    self_egress: bool


class AccountServices:
    """The account's other services: what HyperPod reads from them and changes in them."""

    def __init__(self, account_id: str, region: str, background: Background) -> None:
        self.account_id = account_id
        self.region = region
        self.partition: str = get_partition(region)
        self._background = background

    @property
    def _iam(self) -> Any:
        return iam_backends[self.account_id][self.partition]

    @property
    def _ec2(self) -> Any:
        return ec2_backends[self.account_id][self.region]

    def caller(self, access_key: str) -> Caller:
        """Return the owner of an access key: a role's session, an IAM user (without its groups), or the operator.

        Raise AccessDeniedError for a temporary key without a session, or for a session whose role no longer exists.
        """
        session = sts_backends[self.account_id][self.partition].get_assumed_role_from_access_key(access_key)
        if session is not None:
            role = self.role(session.role_arn)
            if role is None:
                raise HyperPodAccessDeniedError(f"The role of the session no longer exists: {session.role_arn}")
            return Caller(session.arn, role.grants)
        user = self._iam.get_user_from_access_key_id(access_key)
        if user is not None:
            return Caller(user.arn, grants_of(self.account_id, user, self._background.journal))
        if access_key.startswith(TEMPORARY_KEY_PREFIX):
            raise HyperPodAccessDeniedError(
                "The security token included in the request is invalid.", "UnrecognizedClientException"
            )
        return Caller(f"arn:{self.partition}:iam::{self.account_id}:root", None)

    def role(self, arn: str) -> NodeRole | None:
        """Return the role with this ARN; None if it does not exist."""
        found = next((role for role in list(self._iam.roles.values()) if role.arn == arn), None)
        if found is None:
            return None
        grants = grants_of(self.account_id, found, self._background.journal)
        return NodeRole(arn, document(found.assume_role_policy_document), grants)

    def service_linked_role(self) -> str | None:
        """Return the ARN of HyperPod's service-linked role; None if it does not exist."""
        return next((role.arn for role in list(self._iam.roles.values()) if role.name == SERVICE_LINKED_ROLE), None)

    def ensure_service_linked_role(self) -> str:
        """Return the ARN of the service-linked role; create the role if it is missing.

        As on AWS, the first cluster creates the role and nothing deletes it.
        """
        existing = self.service_linked_role()
        if existing:
            return existing
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": SERVICE_LINKED_ROLE_SERVICE},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
        role = self._iam.create_role(
            SERVICE_LINKED_ROLE,
            json.dumps(trust),
            f"/aws-service-role/{SERVICE_LINKED_ROLE_SERVICE}/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
            linked_service=SERVICE_LINKED_ROLE_SERVICE,
        )
        self._background.make("iam-role", SERVICE_LINKED_ROLE, role.arn, "service-linked role of HyperPod")
        return str(role.arn)

    def subnet(self, subnet_id: str) -> NodeSubnet | None:
        """Return the subnet; None if it does not exist."""
        found = next((zone[subnet_id] for zone in self._ec2.subnets.values() if subnet_id in zone), None)
        if found is None:
            return None
        return NodeSubnet(subnet_id, found.vpc_id, found.availability_zone, found.availability_zone_id)

    def security_group(self, group_id: str) -> NodeSecurityGroup | None:
        """Return the security group; None if it does not exist."""
        found = self._ec2.get_security_group_from_id(group_id)
        if found is None:
            return None
        return NodeSecurityGroup(
            group_id,
            found.vpc_id,
            self_ingress=_allows_all_with_itself(found.ingress_rules, group_id),
            self_egress=_allows_all_with_itself(found.egress_rules, group_id),
        )

    def object_exists(self, bucket: str, key: str) -> bool:
        """Return whether the bucket and the object in it exist."""
        known = s3_backends[self.account_id][self.partition].buckets.get(bucket)
        return known is not None and known.keys.get(key) is not None

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Return the objects below a prefix of an existing bucket: content by the path below the prefix."""
        known = s3_backends[self.account_id][self.partition].buckets[bucket]
        below = f"{prefix}/" if prefix else ""
        return {name.removeprefix(below): key.value for name, key in known.keys.items() if name.startswith(below)}

    def unusable_key(self, key: str) -> str:
        """Return why volumes cannot be encrypted with a KMS key, or ""."""
        return unusable(self.account_id, self.region, key, CREATE_GRANT, "kms:DescribeKey", via="sagemaker")

    def unreachable(self, node: Node) -> str:
        """Return why the node cannot reach the services that every node calls at its start, or ""."""
        return unreachable(
            self._ec2, NetworkLocation(node.subnet.subnet_id, tuple(node.security_groups)), NODE_SERVICES
        )

    def attach_interface(self, cluster: SimulatedCluster, node: Node) -> str:
        """Create the node's network interface in its subnet, with as many addresses as the instance type needs.

        Return "", or EC2's message if that fails, for example because the subnet has too few free addresses.
        """
        try:
            interface = self._background.network_interface(
                maker_arn=cluster.arn,
                description=f"SageMaker HyperPod {cluster.name} {node.group} {node.instance_id}",
                subnet_id=node.subnet.subnet_id,
                security_group_ids=node.security_groups,
                addresses=node.instance_type.ips_per_node,
            )
        except ServiceException as error:
            return str(error.message)
        node.interface_id, node.address = interface.id, interface.private_ip_address
        return ""

    def detach_interface(self, node: Node) -> None:
        """Delete the node's network interface, if it has one."""
        if node.interface_id:
            self._background.drop(node.interface_id)
            node.interface_id = ""

    def log(self, cluster: SimulatedCluster, stream: str, message: str, milliseconds: int) -> None:
        """Append one line to a stream of the cluster's log group; create the group and the stream if missing."""
        self._background.log_group(maker_arn=cluster.arn, name=cluster.log_group)
        logs = logs_backends[self.account_id][self.region]
        if stream not in logs.groups[cluster.log_group].streams:
            logs.create_log_stream(cluster.log_group, stream)
        logs.put_log_events(cluster.log_group, stream, [{"timestamp": milliseconds, "message": message}])


def split_s3_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and the key prefix, without leading and trailing slashes, of `s3://bucket/prefix`."""
    parsed = urlparse(uri)
    return parsed.netloc, parsed.path.strip("/")


def _allows_all_with_itself(rules: Any, group_id: str) -> bool:
    return any(rule.ip_protocol == "-1" and (rule.source_group or {}).get("GroupId") == group_id for rule in rules)
