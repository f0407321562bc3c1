"""The storage stack: everything that holds data."""

from aws_cdk import Duration
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3
from constructs import Construct

from config import Environment, naming
from k8s_charts.shared import names
from k8s_charts.storage.volumes import FileSystemAddress
from stacks.network.stack import NetworkStack
from stacks.shared.environment_stack import EnvironmentStack
from stacks.storage.bucket import PrivateBucket
from stacks.storage.file_system import LustreFileSystem
from stacks.storage.image_repository import ImageRepository
from stacks.storage.mlflow import MlflowTrackingServer


class StorageStack(EnvironmentStack):
    """The file system, the buckets and the image repository.

    The file system is in the first zone, beside that zone's nodes: traffic between zones costs money and time.
    `file_system` is None if the environment uses an existing one or lets the CSI driver create it; `image_repository`
    is None if the environment uses an existing image, or Slurm.
    """

    file_system: FileSystemAddress | None
    data_bucket: s3.IBucket
    lifecycle_bucket: s3.IBucket
    image_repository: ecr.IRepository | None

    def __init__(self, scope: Construct, *, environment: Environment, network: NetworkStack) -> None:
        also = ", image repository" if environment.has_kubernetes else ""
        super().__init__(
            scope,
            environment=environment,
            part="storage",
            purpose=f"FSx for Lustre, data and lifecycle buckets{also}",
            keeps_data=True,
        )
        protect = environment.protect
        # Jobs prune their checkpoints there; kept for a month, deleted checkpoints would multiply the bill.
        checkpoints = f"{names.RAY_DATA_PREFIX}/"
        self.data_bucket = PrivateBucket(
            self,
            "Data",
            name=naming.data_bucket(environment),
            protect=protect,
            key=self.company_key,
            rewritten=[checkpoints],
            # `ops job submit` uploads one again that is older than a month: each run has it for at least two.
            expiring={f"{names.RAY_PACKAGES_PREFIX}/": Duration.days(90)},
        ).bucket
        self.lifecycle_bucket = PrivateBucket(
            self, "Lifecycle", name=naming.lifecycle_bucket(environment), protect=protect, key=self.company_key
        ).bucket
        self.file_system = self._file_system(environment, network) if environment.fsx.owned else None
        if environment.managed_mlflow:
            MlflowTrackingServer(
                self,
                "TrackingServer",
                name=naming.tracking_server(environment),
                bucket=self.data_bucket,
                protect=protect,
                key=self.company_key,
            )
        self.image_repository = None
        if name := environment.repository:
            self.image_repository = ImageRepository(
                self, "Image", name=name, protect=protect, key=self.company_key
            ).repository

    def _file_system(self, environment: Environment, network: NetworkStack) -> FileSystemAddress:
        return LustreFileSystem(
            self,
            "FileSystem",
            settings=environment.fsx,
            subnet=network.vpc.node_subnets[0],
            security_group=network.security_group,
            data_bucket=self.data_bucket,
            protect=environment.protect,
            key=self.company_key,
        ).address
