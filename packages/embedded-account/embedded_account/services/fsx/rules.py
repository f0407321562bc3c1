"""Check requests as FSx for Lustre does (only for PERSISTENT_2, the one deployment type that is simulated).

Sources: CreateFileSystem, UpdateFileSystem, CreateDataRepositoryAssociation and CreateDataRepositoryTask in the FSx
API reference, and "Managing storage capacity" in the user guide. Error texts are those of the service if it documents
them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from moto.core.exceptions import JsonRESTError

THROUGHPUTS = (125, 250, 500, 1000)
"""The allowed throughputs, in MB/s per TiB of storage."""

VERSIONS = ("2.12", "2.15")
METADATA_IOPS = (1500, 3000, 6000, *range(12000, 192001, 12000))
MAX_ASSOCIATIONS = 8
SMALLEST_GROWTH = 1.1
EVENTS = ("NEW", "CHANGED", "DELETED")
IMPORT = "IMPORT_METADATA_FROM_REPOSITORY"
EXPORT = "EXPORT_TO_REPOSITORY"
MAX_TASK_PATHS = 100
LUSTRE_PORT = 988

_LUSTRE_SETTINGS = {
    "AutomaticBackupRetentionDays",
    "CopyTagsToBackups",
    "DailyAutomaticBackupStartTime",
    "DataCompressionType",
    "DeploymentType",
    "EfaEnabled",
    "LogConfiguration",
    "MetadataConfiguration",
    "PerUnitStorageThroughput",
    "WeeklyMaintenanceStartTime",
}
_CHANGEABLE_SETTINGS = _LUSTRE_SETTINGS - {"CopyTagsToBackups", "DeploymentType", "EfaEnabled"}

Fields = Mapping[str, Any]


def fsx_error(code: str, text: str) -> JsonRESTError:
    """Return an error of FSx, such as IncompatibleParameterError."""
    return JsonRESTError(code, text)


def bad_request(text: str) -> JsonRESTError:
    """Return FSx's error for a request that it does not accept."""
    return fsx_error("BadRequest", text)


def check_file_system(request: Fields) -> None:
    """Raise FSx's error unless FSx would create this file system; `new_file_system` checks the network."""
    if request["FileSystemType"] != "LUSTRE":
        raise fsx_error("UnsupportedOperation", "The embedded account simulates FSx for Lustre only.")
    if request.get("StorageType", "SSD") != "SSD":
        raise fsx_error("UnsupportedOperation", "The embedded account simulates SSD storage only.")
    if len(request["SubnetIds"]) != 1:
        raise bad_request("Exactly 1 subnet ID is required for Lustre file systems.")
    lustre = request.get("LustreConfiguration") or {}
    if lustre.get("DeploymentType") != "PERSISTENT_2":
        raise fsx_error("UnsupportedOperation", "The embedded account simulates deployment type PERSISTENT_2 only.")
    check_capacity(request.get("StorageCapacity"))
    version = file_system_version(request)
    if version not in VERSIONS:
        raise bad_request(f"FileSystemTypeVersion {version} is not supported for PERSISTENT_2: use one of {VERSIONS}.")
    if lustre.get("PerUnitStorageThroughput") is None:
        raise bad_request("PerUnitStorageThroughput is required for PERSISTENT_2.")
    check_lustre(lustre, _LUSTRE_SETTINGS)
    if lustre.get("EfaEnabled") and not (version == "2.15" and lustre.get("MetadataConfiguration")):
        raise fsx_error(
            "IncompatibleParameterError", "EfaEnabled requires Lustre version 2.15 and a metadata configuration."
        )
    if lustre.get("EfaEnabled") and request["StorageCapacity"] % server_gib(lustre):
        raise bad_request(f"Invalid storage capacity: with EFA use a multiple of {server_gib(lustre)} GiB.")


def check_traffic(groups: Sequence[Any], lustre: Fields) -> None:
    """Raise FSx's error unless moto's security groups permit Lustre's traffic, and with EFA all within themselves."""
    inbound = [rule for group in groups for rule in group.ingress_rules]
    if not any(_covers(rule, LUSTRE_PORT) for rule in inbound):
        raise fsx_error(
            "InvalidNetworkSettings",
            "The file system cannot be created because the default security group in the subnet provided or the "
            f"provided security groups do not permit Lustre LNET network traffic on port {LUSTRE_PORT}",
        )
    own = {group.id for group in groups}
    outbound = [rule for group in groups for rule in group.egress_rules]
    if lustre.get("EfaEnabled") and not all(any(_is_all(rule, own) for rule in rules) for rules in (inbound, outbound)):
        raise fsx_error(
            "InvalidNetworkSettings",
            "Insufficient security group permissions to create an EFA-enabled file system. Update security group to "
            "allow all internal inbound and outbound traffic.",
        )


def _covers(rule: Any, port: int) -> bool:
    if rule.ip_protocol == "-1":
        return True
    return rule.ip_protocol in {"tcp", "6"} and int(rule.from_port) <= port <= int(rule.to_port)


def _is_all(rule: Any, groups: Collection[str]) -> bool:
    return rule.ip_protocol == "-1" and rule.source_group.get("GroupId") in groups


def server_gib(lustre: Fields) -> int:
    """Return the GiB of one file server; with EFA they depend on the throughput.

    Source: "IP addresses for file systems" in the user guide.
    """
    return int(4_800_000 // lustre["PerUnitStorageThroughput"]) if lustre.get("EfaEnabled") else 2400


def file_system_version(request: Fields) -> str:
    """Return the requested Lustre version, or FSx's default: 2.12, or 2.15 with a metadata configuration."""
    lustre = request.get("LustreConfiguration") or {}
    default = "2.15" if lustre.get("MetadataConfiguration") else "2.12"
    return str(request.get("FileSystemTypeVersion") or default)


def check_capacity(capacity: int | None) -> None:
    """Raise FSx's error unless the capacity is 1200 GiB or a multiple of 2400 GiB."""
    if capacity is None or not (capacity == 1200 or (capacity > 0 and capacity % 2400 == 0)):
        raise bad_request(f"Invalid storage capacity {capacity} GiB: use 1200 or a multiple of 2400 for PERSISTENT_2.")


def check_growth(old: int, new: int) -> None:
    """Raise FSx's error unless the storage grows by at least a tenth, to a capacity that is allowed (both in GiB)."""
    if new <= old:
        raise bad_request(f"Storage capacity can only be increased: {new} GiB is not more than {old} GiB.")
    if new < old * SMALLEST_GROWTH:
        raise bad_request("The new storage capacity must be at least 10 percent greater than the current one.")
    check_capacity(new)


def check_update(lustre: Fields) -> None:
    """Raise FSx's error unless these Lustre settings can change in place."""
    check_lustre(lustre, _CHANGEABLE_SETTINGS)


def check_lustre(lustre: Fields, known: set[str]) -> None:
    """Raise FSx's error if a setting is unknown or out of range."""
    if unknown := lustre.keys() - known:
        names = ", ".join(sorted(unknown))
        raise fsx_error("UnsupportedOperation", f"The embedded account does not implement {names} here.")
    throughput = lustre.get("PerUnitStorageThroughput")
    if throughput is not None and throughput not in THROUGHPUTS:
        raise fsx_error(
            "InvalidPerUnitStorageThroughput",
            f"Invalid PerUnitStorageThroughput {throughput}: use one of {THROUGHPUTS} for PERSISTENT_2.",
        )
    if lustre.get("DataCompressionType", "NONE") not in ("NONE", "LZ4"):
        raise bad_request(f"Invalid DataCompressionType {lustre['DataCompressionType']}: use NONE or LZ4.")
    if not 0 <= lustre.get("AutomaticBackupRetentionDays", 0) <= 90:
        raise bad_request("AutomaticBackupRetentionDays must be between 0 and 90.")
    if not re.fullmatch(r"[1-7]:([01]\d|2[0-3]):[0-5]\d", lustre.get("WeeklyMaintenanceStartTime", "1:00:00")):
        raise bad_request("WeeklyMaintenanceStartTime must be d:HH:MM with a day from 1 (Monday) to 7.")
    _check_metadata(lustre.get("MetadataConfiguration"))


def _check_metadata(metadata: Fields | None) -> None:
    if metadata is None:
        return
    mode, iops = metadata.get("Mode", "USER_PROVISIONED"), metadata.get("Iops")
    if mode == "AUTOMATIC" and iops is not None:
        raise bad_request("Metadata IOPS cannot be given in AUTOMATIC mode.")
    if mode == "USER_PROVISIONED" and iops not in METADATA_IOPS:
        raise bad_request(f"Invalid metadata IOPS {iops}: use 1500, 3000, 6000 or a multiple of 12000 to 192000.")
    if mode not in ("AUTOMATIC", "USER_PROVISIONED"):
        raise bad_request(f"Invalid metadata configuration mode {mode}.")


def check_association(request: Fields, others: list[dict[str, Any]]) -> None:
    """Raise FSx's error unless the association is valid and does not conflict with the others of its file system."""
    if len(others) >= MAX_ASSOCIATIONS:
        raise fsx_error(
            "ServiceLimitExceeded",
            f"A file system can have a maximum of {MAX_ASSOCIATIONS} data repository associations.",
        )
    path, repository = request.get("FileSystemPath", "/"), request["DataRepositoryPath"]
    if not path.startswith("/"):
        raise bad_request(f"FileSystemPath {path} must begin with a slash.")
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]+(/.*)?", repository):
        raise bad_request(f"DataRepositoryPath {repository} must be s3://bucket/prefix/.")
    for other in others:
        if _nested(path, other["FileSystemPath"]):
            raise bad_request(f"FileSystemPath {path} overlaps {other['FileSystemPath']} of {other['AssociationId']}.")
        if _nested(repository, other["DataRepositoryPath"]):
            raise bad_request(
                f"DataRepositoryPath {repository} overlaps {other['DataRepositoryPath']} of {other['AssociationId']}."
            )
    check_association_settings(request)


def check_association_settings(request: Fields) -> None:
    """Raise FSx's error for policies or a chunk size (MiB) that FSx does not accept."""
    for name, policy in (request.get("S3") or {}).items():
        if wrong := set(policy.get("Events", [])) - set(EVENTS):
            raise bad_request(f"{name}: events {', '.join(sorted(wrong))} are not among {EVENTS}.")
    if not 1 <= request.get("ImportedFileChunkSize", 1024) <= 512000:
        raise bad_request("ImportedFileChunkSize must be between 1 and 512000 MiB.")


def check_task(request: Fields) -> None:
    """Raise FSx's error unless this is an import or export task with a valid report."""
    if request["Type"] not in (IMPORT, EXPORT):
        raise fsx_error("UnsupportedOperation", f"The embedded account does not carry out {request['Type']} tasks.")
    known = {"ClientRequestToken", "FileSystemId", "Paths", "Report", "Tags", "Type"}
    if unknown := request.keys() - known:
        names = ", ".join(sorted(unknown))
        raise fsx_error("UnsupportedOperation", f"The embedded account does not implement {names} of a task.")
    if len(request.get("Paths") or []) > MAX_TASK_PATHS:
        raise bad_request(f"A data repository task can have a maximum of {MAX_TASK_PATHS} paths.")
    report = request["Report"]
    if not report["Enabled"]:
        return
    if missing := {"Path", "Format", "Scope"} - report.keys():
        raise bad_request(f"An enabled report requires {', '.join(sorted(missing))}.")
    for name, only in (("Format", "REPORT_CSV_20191124"), ("Scope", "FAILED_FILES_ONLY")):
        if report[name] != only:
            raise bad_request(f"{name} {report[name]} of a report is not supported: use {only}.")


def check_task_links(request: Fields, repositories: list[str]) -> None:
    """Raise FSx's error unless the file system has a data repository, and the task's report is in one of them."""
    if not repositories:
        raise bad_request(f"File system {request['FileSystemId']} is not linked to a data repository.")
    report = request["Report"]
    if report["Enabled"] and not any(
        f"{report['Path'].rstrip('/')}/".startswith(f"{each.rstrip('/')}/") for each in repositories
    ):
        raise bad_request(f"The report's path {report['Path']} is not in a data repository of the file system.")


def _nested(one: str, other: str) -> bool:
    """Return whether the paths are equal or one contains the other."""
    first, second = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)
