"""Rules about two environments: they must not share physical names, and should not share address blocks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from config import naming
from config.findings import Finding
from config.model import Environment
from config.rules.rule import Rule, Violation, error, warning

_NAMES: Final = "names of stacks and clusters begin with it and the environment's name"
# What two environments of one account and region must not share: the key, its value, and why.
_OWN: Final[tuple[tuple[str, Callable[..., str | None], str], ...]] = (
    ("project", lambda it: naming.eks_cluster(it) if it.has_kubernetes else None, _NAMES),
    ("project", lambda it: naming.named(it, "*"), _NAMES),
    ("project", naming.environment_tag, "a tag made of it and the environment's name marks what no stack owns"),
    ("hyperpod.cluster_name", lambda it: it.hyperpod.cluster_name, "SageMaker has one cluster of a name"),
    ("image.repository", lambda it: it.repository, "each storage stack makes its own repository"),
    (
        "eks.existing.name",
        lambda it: it.existing_eks.name if it.existing_eks else None,
        "an EKS cluster has one HyperPod cluster",
    ),
)


@error("V64")
def own_names(environment: Environment, other: Environment) -> Iterator[Violation]:
    """Require names that no other environment of the account and region has.

    Why: the second deployment would change the first one's resources, or fail because of them.
    Source: SageMaker, EKS, ECR, CloudFormation API references: names are unique in an account and region.
    Example: hyperpod.cluster_name: ml-cluster
    """
    if (environment.account, environment.region) == (other.account, other.region):
        found = set()
        for key, value_of, why in _OWN:
            if key not in found and (value := value_of(environment)) and value == value_of(other):
                found.add(key)
                reason = f"environment {other.name!r} already uses it in this account and region, and {why}"
                yield Violation(key, reason, "a name that no other environment has", "choose another name", repr(value))


@warning("V65")
def own_blocks(environment: Environment, other: Environment) -> Iterator[Violation]:
    """Warn of new VPCs whose blocks overlap.

    Why: two VPCs of overlapping blocks can never be connected.
    Source: Amazon VPC user guide, VPC peering limitations; transit gateway guide.
    Example: network.vpc_cidr: 10.192.0.0/16
    """
    if environment.network.existing is None and other.network.existing is None:
        taken = other.network.vpc_cidr
        if environment.network.vpc_cidr.overlaps(taken):
            reason = f"it overlaps {taken} of environment {other.name!r}, and the two VPCs could never be connected"
            yield Violation("network.vpc_cidr", reason, "a block that no other environment uses", "choose another /16")


PAIR_RULES: Final[tuple[Rule, ...]] = (own_names, own_blocks)


def findings_beside(environment: Environment, others: Iterable[Environment]) -> list[Finding]:
    """Return findings about what the environment shares with others; `others` may contain itself."""
    found = [
        rule.finding(each, environment)
        for other in others
        if (environment.name, environment.project) != (other.name, other.project)
        for rule in PAIR_RULES
        for each in rule.check(environment, other)
    ]
    accepted = environment.accepted_warnings.get(own_blocks.id, "")
    return [each._replace(accepted=accepted if each.rule == own_blocks.id else "") for each in found]
