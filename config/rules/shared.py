"""Rules of environments beside each other: physical names are one's own, address blocks better so."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from config import naming
from config.findings import Finding, Severity, named
from config.model import Environment

# What two environments of one account and region must not share: the key, its value, and why.
_OWN: Final[tuple[tuple[str, Callable[[Environment], str | None], str], ...]] = (
    ("project", naming.eks_cluster, "names of stacks and clusters begin with it and the environment's name"),
    ("hyperpod.cluster_name", lambda it: it.hyperpod.cluster_name, "SageMaker knows one cluster of a name"),
    ("image.repository", lambda it: it.image.repository, "each storage stack makes its own repository"),
    (
        "eks.existing.name",
        lambda it: it.eks.existing.name if it.eks.existing else None,
        "an EKS cluster has one HyperPod cluster",
    ),
)
NAMES_RULE: Final = "V64"
BLOCKS_RULE: Final = "V65"


def findings_beside(environment: Environment, others: Iterable[Environment]) -> list[Finding]:
    """Return what the environment shares with others that it should not; `others` may hold itself."""
    found: list[Finding] = []
    for other in others:
        if (environment.name, environment.project) != (other.name, other.project):
            found += _names(environment, other)
            found += _blocks(environment, other)
    accepted = environment.accepted_warnings.get(BLOCKS_RULE, "")
    return [
        replace(f, key=named(f.key, environment), accepted=accepted if f.rule == BLOCKS_RULE else "") for f in found
    ]


def _names(environment: Environment, other: Environment) -> Iterator[Finding]:
    if (environment.account, environment.region) == (other.account, other.region):
        for key, value_of, reason in _OWN:
            value = value_of(environment)
            if value is not None and value == value_of(other):
                yield Finding(key, f"{value!r} is what environment {other.name!r} has too: {reason}", NAMES_RULE)


def _blocks(environment: Environment, other: Environment) -> Iterator[Finding]:
    """Two VPCs of overlapping blocks can never be connected (VPC peering, transit gateway)."""
    if environment.network.existing is None and other.network.existing is None:
        block, taken = environment.network.vpc_cidr, other.network.vpc_cidr
        if block.overlaps(taken):
            message = f"{block} overlaps {taken} of environment {other.name!r}: the two VPCs could never be connected"
            yield Finding("network.vpc_cidr", message, BLOCKS_RULE, Severity.WARNING)
