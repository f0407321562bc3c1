"""Rules of the file system."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from config.model import Environment
from config.rules.rule import error, warning
from config.rules.walk import known_groups, said_of_a_new

_THROUGHPUTS: Final = (125, 250, 500, 1000)
# GiB of one EFA-enabled server: 38,400 at 125 MB/s per TiB, 4,800 at 1000 (FSx for Lustre guide: "Creating a file
# system", step "Storage capacity").
_EFA_STEP_GIB: Final = {throughput: 4_800_000 // throughput for throughput in _THROUGHPUTS}


def _size_is_allowed(environment: Environment) -> bool:
    fsx = environment.fsx
    capacity = fsx.capacity_gib == 1200 or (fsx.capacity_gib > 0 and fsx.capacity_gib % 2400 == 0)
    return capacity and fsx.throughput_mbps_per_tib in _THROUGHPUTS


@error("V9")
def file_system_size(environment: Environment) -> Iterator[tuple[str, str]]:
    """FSx CreateFileSystem, PERSISTENT_2 on SSD; the CSI driver would round up silently."""
    fsx = environment.fsx
    if fsx.existing:
        return
    if fsx.capacity_gib != 1200 and (fsx.capacity_gib % 2400 or fsx.capacity_gib <= 0):
        yield "fsx.capacity_gib", f"{fsx.capacity_gib}; allowed: 1200 or a multiple of 2400"
    if fsx.throughput_mbps_per_tib not in _THROUGHPUTS:
        allowed = ", ".join(map(str, _THROUGHPUTS))
        yield "fsx.throughput_mbps_per_tib", f"{fsx.throughput_mbps_per_tib}; allowed: {allowed}"


@error("V47")
def size_with_efa(environment: Environment) -> Iterator[tuple[str, str]]:
    """A file system with EFA grows by whole servers, which hold more than those without (FSx for Lustre guide)."""
    fsx = environment.fsx
    if fsx.efa and not fsx.existing and _size_is_allowed(environment):
        step = _EFA_STEP_GIB[fsx.throughput_mbps_per_tib]
        if fsx.capacity_gib % step:
            allowed = f"allowed with efa at {fsx.throughput_mbps_per_tib} MB/s per TiB: multiples of {step}"
            yield "fsx.capacity_gib", f"{fsx.capacity_gib}; {allowed}"


@warning("V60")
def efa_reaches_somebody(environment: Environment) -> Iterator[tuple[str, str]]:
    """A node without EFA interfaces reaches a file system with EFA too, by TCP."""
    known = [group for _, group in known_groups(environment)]
    if environment.fsx.efa and known and not any(group.type.efa for group in known):
        yield "fsx.efa", "true, but no instance group has EFA interfaces: all nodes use TCP"


@error("V10")
def data_repositories(environment: Environment) -> Iterator[tuple[str, str]]:
    """FSx CreateDataRepositoryAssociation: at most eight, whose paths neither repeat nor contain each other; nor do
    the prefixes of their bucket.

    The stack's name for an association is its path with hyphens.
    """
    repositories = environment.fsx.data_repositories
    if len(repositories) > 8:
        yield "fsx.data_repositories", f"{len(repositories)} of them; allowed: eight"
    for n, repository in enumerate(repositories):
        for other in repositories[:n]:
            if _overlap(repository.path, other.path):
                message = f"{repository.path!r} and {other.path!r} must lie beside each other"
                yield f"fsx.data_repositories.{n}.path", message
            elif repository.path.replace("/", "-") == other.path.replace("/", "-"):
                message = f"{repository.path!r} and {other.path!r} must differ in more than hyphens and slashes"
                yield f"fsx.data_repositories.{n}.path", message
            if _overlap(repository.prefix, other.prefix):
                message = f"{repository.prefix!r} and {other.prefix!r} must lie beside each other in the bucket"
                yield f"fsx.data_repositories.{n}.prefix", message


def _overlap(one: str, other: str) -> bool:
    """Whether one of two paths is the other, or lies within it."""
    return PurePosixPath(one).is_relative_to(other) or PurePosixPath(other).is_relative_to(one)


@error("V48")
def one_kind_of_file_system(environment: Environment) -> Iterator[tuple[str, str]]:
    """The CSI driver makes no data repository associations (aws-fsx-csi-driver #368), and nothing of a file system
    that exists is changed.
    """
    fsx = environment.fsx
    if fsx.dynamic and fsx.existing:
        yield "fsx.existing", "cannot stand beside provisioning: dynamic, which makes a file system"
    elif fsx.dynamic and fsx.data_repositories:
        yield "fsx.data_repositories", "need provisioning: static; the CSI driver makes none"
    elif fsx.existing:
        if environment.network.existing is None:
            yield "network.existing", "is missing; an existing file system is in a VPC that exists"
        # `efa` stays allowed: the nodes have to be set up for it.
        described = ("throughput_mbps_per_tib", "compression", "data_repositories")
        yield from said_of_a_new("file system", "fsx", fsx, described)


@error("V19")
def reclaim_policy(environment: Environment) -> Iterator[tuple[str, str]]:
    """A static volume is kept always; CSI drivers know no `Recycle` (Kubernetes: persistent volumes).

    `Delete` would end protected data with its claim.
    """
    policy = environment.fsx.reclaim_policy
    if policy is not None and not environment.fsx.dynamic:
        yield "fsx.reclaim_policy", f"{policy!r} is for provisioning: dynamic; leave it out, static volumes are kept"
    elif policy not in (None, "Delete", "Retain"):
        yield "fsx.reclaim_policy", f"{policy!r}; allowed: Delete, Retain"
    elif environment.fsx.dynamic and environment.protect and policy != "Retain":
        said = repr(policy) if policy else "is missing, which means Delete"
        yield "fsx.reclaim_policy", f"{said}; allowed in a protected environment: Retain"
