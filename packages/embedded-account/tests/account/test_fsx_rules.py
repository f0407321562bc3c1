"""Test which requests FSx for Lustre accepts and which it refuses."""

from typing import Any

import pytest
from moto.core.exceptions import JsonRESTError

from embedded_account.services.fsx import rules as fsx_rules

LUSTRE = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250, "DataCompressionType": "LZ4"}
FIRST = {"AssociationId": "dra-1", "FileSystemPath": "/a", "DataRepositoryPath": "s3://data-bucket/a/"}


def request(lustre: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 1200,
        "SubnetIds": ["subnet-1"],
        "LustreConfiguration": {**LUSTRE, **lustre},
        **others,
    }


def association(path: str, prefix: str, **others: Any) -> dict[str, Any]:
    return {"FileSystemPath": path, "DataRepositoryPath": f"s3://data-bucket/{prefix}/", **others}


def refused(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(getattr(error.value, "error_type", ""))


@pytest.mark.parametrize("capacity", [1200, 2400, 4800, 12000])
@pytest.mark.parametrize("throughput", [125, 250, 500, 1000])
def test_valid_file_systems_are_accepted(capacity: int, throughput: int) -> None:
    fsx_rules.check_file_system(request({"PerUnitStorageThroughput": throughput}, StorageCapacity=capacity))


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"FileSystemType": "WINDOWS"}, "UnsupportedOperation", "simulates FSx for Lustre only"),
        ({"StorageType": "HDD"}, "UnsupportedOperation", "SSD storage only"),
        ({"StorageCapacity": 1300}, "BadRequest", "Invalid storage capacity 1300 GiB"),
        ({"StorageCapacity": 3600}, "BadRequest", "Invalid storage capacity 3600 GiB"),
        ({"StorageCapacity": 0}, "BadRequest", "Invalid storage capacity 0 GiB"),
        ({"StorageCapacity": None}, "BadRequest", "Invalid storage capacity None"),
        ({"FileSystemTypeVersion": "2.10"}, "BadRequest", "2.10 is not supported for PERSISTENT_2"),
        ({"SubnetIds": ["subnet-0", "subnet-1"]}, "BadRequest", "Exactly 1 subnet ID"),
    ],
)
def test_invalid_file_system_is_refused(changes: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(JsonRESTError, match=text) as error:
        fsx_rules.check_file_system(request({}, **changes))
    assert refused(error) == code


@pytest.mark.parametrize(
    ("lustre", "code", "text"),
    [
        ({"DeploymentType": "SCRATCH_2"}, "UnsupportedOperation", "PERSISTENT_2 only"),
        ({"PerUnitStorageThroughput": 200}, "InvalidPerUnitStorageThroughput", "200"),
        ({"PerUnitStorageThroughput": None}, "BadRequest", "is required"),
        ({"DataCompressionType": "ZIP"}, "BadRequest", "use NONE or LZ4"),
        ({"AutomaticBackupRetentionDays": 91}, "BadRequest", "between 0 and 90"),
        ({"WeeklyMaintenanceStartTime": "0:10:00"}, "BadRequest", "d:HH:MM"),
        ({"MetadataConfiguration": {"Mode": "AUTOMATIC", "Iops": 1500}}, "BadRequest", "AUTOMATIC mode"),
        ({"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 2000}}, "BadRequest", "2000"),
        ({"MetadataConfiguration": {"Mode": "MANUAL"}}, "BadRequest", "MANUAL"),
        ({"EfaEnabled": True}, "IncompatibleParameterError", "metadata configuration"),
        ({"DriveCacheType": "READ"}, "UnsupportedOperation", "DriveCacheType"),
    ],
)
def test_invalid_lustre_settings_are_refused(lustre: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(JsonRESTError, match=text) as error:
        fsx_rules.check_file_system(request(lustre))
    assert refused(error) == code


EFA = {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}}


@pytest.mark.parametrize(("throughput", "step"), [(125, 38400), (250, 19200), (500, 9600), (1000, 4800)])
def test_efa_comes_in_whole_servers_only(throughput: int, step: int) -> None:
    lustre = EFA | {"PerUnitStorageThroughput": throughput}
    for capacity in (step, 2 * step):
        fsx_rules.check_file_system(request(lustre, StorageCapacity=capacity))
    for capacity in (1200, step + 2400):
        with pytest.raises(JsonRESTError, match=f"with EFA use a multiple of {step} GiB"):
            fsx_rules.check_file_system(request(lustre, StorageCapacity=capacity))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (4800, 2400, "can only be increased"),
        (2400, 2400, "can only be increased"),
        (48000, 50400, "at least 10 percent"),
        (2400, 3600, "Invalid storage capacity 3600"),
    ],
)
def test_capacity_grows_in_steps_only(old: int, new: int, text: str) -> None:
    with pytest.raises(JsonRESTError, match=text):
        fsx_rules.check_growth(old, new)


def test_deployment_type_cannot_be_updated() -> None:
    fsx_rules.check_update({"DataCompressionType": "NONE"})
    with pytest.raises(JsonRESTError, match="does not implement DeploymentType here"):
        fsx_rules.check_update({"DeploymentType": "PERSISTENT_2"})


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (association("datasets", "x"), "must begin with a slash"),
        (association("/a", "x"), "FileSystemPath /a overlaps /a"),
        (association("/a/b", "x"), "FileSystemPath /a/b overlaps /a"),
        (association("/", "x"), "FileSystemPath / overlaps /a"),
        (association("/b", "a"), "DataRepositoryPath s3://data-bucket/a/ overlaps"),
        (association("/b", "b", S3={"AutoImportPolicy": {"Events": ["MOVED"]}}), "events MOVED"),
        (association("/b", "b", ImportedFileChunkSize=0), "between 1 and 512000"),
        ({"FileSystemPath": "/b", "DataRepositoryPath": "https://data-bucket/b"}, "must be s3://bucket/prefix/"),
    ],
)
def test_invalid_association_is_refused(wanted: dict[str, Any], text: str) -> None:
    with pytest.raises(JsonRESTError, match=text) as error:
        fsx_rules.check_association(wanted, [FIRST])
    assert refused(error) == "BadRequest"


def test_ninth_association_is_refused() -> None:
    others = [{**association(f"/d{number}", f"d{number}"), "AssociationId": f"dra-{number}"} for number in range(8)]
    fsx_rules.check_association(association("/x", "x"), others[:7])
    with pytest.raises(JsonRESTError, match="maximum of 8") as error:
        fsx_rules.check_association(association("/x", "x"), others)
    assert refused(error) == "ServiceLimitExceeded"
