"""The file system that the environment says exists, as an owner has one, under the id of the environment file.

Simulated: on AWS its owner made it. Its security group lets the VPC in on Lustre's ports.
"""

import time
from typing import Any, Final

from moto.ec2.models import ec2_backends

from config.model import ExistingFileSystem, ExistingVpc
from embedded_account.context import Account
from embedded_account.services.fsx.records import Identity
from embedded_account.services.fsx.service import FsxService

# FSx user guide, "File system access control with Amazon VPC".
_PORTS: Final = ((988, 988), (1018, 1023))
_PAUSE: Final = 0.1


def make(account: Account, wanted: ExistingFileSystem, vpc: ExistingVpc) -> None:
    """Make the file system in the first node subnet of the VPC, and wait until it is AVAILABLE."""
    ec2: Any = ec2_backends[account.account_id][account.region]
    group = ec2.create_security_group("team-file-system", "Lustre clients of the VPC", vpc_id=vpc.id)
    for first, last in _PORTS:
        ec2.authorize_security_group_ingress(group.id, "tcp", first, last, [{"CidrIp": str(vpc.cidr)}])
    service = FsxService(account)
    service.create_file_system(
        {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [vpc.node_subnets[0].id],
            "SecurityGroupIds": [group.id],
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
            "Tags": [{"Key": "owner", "Value": "data-team"}],
        },
        Identity(wanted.id, wanted.mount_name),
    )
    while service.describe_file_systems([wanted.id])[0]["Lifecycle"] != "AVAILABLE":
        time.sleep(_PAUSE)
