"""All rules of an environment beyond the kinds of its values.

Each rule is one small function with the id that findings and docs show. Rules read only the environment and the
project's files, never AWS or jsii. A rule is silent if another rule refuses its subject, so that one mistake is one
finding.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from config.findings import Finding, Severity
from config.model import Environment
from config.model.base import UnknownValueError
from config.rules import (
    company,
    eks,
    fsx,
    hyperpod,
    image,
    instance_groups,
    lifecycle_scripts,
    network,
    ray,
    ray_capacity,
    secrets,
    sleep,
    zones,
)
from config.rules.across_environments import PAIR_RULES, findings_beside, own_blocks
from config.rules.add_ons import (
    described,
    hyperpod_observability,
    in_cluster,
    memory_tier,
    mlflow,
    monthly_budget,
    observability,
)
from config.rules.rule import Rule
from config.rules.slurm import rules as slurm

__all__ = ["ALL_RULES", "RULES", "findings", "findings_beside", "findings_of_document", "findings_of_part"]

RULES: Final[tuple[Rule, ...]] = (
    company.account_of_somebody,
    company.boundary_of_the_account,
    company.tags_leave_the_projects_own,
    company.key_of_the_account,
    company.names_keep_environments_apart,
    company.given_names_follow_the_pattern,
    network.supported_partition,
    network.two_zones_for_eks,
    network.known_region,
    network.vpc_block,
    network.services_have_their_own_addresses,
    network.private_block,
    network.zones_of_the_region,
    network.nothing_new_in_an_existing_vpc,
    network.existing_subnets,
    network.closed_network,
    network.no_neuron_in_a_closed_network,
    eks.kubernetes_version,
    eks.extended_support,
    eks.system_nodes_are_x86,
    eks.endpoint,
    eks.endpoint_of_the_whole_world,
    eks.existing_cluster,
    eks.add_ons,
    described.described_add_ons,
    described.unknown_configuration,
    eks.vpc_cni,
    eks.namespaces,
    eks.roles,
    eks.administrators,
    eks.arns,
    hyperpod.cluster_name,
    hyperpod.bucket_names,
    hyperpod.sub_charts,
    hyperpod.distinct_groups,
    hyperpod.removal_of_a_group_that_stays,
    memory_tier.memory_beside_the_tier,
    instance_groups.known_instance_types,
    instance_groups.types_of_the_region,
    instance_groups.threads_per_core,
    instance_groups.deep_health_checks,
    instance_groups.connectivity_of_one_node,
    instance_groups.min_count,
    instance_groups.volumes,
    instance_groups.labels_and_taints,
    instance_groups.taints_of_neuron_nodes,
    sleep.groups_that_can_sleep,
    sleep.times_of_sleep,
    sleep.one_hand_on_the_workers,
    sleep.checks_at_each_wake,
    sleep.groups_that_stand_in,
    lifecycle_scripts.lifecycle_scripts,
    zones.zones_with_a_subnet,
    zones.zone_of_a_training_plan,
    zones.efa_in_one_zone,
    zones.file_system_in_another_zone,
    zones.efa_to_a_file_system_in_another_zone,
    zones.addresses,
    fsx.file_system_size,
    fsx.size_with_efa,
    fsx.efa_reaches_somebody,
    fsx.data_repositories,
    fsx.one_kind_of_file_system,
    fsx.reclaim_policy,
    fsx.room_for_checkpoints,
    fsx.time_for_checkpoints,
    in_cluster.metrics_fit_the_system_nodes,
    observability.parts_have_what_they_need,
    hyperpod_observability.grafana_can_be_reached,
    monthly_budget.budget_in_a_region_that_makes_it,
    monthly_budget.budget_covers_the_standing_costs,
    image.one_image,
    image.ray_version,
    image.pip_requirements,
    image.locked_requirements,
    memory_tier.client_of_the_tier,
    mlflow.client_of_the_tracking_server,
    image.cuda_of_the_gpus,
    ray.old_kuberay,
    ray.known_kuberay,
    ray.unrehearsed_kuberay,
    ray.ray_with_known_flaws,
    ray.instance_groups_of_ray,
    ray.replicas_within_bounds,
    ray.bounds_of_autoscaling,
    ray.autoscaler_that_removes_all,
    ray.distinct_clusters,
    ray.distinct_worker_groups,
    ray.pod_names,
    ray.variables_of_others,
    ray.token_of_a_head,
    ray.variables_given_twice,
    secrets.no_secrets,
    secrets.names_of_secrets,
    ray.mount_paths,
    ray.node_selectors,
    ray_capacity.requests_fit,
    ray_capacity.idle_accelerators,
    ray_capacity.head_size,
    ray_capacity.workers_have_nodes,
    ray_capacity.groups_without_nodes,
    ray_capacity.heads_without_nodes,
    ray_capacity.heads_have_nodes,
    ray_capacity.pods_per_node,
    ray_capacity.head_beside_accelerators,
    ray_capacity.head_on_one_node,
    slurm.one_orchestrator,
    slurm.roles_of_groups,
    slurm.partitions,
    slurm.keys_of_kubernetes,
    slurm.one_configuration,
    slurm.no_minimum_without_continuous_provisioning,
    slurm.managed_policy_reads_more,
)

ALL_RULES: Final[dict[str, Rule]] = {
    rule.id: rule for rule in sorted((*RULES, *PAIR_RULES), key=lambda rule: int(rule.id.removeprefix("V")))
}
"""Every rule by its id, including the rules about two environments."""


def rules_of(environment: Environment) -> list[Rule]:
    """Return the rules for the environment's orchestrator."""
    return [rule for rule in RULES if isinstance(environment, rule.environments)]


def findings_of_document(document: Mapping[str, Any]) -> list[Finding]:
    """Return the findings about keys that environments of the document's orchestrator lack."""
    if "slurm" not in document:
        return []
    return [slurm.one_orchestrator.finding(each, document) for each in slurm.parts_beside_slurm(document)]


def findings(environment: Environment) -> list[Finding]:
    """Return the errors and warnings of all rules, and findings about the accepted warnings.

    An accepted warning carries its reason. Accepting an error is an error, and so is an unknown id. Accepting a warning
    that no rule gives is a warning.
    """
    found = [rule.finding(each, environment) for rule in rules_of(environment) for each in rule.check(environment)]
    accepted = environment.accepted_warnings
    marked = [
        finding._replace(accepted=accepted.get(finding.rule, "")) if finding.severity is Severity.WARNING else finding
        for finding in found
    ]
    return marked + _misplaced(accepted, {finding.rule for finding in found})


def findings_of_part(part: Environment) -> list[Finding]:
    """Return the findings about the `known_part` of an environment; a rule stops at the first unknown value."""
    found = []
    for rule in rules_of(part):
        with suppress(UnknownValueError):
            # One by one, to keep the findings before the unknown value.
            for each in rule.check(part):
                found.append(rule.finding(each, part))
    return found


def _misplaced(accepted: dict[str, str], given: set[str]) -> list[Finding]:
    warnings = [rule.id for rule in ALL_RULES.values() if rule.severity is Severity.WARNING]
    listed = ", ".join(warnings)
    found = []
    for id in accepted:
        key, shown = f"accepted_warnings.{id}", repr(id)
        if id not in ALL_RULES:
            found.append(Finding(key, shown, "no rule has this id", listed, "copy the id from the end of a warning"))
        elif id not in warnings:
            fix = f"remove it, and fix what `ops explain {id}` explains"
            found.append(Finding(key, shown, "it is an error, and errors cannot be accepted", listed, fix))
        elif id not in {*given, own_blocks.id}:
            reason = "the rule no longer warns"
            found.append(Finding(key, shown, reason, "warnings that are given", "remove it", severity=Severity.WARNING))
    return found
