"""Find leftovers of each kind. A finder yields only what no running part of the environment can still use."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from config import naming
from config.estimates.costs import prices
from ops import stacks
from ops.sweep.leftover import Finder, Leftover, Surface

_GUARD_DUTY: Final = ".guardduty-data"


def network_interfaces(surface: Surface) -> Iterator[Leftover]:
    """Yield detached interfaces that the VPC CNI or EKS made for the cluster's nodes and pods.

    Source: amazon-vpc-cni-k8s, "Cleaning up leaked ENIs": the CNI tags them with cluster.k8s.amazonaws.com/name.
    """
    ec2 = surface.client("ec2")
    filters = [
        {"Name": "status", "Values": ["available"]},
        {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [surface.eks_cluster]},
    ]
    for page in ec2.get_paginator("describe_network_interfaces").paginate(Filters=filters):
        for each in page["NetworkInterfaces"]:
            id = each["NetworkInterfaceId"]
            reason = "the VPC CNI made it for a node that is gone; its subnet cannot be deleted before it"
            yield Leftover("network interface", id, reason, _call(ec2.delete_network_interface, NetworkInterfaceId=id))


def volumes(surface: Surface) -> Iterator[Leftover]:
    """Yield detached EBS volumes that the EBS CSI driver made for claims of the cluster.

    Source: aws-ebs-csi-driver, docs/tagging.md: kubernetes.io/cluster/<cluster> = owned.
    """
    if surface.environment.eks.existing or "eks" in surface.parts:
        return
    ec2 = surface.client("ec2")
    owned = {"Name": f"tag:kubernetes.io/cluster/{surface.eks_cluster}", "Values": ["owned"]}
    filters = [{"Name": "status", "Values": ["available"]}, owned]
    for page in ec2.get_paginator("describe_volumes").paginate(Filters=filters):
        for each in page["Volumes"]:
            call = _call(ec2.delete_volume, VolumeId=each["VolumeId"])
            reason = f"{each['Size']} GiB; the EBS CSI driver made it for a claim"
            yield Leftover("volume", each["VolumeId"], reason, call, holds_data=True)


def snapshots(surface: Surface) -> Iterator[Leftover]:
    """Yield EBS snapshots that carry the cluster's tag."""
    if surface.environment.eks.existing or "eks" in surface.parts:
        return
    ec2 = surface.client("ec2")
    filters = [{"Name": f"tag:kubernetes.io/cluster/{surface.eks_cluster}", "Values": ["owned"]}]
    for page in ec2.get_paginator("describe_snapshots").paginate(OwnerIds=["self"], Filters=filters):
        for each in page["Snapshots"]:
            call = _call(ec2.delete_snapshot, SnapshotId=each["SnapshotId"])
            reason = f"{each['VolumeSize']} GiB; the EBS CSI driver made it"
            yield Leftover("snapshot", each["SnapshotId"], reason, call, holds_data=True)


def file_systems(surface: Surface) -> Iterator[Leftover]:
    """Yield file systems with the environment's tag, which the FSx CSI driver made for the claim."""
    if "ray" in surface.parts:
        return
    fsx = surface.client("fsx")
    tag = {"Key": naming.ENVIRONMENT_TAG, "Value": naming.environment_tag(surface.environment)}
    for page in fsx.get_paginator("describe_file_systems").paginate():
        for each in page["FileSystems"]:
            id = each["FileSystemId"]
            if tag in each.get("Tags", []) and id not in surface.owned and each["Lifecycle"] != "DELETING":
                reason = f"{each['StorageCapacity']:,} GiB; the FSx CSI driver made it, and its claim is gone"
                call = _call(fsx.delete_file_system, FileSystemId=id)
                yield Leftover("file system", id, reason, call, holds_data=True, usd_per_month=_fsx_price(each))


def log_groups(surface: Surface) -> Iterator[Leftover]:
    """Yield log groups that AWS services and functions made for parts that are gone."""
    environment, logs = surface.environment, surface.client("logs")
    prefixes = {f"/aws/sagemaker/Clusters/{environment.hyperpod.cluster_name}/": "hyperpod"}
    if environment.eks.existing is None:
        prefixes[f"/aws/eks/{surface.eks_cluster}/"] = "eks"
    for part in stacks.DESTROY_ORDER:
        prefixes[f"/aws/lambda/{naming.stack(environment, part)}-"] = part
    for prefix, part in prefixes.items():
        if part in surface.parts:
            continue
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
            for each in page["logGroups"]:
                name = each["logGroupName"]
                # A function's logical id begins with a capital letter, another environment's name does not.
                foreign = prefix.startswith("/aws/lambda/") and not name.removeprefix(prefix)[:1].isupper()
                if name not in surface.owned and not foreign:
                    reason = f"{each.get('storedBytes', 0):,} bytes; a service made it for the {part} stack"
                    yield Leftover("log group", name, reason, _call(logs.delete_log_group, logGroupName=name))


def guard_duty(surface: Surface) -> Iterator[Leftover]:
    """Yield endpoints and security groups that GuardDuty's runtime monitoring made in the environment's own VPC.

    They keep the VPC from being deleted. Source: GuardDuty user guide, "Deleting the VPC endpoint": the endpoint's
    service ends with guardduty-data and both have the tag GuardDutyManaged.
    """
    if surface.environment.network.existing:
        return
    ec2 = surface.client("ec2")
    stack = naming.stack(surface.environment, "network")
    own = [{"Name": "tag:aws:cloudformation:stack-name", "Values": [stack]}]
    for vpc in ec2.describe_vpcs(Filters=own)["Vpcs"]:
        if "eks" in surface.parts:
            return
        here = [{"Name": "vpc-id", "Values": [vpc["VpcId"]]}, {"Name": "tag:GuardDutyManaged", "Values": ["true"]}]
        reason = f"GuardDuty made it in {vpc['VpcId']}, which cannot be deleted before it"
        for each in ec2.describe_vpc_endpoints(Filters=here)["VpcEndpoints"]:
            if each["ServiceName"].endswith(_GUARD_DUTY):
                id = each["VpcEndpointId"]
                yield Leftover("GuardDuty endpoint", id, reason, _call(ec2.delete_vpc_endpoints, VpcEndpointIds=[id]))
        for each in ec2.describe_security_groups(Filters=here)["SecurityGroups"]:
            call = _call(ec2.delete_security_group, GroupId=each["GroupId"])
            yield Leftover("GuardDuty security group", each["GroupId"], reason, call)


def image_repository(surface: Surface) -> Iterator[Leftover]:
    """Yield the repository of the Ray image, if its stack is gone and kept it."""
    if "storage" in surface.parts:
        return
    ecr, stack = surface.client("ecr"), naming.stack(surface.environment, "storage")
    for page in ecr.get_paginator("describe_repositories").paginate():
        for each in page["repositories"]:
            tags = ecr.list_tags_for_resource(resourceArn=each["repositoryArn"])["tags"]
            if _is_of(tags, stack):
                name = each["repositoryName"]
                call = _call(ecr.delete_repository, repositoryName=name, force=True)
                yield Leftover("image repository", name, "stack storage kept it", call, holds_data=True)


def keys(surface: Surface) -> Iterator[Leftover]:
    """Yield enabled or disabled KMS keys of stacks that are gone. A key that waits for its deletion costs nothing."""
    kms = surface.client("kms")
    gone = {
        naming.stack(surface.environment, part) for part in ("eks", "hyperpod", "storage") if part not in surface.parts
    }
    for page in kms.get_paginator("list_keys").paginate():
        for each in page["Keys"]:
            key = kms.describe_key(KeyId=each["KeyId"])["KeyMetadata"]
            if key["KeyManager"] != "CUSTOMER" or key["KeyState"] == "PendingDeletion":
                continue
            tags = kms.list_resource_tags(KeyId=each["KeyId"])["Tags"]
            if any(_is_of(tags, stack, "TagKey", "TagValue") for stack in gone):
                call = _call(kms.schedule_key_deletion, KeyId=each["KeyId"], PendingWindowInDays=7)
                reason = "its stack is gone; it is deleted after seven days, in which you can keep it"
                yield Leftover("KMS key", each["KeyId"], reason, call, holds_data=True, usd_per_month=1.0)


FINDERS: Final[Sequence[Finder]] = (
    guard_duty,
    network_interfaces,
    file_systems,
    volumes,
    snapshots,
    image_repository,
    keys,
    log_groups,
)
"""In the order of the removal: what blocks a destroy first."""


def _call(function: Any, **arguments: Any) -> Any:
    return lambda: function(**arguments)


def _is_of(tags: Sequence[Mapping[str, str]], stack: str, key: str = "Key", value: str = "Value") -> bool:
    return any(tag[key] == "aws:cloudformation:stack-name" and tag[value] == stack for tag in tags)


def _fsx_price(file_system: Mapping[str, Any]) -> float | None:
    throughput = file_system.get("LustreConfiguration", {}).get("PerUnitStorageThroughput")
    price = prices()["fsx_gib_month"].get(str(throughput))
    return None if price is None else float(price) * float(file_system["StorageCapacity"])
