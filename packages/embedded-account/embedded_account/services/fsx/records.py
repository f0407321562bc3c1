"""FSx's records of file systems and associations, and the network interfaces of file systems.

The number of interfaces (one for metadata, one per file server) is an assumption.
"""

import math
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.s3.models import s3_backends
from moto.utilities.utils import get_partition

from embedded_account.context import Account
from embedded_account.services.fsx import rules
from embedded_account.services.keys import unusable
from embedded_account.services.s3.keys import default_key, key_context

Fields = Mapping[str, Any]
_S3_ROLE = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access"


@dataclass
class FsxRecord:
    """A file system or an association: the API's fields, and when its current transition ends."""

    fields: dict[str, Any]
    request: dict[str, Any]
    ready_at: datetime
    created: bool = False
    deleting: bool = False
    failure: str | None = None
    interfaces: list[str] = field(default_factory=list)

    @property
    def resource_arn(self) -> str:
        """The name of the resource in moto's tagging: its ARN."""
        return str(self.fields["ResourceARN"])


@dataclass(frozen=True)
class FileSystemNames:
    """The names that FSx chooses for a file system."""

    id: str = field(default_factory=lambda: f"fs-0{secrets.token_hex(8)}")
    mount_name: str = field(
        default_factory=lambda: "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(8))
    )


def new_file_system(account: Account, request: Fields, ready_at: datetime, identity: FileSystemNames) -> FsxRecord:
    """Return a new file system in the request's subnet, and create its interfaces."""
    ec2 = ec2_backends[account.account_id][account.region]
    subnet, groups = _network(ec2, request)
    identifier = identity.id
    fields = {
        "OwnerId": account.account_id,
        "CreationTime": account.clock.now().timestamp(),
        "FileSystemId": identifier,
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": rules.file_system_version(request),
        "StorageCapacity": request["StorageCapacity"],
        "StorageType": "SSD",
        "VpcId": subnet.vpc_id,
        "SubnetIds": [subnet.id],
        "DNSName": f"{identifier}.fsx.{account.region}.amazonaws.com",
        "KmsKeyId": request.get("KmsKeyId") or _arn(account, "kms", "alias/aws/fsx"),
        "ResourceARN": _arn(account, "fsx", f"file-system/{identifier}"),
        "LustreConfiguration": {
            "DataCompressionType": "NONE",
            "AutomaticBackupRetentionDays": 0,
            "CopyTagsToBackups": False,
            "WeeklyMaintenanceStartTime": "1:00:00",
            **request["LustreConfiguration"],
            "MountName": identity.mount_name,
        },
    }
    record = FsxRecord(fields, dict(request), ready_at)
    fields["NetworkInterfaceIds"] = record.interfaces
    add_interfaces(account, record, groups)
    return record


def grow(account: Account, record: FsxRecord, capacity: int) -> None:
    """Increase the storage of the file system to `capacity` GiB and add the interfaces of its new file servers."""
    ec2 = ec2_backends[account.account_id][account.region]
    record.fields["StorageCapacity"] = capacity
    groups = [group.id for group in ec2.get_network_interface(record.interfaces[0]).group_set]
    add_interfaces(account, record, groups)


def add_interfaces(account: Account, record: FsxRecord, groups: list[str]) -> None:
    """Create the missing interfaces, up to the number that the file system's capacity needs."""
    server_gib = rules.server_gib(record.fields["LustreConfiguration"])
    needed = 1 + math.ceil(record.fields["StorageCapacity"] / server_gib)
    while len(record.interfaces) < needed:
        interface = account.background.network_interface(
            maker_arn=record.resource_arn,
            description=f"Created by Amazon FSx for file system {record.fields['FileSystemId']}",
            subnet_id=record.fields["SubnetIds"][0],
            security_group_ids=groups,
            requester_id="amazon-fsx",
        )
        record.interfaces.append(interface.id)


def new_association(account: Account, request: Fields, ready_at: datetime) -> FsxRecord:
    """Return a new data repository association; it will become FAILED if FSx cannot use its bucket."""
    identifier, file_system = f"dra-0{secrets.token_hex(8)}", request["FileSystemId"]
    bucket = request["DataRepositoryPath"].removeprefix("s3://").split("/")[0]
    optional = ("S3", "ImportedFileChunkSize", "BatchImportMetaDataOnCreate")
    fields = {
        "ImportedFileChunkSize": 1024,
        "BatchImportMetaDataOnCreate": False,
        **{name: request[name] for name in optional if name in request},
        "AssociationId": identifier,
        "ResourceARN": _arn(account, "fsx", f"association/{file_system}/{identifier}"),
        "FileSystemId": file_system,
        "FileSystemPath": request.get("FileSystemPath", "/"),
        "DataRepositoryPath": request["DataRepositoryPath"],
        "CreationTime": account.clock.now().timestamp(),
    }
    return FsxRecord(fields, dict(request), ready_at, failure=_unreadable(account, bucket, file_system))


def _unreadable(account: Account, bucket: str, file_system: str) -> str | None:
    """Return why the role that FSx makes for the file system cannot use the bucket; None if it can.

    Source: FSx for Lustre user guide, "Working with server-side encrypted Amazon S3 buckets".
    """
    refused = f"Amazon FSx is unable to access the S3 bucket {bucket}."
    where = account.account_id, account.region
    if bucket not in s3_backends[account.account_id][get_partition(account.region)].buckets:
        return refused
    role = f"arn:{get_partition(account.region)}:iam::{account.account_id}:role/{_S3_ROLE}_{file_system}"
    key = default_key(*where, bucket)
    for action in ("kms:Decrypt", "kms:GenerateDataKey") if key else ():
        context = key_context(*where, bucket, "*", action) | {"aws:PrincipalArn": role}
        if why := unusable(*where, key, action, via="s3", principal=role, context=context):
            return f"{refused} The KMS key {key} {why}."
    return None


def _network(ec2: Any, request: Fields) -> tuple[Any, list[str]]:
    """Return the subnet and the ids of the security groups; raise FSx's error if one is invalid."""
    try:
        subnet = ec2.get_subnet(request["SubnetIds"][0])
    except EC2ClientError as error:
        raise rules.fsx_error("InvalidNetworkSettings", str(error.message)) from error
    groups = list(request.get("SecurityGroupIds") or [ec2.get_default_security_group(subnet.vpc_id).id])
    for group_id in groups:
        group = ec2.get_security_group_from_id(group_id)
        if group is None or group.vpc_id != subnet.vpc_id:
            raise rules.fsx_error(
                "InvalidNetworkSettings", f"Security group {group_id} is not in the VPC {subnet.vpc_id}."
            )
    found = [ec2.get_security_group_from_id(group_id) for group_id in groups]
    rules.check_traffic(found, request["LustreConfiguration"])
    return subnet, groups


def _arn(account: Account, service: str, resource: str) -> str:
    return f"arn:{get_partition(account.region)}:{service}:{account.region}:{account.account_id}:{resource}"
