"""Rules about the file system."""

from collections.abc import Iterator
from math import ceil
from pathlib import PurePosixPath
from typing import Final

from config.estimates import checkpoints
from config.model import Environment
from config.rules.parts import described_twice, known_groups
from config.rules.rule import Violation, error, warning

_THROUGHPUTS: Final = (125, 250, 500, 1000)
_SHARE_OF_CHECKPOINTS: Final = 0.1
_BYTES_PER_GIB: Final = 2**30
# GiB of one EFA-enabled server: 38,400 at 125 MB/s per TiB, 4,800 at 1000 (FSx for Lustre guide: "Creating a file
# system", step "Storage capacity").
_EFA_STEP_GIB: Final = {throughput: 4_800_000 // throughput for throughput in _THROUGHPUTS}


def _size_is_allowed(environment: Environment) -> bool:
    fsx = environment.fsx
    capacity = fsx.capacity_gib == 1200 or (fsx.capacity_gib > 0 and fsx.capacity_gib % 2400 == 0)
    return capacity and fsx.throughput_mbps_per_tib in _THROUGHPUTS


def _next_step(size: int, step: int) -> int:
    return max(step, -(-size // step) * step)


@error("V9")
def file_system_size(environment: Environment) -> Iterator[Violation]:
    """Require a capacity and a throughput that FSx offers.

    Why: FSx refuses other sizes, and the CSI driver would round up silently.
    Source: FSx API reference, CreateFileSystem (PERSISTENT_2 on SSD).
    Example: fsx.capacity_gib: 1300
    """
    fsx = environment.fsx
    if fsx.existing:
        return
    if fsx.capacity_gib != 1200 and (fsx.capacity_gib % 2400 or fsx.capacity_gib <= 0):
        size = 1200 if fsx.capacity_gib < 1200 else _next_step(fsx.capacity_gib, 2400)
        reason, fix = "FSx does not offer this size", f"write {size}"
        yield Violation("fsx.capacity_gib", reason, "1200 or a multiple of 2400", fix)
    if fsx.throughput_mbps_per_tib not in _THROUGHPUTS:
        allowed = ", ".join(map(str, _THROUGHPUTS))
        near = min(_THROUGHPUTS, key=lambda each: abs(each - fsx.throughput_mbps_per_tib))
        yield Violation("fsx.throughput_mbps_per_tib", "FSx does not offer this throughput", allowed, f"write {near}")


@error("V47")
def size_with_efa(environment: Environment) -> Iterator[Violation]:
    """Require a multiple of a server's capacity for a file system with EFA.

    Why: a file system with EFA grows by whole servers, which hold more than servers without EFA.
    Source: FSx for Lustre user guide, creating a file system.
    Example: fsx.capacity_gib: 2400
    """
    fsx = environment.fsx
    if fsx.efa and not fsx.existing and _size_is_allowed(environment):
        step = _EFA_STEP_GIB[fsx.throughput_mbps_per_tib]
        if fsx.capacity_gib % step:
            reason = f"with efa a server at {fsx.throughput_mbps_per_tib} MB/s per TiB holds {step} GiB"
            fix = f"write {_next_step(fsx.capacity_gib, step)}, or remove efa"
            yield Violation("fsx.capacity_gib", reason, f"multiples of {step}", fix)


@warning("V60")
def efa_reaches_somebody(environment: Environment) -> Iterator[Violation]:
    """Warn of a file system with EFA that no node reaches by EFA.

    Why: nodes without EFA interfaces use TCP; EFA then only raises the minimum size.
    Source: FSx for Lustre user guide, working with EFA-enabled file systems.
    Example: hyperpod.instance_groups.1.instance_type: ml.g5.4xlarge
    """
    known = [group for _, group in known_groups(environment)]
    if environment.fsx.efa and known and not any(group.type.efa for group in known):
        reason = "no instance group has EFA interfaces, so all nodes use TCP"
        yield Violation("fsx.efa", reason, "false, or an instance type with EFA", "remove efa")


@error("V10")
def data_repositories(environment: Environment) -> Iterator[Violation]:
    """Require at most eight data repositories whose paths and prefixes neither repeat nor contain each other.

    Why: FSx allows eight, and refuses paths or prefixes that repeat or contain each other. The stack names an
    association by its path with hyphens instead of slashes.
    Source: FSx API reference, CreateDataRepositoryAssociation.
    Example: fsx.data_repositories: [{path: /a, prefix: a}, {path: /a/b, prefix: b}]
    """
    repositories = environment.fsx.data_repositories
    if len(repositories) > 8:
        reason, fix = f"FSx allows eight, and {len(repositories)} are listed", f"delete {len(repositories) - 8}"
        yield Violation("fsx.data_repositories", reason, "at most eight", fix)
    for n, repository in enumerate(repositories):
        for m, other in enumerate(repositories[:n]):
            place = f"fsx.data_repositories.{n}"
            first = f"fsx.data_repositories.{m}"
            if _overlap(repository.path, other.path):
                reason = f"it overlaps {other.path} of {first}"
                yield Violation(f"{place}.path", reason, "paths that do not overlap", "change one of the two")
            elif repository.path.replace("/", "-") == other.path.replace("/", "-"):
                reason = f"it differs from {other.path} of {first} only in hyphens and slashes"
                yield Violation(f"{place}.path", reason, "paths that differ in more", "rename one of the two")
            if _overlap(repository.prefix, other.prefix):
                reason = f"it overlaps {other.prefix} of {first}"
                yield Violation(f"{place}.prefix", reason, "prefixes that do not overlap", "change one of the two")


def _overlap(one: str, other: str) -> bool:
    """Return whether two paths are equal, or one is within the other."""
    return PurePosixPath(one).is_relative_to(other) or PurePosixPath(other).is_relative_to(one)


@error("V48")
def one_kind_of_file_system(environment: Environment) -> Iterator[Violation]:
    """Require keys of one kind of file system: static, dynamic or existing.

    Why: the CSI driver creates no data repository associations (aws-fsx-csi-driver #368), and an existing file system
    is not changed.
    Source: kubernetes-sigs/aws-fsx-csi-driver; this project, docs/operate/storage.md.
    Example: fsx.data_repositories: [{path: /a, prefix: a}]
    """
    fsx = environment.fsx
    if fsx.dynamic and fsx.existing:
        yield Violation(
            "fsx.existing",
            "provisioning is dynamic, which creates a file system",
            "existing, or provisioning: dynamic",
            "remove one of the two",
        )
    elif fsx.dynamic and fsx.data_repositories:
        yield Violation(
            "fsx.data_repositories",
            "the CSI driver creates no associations",
            "data_repositories with provisioning: static",
            "remove data_repositories, or provisioning",
        )
    elif fsx.existing:
        if environment.network.existing is None:
            yield Violation(
                "network.existing",
                "an existing file system is in an existing VPC",
                "the file system's VPC and its subnets",
                "describe the VPC in network.existing",
            )
        # `efa` remains allowed: the nodes must be set up for it.
        described = ("throughput_mbps_per_tib", "compression", "data_repositories")
        yield from described_twice("file system", "fsx", fsx, described)


@error("V19")
def reclaim_policy(environment: Environment) -> Iterator[Violation]:
    """Allow a reclaim policy for dynamic volumes only, and require `Retain` in a protected environment.

    Why: a static volume is always kept. `Delete` would delete protected data together with its claim.
    Source: Kubernetes docs, persistent volumes (CSI drivers know no `Recycle`).
    Example: fsx.reclaim_policy: Recycle
    """
    policy = environment.fsx.reclaim_policy
    if policy is not None and not environment.fsx.dynamic:
        reason = "provisioning is static, and static volumes are kept"
        yield Violation("fsx.reclaim_policy", reason, "reclaim_policy with provisioning: dynamic", "remove the key")
    elif policy not in (None, "Delete", "Retain"):
        reason = "CSI drivers do not support it"
        yield Violation("fsx.reclaim_policy", reason, "Delete, Retain", "write Retain to keep the data, or Delete")
    elif environment.fsx.dynamic and environment.protect and policy != "Retain":
        shown = "" if policy else "(missing, which means Delete)"
        reason = "the environment is protected, and its data would be deleted with the claim"
        yield Violation("fsx.reclaim_policy", reason, "Retain", "write reclaim_policy: Retain", shown)


@warning("V85")
def room_for_checkpoints(environment: Environment) -> Iterator[Violation]:
    """Warn of checkpoints that the file system has no room for.

    Why: a run keeps its checkpoints, and that from which it resumed, while it writes the next one; a full file system
    ends it.
    Source: this project, docs/operate/checkpoints.md.
    Example: fsx.checkpoints: {parameters: 70B}
    """
    made = checkpoints.estimate(environment)
    if made and _size_is_allowed(environment) and not made.fit:
        needed = ceil(made.most * made.size / _BYTES_PER_GIB)
        yield Violation(
            "fsx.checkpoints.parameters",
            f"{made.most} checkpoints of {made.size / 1e9:,.0f} GB do not fit into {made.capacity / 1e9:,.0f} GB",
            "checkpoints that fit into the empty file system",
            f"raise fsx.capacity_gib to {_next_step(needed, 2400)}, lower keep, or keep runs in the data bucket",
        )


@warning("V86")
def time_for_checkpoints(environment: Environment) -> Iterator[Violation]:
    """Warn of checkpoints that take more than a tenth of the time between them.

    Why: the GPUs wait while a checkpoint is written, unless it is saved asynchronously.
    Source: this project, docs/operate/checkpoints.md.
    Example: fsx.checkpoints: {parameters: 70B}
    """
    made = checkpoints.estimate(environment)
    if made and made.seconds and _size_is_allowed(environment) and made.share > _SHARE_OF_CHECKPOINTS:
        yield Violation(
            "fsx.checkpoints.parameters",
            f"writing a checkpoint takes {made.seconds / 60:.0f} of the {made.interval / 60:.0f} minutes between two",
            f"at most {_SHARE_OF_CHECKPOINTS:.0%}, or asynchronous saving (docs/operate/checkpoints.md)",
            "raise fsx.throughput_mbps_per_tib or every_minutes; or save asynchronously, and accept the warning",
        )
