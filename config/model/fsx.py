"""The models of the file system that pods share."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from config.model.base import AbsolutePath, Model, Name, Shape

Prefix = Annotated[
    str,
    Shape(
        pattern=r"^[^/\s]([^\s]*[^/\s])?$",
        what="a prefix of the data bucket without spaces and without a slash at either end",
        like="datasets",
        fix="remove the bucket and the outer slashes",
        mistakes=((r"s3://.*", "it is an address with the bucket"),),
    ),
]
FileSystemId = Annotated[
    str,
    Shape(
        pattern=r"^fs-[0-9a-f]{8,17}$",
        what="the id of a file system",
        like="fs-0123456789abcdef0",
        fix="copy it from `aws fsx describe-file-systems`",
    ),
]
MountName = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z0-9_-]{1,8}$",
        what="the mount name of a Lustre file system, at most eight characters",
        like="abcdefgh",
        fix="copy it from `aws fsx describe-file-systems` (LustreConfiguration.MountName)",
        mistakes=((r"/.*", "it is a path"),),
    ),
]


ParameterCount = Annotated[
    str,
    Shape(
        pattern=r"^[1-9][0-9]*(\.[0-9]+)?[MB]$",
        what="a number of parameters in millions (M) or billions (B)",
        like="7B",
        fix="write it as on the model's card, such as 350M or 70B",
        mistakes=((r"[0-9.]+", "it has no unit"), (r"0.*", "it begins with a zero")),
    ),
]


class DataRepository(Model):
    """A path of the file system that mirrors a prefix of the data bucket, both ways."""

    path: AbsolutePath = Field(description="Path in the file system.")
    prefix: Prefix = Field(description="Prefix in the data bucket.")


class ExistingFileSystem(Model):
    """An existing file system in the VPC and in the nodes' zone. Its security group must admit the nodes."""

    id: FileSystemId = Field(description="Its id. Before you change it, destroy the ray stack.")
    mount_name: MountName = Field(description="Its mount name, as `aws fsx describe-file-systems` shows it.")


class Checkpoints(Model):
    """The largest training with Adam, of which `ops check` estimates the checkpoints. It changes no resource."""

    parameters: ParameterCount = Field(description="Number of parameters that it trains, such as `70B`.")
    keep: PositiveInt = Field(default=2, description="Checkpoints that it keeps.")
    every_minutes: PositiveInt = Field(default=60, description="Minutes between two checkpoints.")


class Fsx(Model):
    """The FSx for Lustre file system (PERSISTENT_2, SSD) and the claim that pods mount."""

    provisioning: Literal["static", "dynamic"] = Field(
        default="static",
        description="`static`: CloudFormation owns the file system. `dynamic`: the CSI driver makes one for the claim.",
    )
    capacity_gib: int = Field(
        default=1200, description="Capacity in GiB: 1200 or a multiple of 2400; it can grow, never shrink."
    )
    throughput_mbps_per_tib: int = Field(
        default=250,
        description="Throughput in MB/s for each TiB. A change replaces the file system, and is refused while the ray "
        "stack uses it: save the data, destroy the ray stack, change, deploy.",
        json_schema_extra={"enum": [125, 250, 500, 1000]},
    )
    compression: Literal["LZ4", "NONE"] = Field(default="LZ4", description="Compression of data.")
    efa: bool = Field(
        default=False, description="EFA between nodes and file system; an existing file system cannot change it."
    )
    claim: Name = Field(default="fsx-claim", description="Name of the PersistentVolumeClaim.")
    mount_path: AbsolutePath = Field(default="/fsx", description="Where Ray's pods mount it.")
    data_repositories: tuple[DataRepository, ...] = Field(
        default=(), description="Data repository associations, at most eight, none within another."
    )
    reclaim_policy: str | None = Field(
        default=None,
        description="Of dynamic volumes: `Delete` (default) deletes the file system with its claim, `Retain` keeps it.",
        json_schema_extra={"enum": ["Delete", "Retain", None]},
    )
    existing: ExistingFileSystem | None = Field(default=None, description="Use this file system instead of a new one.")
    checkpoints: Checkpoints | None = Field(
        default=None, description="The largest training; warns if its checkpoints take too long or too much."
    )

    @property
    def dynamic(self) -> bool:
        """Whether the CSI driver creates the file system for the claim."""
        return self.provisioning == "dynamic"

    @property
    def throughput_mbps(self) -> float:
        """The throughput of the whole file system in MB/s, if it is no existing one."""
        return self.throughput_mbps_per_tib * self.capacity_gib / 1024

    @property
    def owned(self) -> bool:
        """Whether the storage stack owns the file system."""
        return not self.dynamic and self.existing is None
