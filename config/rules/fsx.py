"""Rules of the file system."""

from collections.abc import Iterator
from typing import Final

from config.catalogue import catalogue
from config.model import Environment
from config.rules.rule import error, warning

# GiB by MB/s per TiB: what one EFA-enabled server holds (FSx user guide, "Creating your FSx for Lustre file system").
EFA_STEPS: Final = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}


@error("V9")
def file_system_size(environment: Environment) -> Iterator[tuple[str, str]]:
    """FSx CreateFileSystem, PERSISTENT_2 on SSD. A file system that exists is what it is."""
    fsx = environment.fsx
    if fsx.existing:
        return
    capacity, throughput = fsx.capacity_gib, fsx.throughput_mbps_per_tib
    if throughput not in EFA_STEPS:
        yield "fsx.throughput_mbps_per_tib", f"{throughput}; allowed: {', '.join(map(str, EFA_STEPS))}"
    if capacity != 1200 and (capacity % 2400 or capacity <= 0):
        yield "fsx.capacity_gib", f"{capacity}; allowed: 1200 or a multiple of 2400"
    elif fsx.efa and throughput in EFA_STEPS and capacity % EFA_STEPS[throughput]:
        step = EFA_STEPS[throughput]
        yield (
            "fsx.capacity_gib",
            f"{capacity}; allowed with EFA and {throughput} MB/s for each TiB: multiples of {step}",
        )


@warning("V40")
def efa_reaches_somebody(environment: Environment) -> Iterator[tuple[str, str]]:
    """A node without EFA interfaces reaches an EFA-enabled file system too, by TCP."""
    groups = environment.hyperpod.instance_groups
    known = [group for group in groups if group.type_facts or group.instance_type in catalogue()]
    if environment.fsx.efa and known and not any(group.type.efa for group in known):
        yield "fsx.efa", "true, but no instance group has EFA interfaces: all nodes use TCP"


@error("V41")
def driver_makes_what_it_can(environment: Environment) -> Iterator[tuple[str, str]]:
    """What `provisioning: dynamic` excludes: the driver links no repository and deletes with the claim (ADR 0005)."""
    fsx = environment.fsx
    if fsx.reclaim_policy not in (None, "Delete", "Retain"):
        yield "fsx.reclaim_policy", f"{fsx.reclaim_policy!r}; allowed: Delete, Retain"
    if not fsx.dynamic:
        if fsx.reclaim_policy is not None:
            yield "fsx.reclaim_policy", f"{fsx.reclaim_policy!r}; allowed with `provisioning: dynamic` only"
        return
    if fsx.data_repositories:
        yield "fsx.data_repositories", "the CSI driver links none; allowed with `provisioning: static` only"
    if fsx.existing:
        yield "fsx.existing", "a file system that exists is mounted as it is; allowed: `provisioning: static`"
    if environment.protect:
        yield (
            "fsx.provisioning",
            "'dynamic' in a protected environment would lose its data with the claim; allowed: static",
        )


@error("V42")
def existing_file_system_is_left_as_it_is(environment: Environment) -> Iterator[tuple[str, str]]:
    """Nothing of a file system that exists is set here."""
    fsx = environment.fsx
    if fsx.existing is None:
        return
    if fsx.data_repositories and not fsx.dynamic:
        yield "fsx.data_repositories", "not set on a file system that exists; allowed: none"
    for key in ("throughput_mbps_per_tib", "compression"):
        if key in fsx.model_fields_set:
            yield f"fsx.{key}", "not set on a file system that exists: leave the key out"
