"""Check what the kubelet would use to mount the claim: the rehearsal mounts nothing."""

from typing import Any

from config import Environment
from embedded_account.running import EmbeddedAccount
from rehearsal.run.cluster import ClusterView, TimedOutError


def file_system(account: EmbeddedAccount, environment: Environment, cluster: ClusterView) -> str:
    """Return the id of the file system behind the claim.

    Raises TimedOutError unless the volume has the DNS name and mount name that FSx gave that file system, and the file
    system is in the subnet of the first zone's nodes.
    """
    volume = cluster.volume_of(environment.fsx.claim)
    identifier: str = volume["volumeHandle"]
    [found] = account.client("fsx").describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    wanted = {"dnsname": found["DNSName"], "mountname": found["LustreConfiguration"]["MountName"]}
    if volume["volumeAttributes"] != wanted:
        raise TimedOutError(
            f"the volume of {identifier} has {volume['volumeAttributes']}. Allowed: {wanted}, as FSx returns"
        )
    _require_the_nodes_subnet(account, environment, found)
    return identifier


def _require_the_nodes_subnet(account: EmbeddedAccount, environment: Environment, found: dict[str, Any]) -> None:
    [subnet] = account.client("ec2").describe_subnets(SubnetIds=found["SubnetIds"])["Subnets"]
    wanted = str(environment.network.node_subnet(0))
    if subnet["CidrBlock"] != wanted:
        raise TimedOutError(
            f"{found['FileSystemId']} is in {subnet['CidrBlock']}. Allowed: {wanted}, as the first zone's nodes"
        )
