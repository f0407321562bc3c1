"""Describe the existing infrastructure, which must stay the same: VPC, subnets, file system, EKS cluster, KMS key."""

import difflib
import json
from typing import Any, Final

from config import Environment
from embedded_account.running import EmbeddedAccount
from rehearsal.run import existing_cluster

_OF_THE_VPC: Final = (
    "describe_vpcs",
    "describe_subnets",
    "describe_route_tables",
    "describe_security_groups",
    "describe_network_acls",
    "describe_vpc_endpoints",
    "describe_nat_gateways",
    "describe_network_interfaces",
    "describe_flow_logs",
)
_UNINTERESTING: Final = ("ResponseMetadata",)

Description = dict[str, Any]


def names(environment: Environment) -> list[str]:
    """Return the environment's existing infrastructure in words; empty if there is none."""
    created = []
    if vpc := environment.network.existing:
        created.append(f"VPC {vpc.id} with {len(vpc.node_subnets)} + {len(vpc.control_plane_subnets)} subnets")
    if file_system := environment.fsx.existing:
        created.append(f"file system {file_system.id}, mount name {file_system.mount_name}")
    if cluster := environment.existing_eks:
        created.append(f"EKS cluster {cluster.name} with its security group {cluster.security_group}")
    if key := environment.company.kms_key:
        created.append(f"KMS key {key.rpartition('/')[2]}")
    return created


def describe(account: EmbeddedAccount, environment: Environment) -> Description:
    """Return everything that AWS's APIs return about the existing infrastructure."""
    described: Description = {}
    if vpc := environment.network.existing:
        ec2 = account.client("ec2")
        mine = [{"Name": "vpc-id", "Values": [vpc.id]}]
        for call in _OF_THE_VPC:
            given = {} if call == "describe_flow_logs" else {"Filters": mine}
            response = getattr(ec2, call)(**given)
            described[call] = {key: value for key, value in response.items() if key not in _UNINTERESTING}
        groups = [group["GroupId"] for group in described["describe_security_groups"]["SecurityGroups"]]
        rules = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": groups}])
        described["describe_security_group_rules"] = rules["SecurityGroupRules"]
    if file_system := environment.fsx.existing:
        systems = account.client("fsx").describe_file_systems(FileSystemIds=[file_system.id])
        described["describe_file_systems"] = systems["FileSystems"]
    if cluster := environment.existing_eks:
        described |= existing_cluster.describe(account, cluster)
    if key := environment.company.kms_key:
        kms = account.client("kms")
        described["describe_key"] = kms.describe_key(KeyId=key)["KeyMetadata"]
        described["get_key_policy"] = kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    return described


def collect_garbage(account: EmbeddedAccount, environment: Environment) -> int:
    """Remove the pods of nodes that no longer exist from an existing EKS cluster; return how many there were."""
    cluster = environment.existing_eks
    return existing_cluster.collect_pods_of_gone_nodes(account, cluster) if cluster else 0


def ending_namespaces(account: EmbeddedAccount, environment: Environment) -> list[str]:
    """Return the namespaces of an existing EKS cluster that are being deleted."""
    cluster = environment.existing_eks
    return existing_cluster.ending_namespaces(account, cluster) if cluster else []


def difference(before: Description, after: Description) -> str:
    """Return a line diff of what differs between the two descriptions; empty if they are equal."""
    old, new = (
        json.dumps(each, indent=1, sort_keys=True, default=str).splitlines() for each in _differing(before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, "before", "after", n=2, lineterm=""))


def _differing(before: Description, after: Description) -> tuple[Description, Description]:
    """Return the two descriptions without what they have in common, because difflib's time grows with its square."""
    keys = {key for key in before | after if before.get(key, ...) != after.get(key, ...)}
    old, new = ({key: side[key] for key in keys & side.keys()} for side in (before, after))
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict):
            old[key], new[key] = _differing(old[key], new[key])
    return old, new
