"""The rules of file systems: each fires on a document that breaks it, and is silent on one that keeps it."""

import re
from typing import Any

import pytest

from config import Environment, load, load_any
from config.findings import Severity
from config.model import DataRepository, ExistingFileSystem, Fsx
from config.rules import findings

EXISTING = ExistingFileSystem(id="fs-0fedcba9876543210", mount_name="zyxwvuts")
LINKED = (DataRepository(path="/datasets", prefix="datasets"),)


def said(name: str = "existing-vpc", **fsx: Any) -> list[str]:
    """Return the rules' findings about the environment's file system."""
    environment: Environment = load_any(name).model_copy(update={"fsx": Fsx(**fsx)})
    return [str(finding) for finding in findings(environment) if finding.key.startswith("fsx")]


@pytest.mark.parametrize(
    "fsx",
    [
        {},
        {"capacity_gib": 2400, "throughput_mbps_per_tib": 1000, "data_repositories": LINKED},
        {"provisioning": "dynamic"},
        {"provisioning": "dynamic", "reclaim_policy": "Retain", "compression": "NONE"},
        {"existing": EXISTING},
        {"existing": EXISTING, "capacity_gib": 3600},
    ],
)
def test_settings_that_fsx_and_the_driver_accept_give_no_finding(fsx: dict[str, Any]) -> None:
    assert said(**fsx) == []


@pytest.mark.parametrize(
    ("fsx", "finding"),
    [
        (
            {"capacity_gib": 1300},
            "fsx.capacity_gib: 1300 is invalid: FSx does not offer this size [V9]",
        ),
        (
            {"capacity_gib": 0},
            "fsx.capacity_gib: 0 is invalid: FSx does not offer this size [V9]",
        ),
        (
            {"throughput_mbps_per_tib": 200},
            "fsx.throughput_mbps_per_tib: 200 is invalid: FSx does not offer this throughput [V9]",
        ),
        (
            {"provisioning": "dynamic", "reclaim_policy": "Recycle"},
            "fsx.reclaim_policy: 'Recycle' is invalid: CSI drivers do not support it [V19]",
        ),
        (
            {"reclaim_policy": "Retain"},
            "fsx.reclaim_policy: 'Retain' is invalid: provisioning is static, and static volumes are kept [V19]",
        ),
        (
            {"provisioning": "dynamic", "data_repositories": LINKED},
            "fsx.data_repositories: a list of 1 is invalid: the CSI driver creates no associations [V48]",
        ),
        (
            {"provisioning": "dynamic", "existing": EXISTING},
            "fsx.existing: a mapping is invalid: provisioning is dynamic, which creates a file system [V48]",
        ),
        (
            {"existing": EXISTING, "data_repositories": LINKED},
            "fsx.data_repositories: a list of 1 is invalid: it describes a new file system, "
            "and fsx.existing uses an existing one unchanged [V48]",
        ),
        (
            {"existing": EXISTING, "compression": "LZ4"},
            "fsx.compression: 'LZ4' is invalid: it describes a new file system, "
            "and fsx.existing uses an existing one unchanged [V48]",
        ),
    ],
)
def test_one_mistake_is_one_finding(fsx: dict[str, Any], finding: str) -> None:
    assert [re.sub(r"\. Allowed: .*(?= \[)", "", line) for line in said(**fsx)] == [finding]


@pytest.mark.parametrize(("throughput", "step"), [(125, 38400), (250, 19200), (500, 9600), (1000, 4800)])
def test_efa_needs_whole_servers(throughput: int, step: int) -> None:
    def errors(capacity: int) -> list[str]:
        given = {"efa": True, "throughput_mbps_per_tib": throughput, "capacity_gib": capacity}
        return [line for line in said("dev", **given) if "[V47]" in line]

    assert errors(step) == errors(2 * step) == []
    reason = f"with efa a server at {throughput} MB/s per TiB holds {step} GiB"
    refusal = f"2400 is invalid: {reason}. Allowed: multiples of {step}. Fix: write {step}, or remove efa."
    assert errors(2400) == [f"fsx.capacity_gib: {refusal} [V47]"]


def test_efa_that_no_node_has_is_a_warning() -> None:
    efa = {"efa": True, "throughput_mbps_per_tib": 1000, "capacity_gib": 4800}
    [line] = [line for line in said("small", **efa) if "V60" in line]
    assert "fsx.efa: true is risky: no instance group has EFA interfaces, so all nodes use TCP. " in line
    assert said("dev", **efa) == []


def test_dynamic_file_system_of_a_protected_environment_is_retained() -> None:
    [line] = said("prod", provisioning="dynamic")
    assert line.startswith("fsx.reclaim_policy: (missing, which means Delete) is invalid: the environment is protected")
    assert said("prod", provisioning="dynamic", reclaim_policy="Retain") == []


def test_existing_file_system_needs_the_vpc_that_it_is_in() -> None:
    environment = load("small").model_copy(update={"fsx": Fsx(existing=EXISTING)})
    [line] = [str(finding) for finding in findings(environment) if finding.severity is Severity.ERROR]
    assert line.startswith("network.existing: (missing) is invalid: an existing file system is in an existing VPC. ")
