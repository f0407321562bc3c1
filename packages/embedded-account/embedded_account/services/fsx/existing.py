"""Create the existing file system that the caller describes, with the id that the caller gives.

Simulated: on AWS another team created the file system. Its security group admits the VPC on Lustre's ports.
"""

from typing import Any, Final

from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.existing_description import DescribedFileSystem, DescribedVpc
from embedded_account.services.fsx.records import FileSystemNames
from embedded_account.services.fsx.service import FsxService

# FSx user guide, "File system access control with Amazon VPC".
_PORTS: Final = ((988, 988), (1018, 1023))


def make(account: Account, wanted: DescribedFileSystem, vpc: DescribedVpc) -> None:
    """Create the file system, which is AVAILABLE at once."""
    ec2: Any = ec2_backends[account.account_id][account.region]
    group = ec2.create_security_group("team-file-system", "Lustre clients of the VPC", vpc_id=vpc.id)
    for first, last in _PORTS:
        ec2.authorize_security_group_ingress(group.id, "tcp", first, last, [{"CidrIp": str(vpc.cidr)}])
    FsxService(account).create_file_system(
        {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [wanted.subnet],
            "SecurityGroupIds": [group.id],
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
            "Tags": [{"Key": "owner", "Value": "data-team"}],
        },
        FileSystemNames(wanted.id, wanted.mount_name),
    )
