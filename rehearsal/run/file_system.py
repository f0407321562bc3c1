"""What the kubelet would find when it mounts the claim: nothing is mounted in the rehearsal, so it is looked up."""

from typing import Any

from config import Environment
from embedded_account.running import EmbeddedAccount
from rehearsal.run.cluster import ClusterView, TimedOutError


def file_system(account: EmbeddedAccount, environment: Environment, cluster: ClusterView) -> str:
    """Return the id of the file system behind the claim.

    Raises TimedOutError unless the volume's DNS name and mount name are those that FSx gives to that file system, and
    it lies in the subnet of the first zone's nodes.
    """
    volume = cluster.volume_of(environment.fsx.claim)
    identifier: str = volume["volumeHandle"]
    [found] = account.client("fsx").describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    wanted = {"dnsname": found["DNSName"], "mountname": found["LustreConfiguration"]["MountName"]}
    if volume["volumeAttributes"] != wanted:
        raise TimedOutError(f"the volume of {identifier} says {volume['volumeAttributes']}, FSx says {wanted}")
    _require_the_nodes_subnet(account, environment, found)
    return identifier


def _require_the_nodes_subnet(account: EmbeddedAccount, environment: Environment, found: dict[str, Any]) -> None:
    [subnet] = account.client("ec2").describe_subnets(SubnetIds=found["SubnetIds"])["Subnets"]
    wanted = str(environment.network.node_subnet(0))
    if subnet["CidrBlock"] != wanted:
        raise TimedOutError(
            f"{found['FileSystemId']} lies in {subnet['CidrBlock']}, the first zone's nodes in {wanted}"
        )
