"""Words of AWS's API and of other tools, for which this project has another key, or no key yet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from config.findings import Place
from config.suggest import plain

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "instancecount": ("count",),
    "instances": ("count",),
    "nodes": ("count",),
    "numnodes": ("count",),
    "desired": ("count",),
    "desiredsize": ("count",),
    "desiredcapacity": ("count",),
    "mininstancecount": ("min_count",),
    "instancegroupname": ("name",),
    "gpu": ("instance_type",),
    "gpus": ("instance_type",),
    "accelerators": ("instance_type",),
    "type": ("instance_type",),
    "machinetype": ("instance_type",),
    "instancestorageconfigs": ("volume_gib",),
    "volumesizeingb": ("volume_gib",),
    "volumesize": ("volume_gib",),
    "disk": ("volume_gib",),
    "ebs": ("volume_gib",),
    "size": ("volume_gib", "capacity_gib"),
    "storage": ("volume_gib", "capacity_gib", "fsx"),
    "storagecapacity": ("capacity_gib",),
    "filesystem": ("fsx",),
    "lustre": ("fsx",),
    "perunitstoragethroughput": ("throughput_mbps_per_tib",),
    "datacompressiontype": ("compression",),
    "onstartdeephealthchecks": ("deep_health_checks",),
    "healthchecks": ("deep_health_checks",),
    "trainingplanarn": ("training_plan",),
    "capacityblock": ("training_plan",),
    "lifecycleconfig": ("lifecycle_scripts",),
    "kubernetesconfig": ("labels",),
    "nodegroups": ("instance_groups",),
    "groups": ("instance_groups",),
    "noderepair": ("node_recovery",),
    "autorecovery": ("node_recovery",),
    "stackname": ("project",),
    "stack": ("project",),
    "prefix": ("project",),
    "accountid": ("account",),
    "deletionprotection": ("protect",),
    "terminationprotection": ("protect",),
    "kubernetes": ("eks",),
    "kubernetesversion": ("version",),
    "allowedcidrs": ("public_access_cidrs",),
    "allowedips": ("public_access_cidrs",),
    "publicaccess": ("endpoint_access",),
    "cidr": ("vpc_cidr",),
    "cidrblock": ("vpc_cidr",),
    "azs": ("zones",),
    "availabilityzones": ("zones",),
    "subnets": ("zones",),
    "users": ("admins",),
    "kmskey": ("kms_key",),
    "kmskeyid": ("kms_key",),
}
"""Keys for a word in lower case without separators. The first key that is allowed at the word's place is meant."""


@dataclass(frozen=True)
class Feature:
    """A feature of HyperPod that no key of the environment's file can ask for.

    `field` is its name in the request CreateCluster, `words` the keys that people try for it below
    `hyperpod`, in lower case without separators, and `instead` completes "Fix: remove it; …".
    """

    name: str
    field: str
    words: tuple[str, ...]
    instead: str


ABSENT: Final = (
    Feature(
        "Spot capacity",
        "CapacityRequirements",
        ("capacityrequirements", "capacity", "capacitytype", "spot", "purchaseoption", "ondemand"),
        "nodes are on demand, or of a `training_plan`",
    ),
    Feature(
        "autoscaling with Karpenter",
        "AutoScaling",
        ("autoscaling", "autoscaler", "autoscalertype", "karpenter", "clusterautoscaler", "maxcount", "maxsize"),
        "state `count`; `ops pause` removes all nodes, `ops resume` brings them back",
    ),
    Feature(
        "patches of the AMI at a time that you choose",
        "AutoPatchConfig",
        ("autopatch", "autopatchconfig", "patching", "patchschedule"),
        "`ops update-software` installs them",
    ),
    Feature(
        "updates of the AMI by a schedule",
        "ScheduledUpdateConfig",
        ("scheduledupdateconfig", "scheduledupdates", "updateschedule", "maintenancewindow"),
        "`ops update-software` installs them",
    ),
    Feature(
        "several instance types in a group",
        "InstanceRequirements",
        ("instancerequirements", "instancetypes"),
        "make a group for each type",
    ),
    Feature(
        "restricted instance groups for Nova models",
        "RestrictedInstanceGroups",
        ("restrictedinstancegroups", "restricted", "restrictedinstancegroupsconfig"),
        "use `instance_groups`",
    ),
    Feature(
        "file systems of FSx for OpenZFS",
        "FsxOpenZfsConfig",
        ("fsxopenzfsconfig", "openzfs", "fsxopenzfs"),
        "use `fsx`, a file system of FSx for Lustre",
    ),
    Feature(
        "the kind of EFA interface",
        "NetworkInterface",
        ("networkinterface", "interfacetype", "efaonly"),
        "HyperPod chooses it",
    ),
    Feature(
        "a pinned release of the AMI",
        "ImageReleaseVersion",
        ("imagereleaseversion", "amiversion", "releaseversion"),
        "state `image_id` for an AMI of your own",
    ),
    Feature(
        "Slurm's accounting database",
        "AccountingDatabase",
        ("accountingdatabase", "accounting", "slurmdbd"),
        "lifecycle scripts of your own can configure one",
    ),
)
"""Checked against botocore's model of CreateCluster by tests/unit/config/test_other_words.py."""


def synonym(word: str, here: Iterable[str]) -> str | None:
    """Return the key of `here` that another tool calls `word`, or None."""
    allowed = set(here)
    return next((key for key in SYNONYMS.get(plain(word), ()) if key in allowed), None)


def absent(place: Place) -> Feature | None:
    """Return the feature of HyperPod that the unknown key at the place asks for, or None."""
    if place[0] not in {"hyperpod", "slurm"}:
        return None
    return next((feature for feature in ABSENT if plain(str(place[-1])) in feature.words), None)
