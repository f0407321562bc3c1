"""FSx for Lustre, and the prefixes of the data bucket that it mirrors."""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from config.facts import versions
from config.model import Fsx
from k8s_charts.storage.volumes import FileSystemAddress
from stacks.storage.removal import data_removal_policy

# Files that are created, changed or deleted in the bucket or the file system are mirrored to the other.
EVENTS = ["NEW", "CHANGED", "DELETED"]


class LustreFileSystem(Construct):
    """A PERSISTENT_2 file system on SSD.

    CloudFormation replaces it when the subnet, security group, KMS key, deployment type, Lustre version or throughput
    changes (CloudFormation's reference of AWS::FSx::FileSystem; FSx's own API changes the throughput in place).
    CloudFormation refuses the replacement while the ray stack imports id, DNS name and mount name; otherwise all data
    is lost that no data repository association mirrors. EFA cannot be changed: FSx's UpdateFileSystem has no field for
    it.
    """

    address: FileSystemAddress

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Fsx,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        data_bucket: s3.IBucket,
        protect: bool,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        removal_policy = data_removal_policy(protect=protect)
        file_system = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version=versions.LUSTRE,
            storage_type="SSD",
            storage_capacity=settings.capacity_gib,
            kms_key_id=key.key_arn if key else None,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[security_group.security_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=settings.throughput_mbps_per_tib,
                data_compression_type=settings.compression,
                efa_enabled=settings.efa or None,
                metadata_configuration=_metadata(settings),
            ),
        )
        file_system.apply_removal_policy(removal_policy)
        self.address = FileSystemAddress(file_system.ref, file_system.attr_dns_name, file_system.attr_lustre_mount_name)

        previous: fsx.CfnDataRepositoryAssociation | None = None
        for repository in settings.data_repositories:
            association = fsx.CfnDataRepositoryAssociation(
                self,
                f"DataRepository{repository.path}".replace("/", "-"),
                file_system_id=file_system.ref,
                file_system_path=repository.path,
                data_repository_path=data_bucket.s3_url_for_object(repository.prefix),
                batch_import_meta_data_on_create=True,
                s3=fsx.CfnDataRepositoryAssociation.S3Property(
                    auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(events=EVENTS),
                    auto_export_policy=fsx.CfnDataRepositoryAssociation.AutoExportPolicyProperty(events=EVENTS),
                ),
            )
            association.apply_removal_policy(removal_policy)
            # A file system accepts one association request at a time.
            if previous:
                association.add_resource_dependency(previous)
            previous = association


def _metadata(settings: Fsx) -> fsx.CfnFileSystem.MetadataConfigurationProperty | None:
    """Return the metadata configuration that FSx requires for EFA (AUTOMATIC follows the capacity), else None."""
    return fsx.CfnFileSystem.MetadataConfigurationProperty(mode="AUTOMATIC") if settings.efa else None
