"""Every rule that an environment must keep before anything is deployed.

One small function each, by the ids that findings and docs show. A rule looks at the environment alone: neither AWS
nor jsii is asked. Rules whose subject another rule has refused stay silent, so that one mistake is one finding.
"""

from contextlib import suppress
from typing import Final

from config.findings import Finding
from config.model import Environment
from config.rules import eks, fsx, hyperpod, network, ray
from config.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    eks.kubernetes_version,
    hyperpod.known_instance_types,
    hyperpod.threads_per_core,
    hyperpod.deep_health_checks,
    fsx.file_system_size,
    ray.head_size,
    ray.supported_versions,
    hyperpod.volumes,
    network.two_zones_for_eks,
    network.vpc_block,
    hyperpod.distinct_groups,
    eks.system_nodes_are_x86,
    ray.instance_groups_of_ray,
    ray.replicas_within_bounds,
    fsx.efa_reaches_somebody,
    fsx.driver_makes_what_it_can,
    fsx.existing_file_system_is_left_as_it_is,
)


def findings(environment: Environment) -> list[Finding]:
    """Return what all rules say of the environment, errors and warnings."""
    return [finding for rule in RULES for finding in rule(environment)]


def findings_of_part(part: Environment) -> list[Finding]:
    """Return what rules say of `config.partial.known_part`; a rule ends where it needs a value that is not known."""
    found = []
    for rule in RULES:
        with suppress(AttributeError):
            # One by one, so that what it said before is kept.
            for finding in rule(part):
                found.append(finding)
    return found
