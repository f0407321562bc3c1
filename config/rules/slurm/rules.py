"""Rules about clusters that Slurm orchestrates."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from config.model import PARTS_OF_EKS, EksEnvironment, InstanceGroup, SlurmEnvironment
from config.rules.lifecycle_scripts import folder_of
from config.rules.parts import groups
from config.rules.rule import Violation, error, warning

PROVISIONING_PARAMETERS: Final = "provisioning_parameters.json"
_OF_GROUPS: Final = {
    "labels": "Kubernetes labels are for nodes of EKS",
    "taints": "Kubernetes taints are for nodes of EKS",
    "deep_health_checks": "AWS documents deep health checks for clusters that EKS orchestrates",
    "sleep": "what uses a group is known of Ray in an EKS cluster",
}
_OF_THE_FILE_SYSTEM: Final = {
    "provisioning": "the CSI driver runs in an EKS cluster only",
    "claim": "claims are objects of Kubernetes",
    "reclaim_policy": "claims are objects of Kubernetes",
}


def nodes_of(environment: SlurmEnvironment, kind: str) -> list[tuple[str, InstanceGroup]]:
    """Return the groups whose nodes are of this kind in Slurm, each with its key."""
    return [(key, group) for key, group in groups(environment) if group.slurm and group.slurm.node == kind]


@error("V87")
def one_orchestrator(environment: EksEnvironment) -> Iterator[Violation]:
    """Require either `eks` or `slurm`, and beside `slurm` no key that only an EKS cluster uses.

    Why: one orchestrator runs a HyperPod cluster for its whole life. Nothing would read the other one's keys.
    Source: SageMaker API reference, ClusterOrchestrator; this project, docs/operate/slurm.md.
    Example: hyperpod.instance_groups.0.slurm: {node: compute}
    """
    for key, group in groups(environment):
        if group.slurm:
            reason = "EKS orchestrates the cluster, and its nodes run no Slurm"
            yield Violation(f"{key}.slurm", reason, "slurm of a group beside slurm", "remove the key")


def parts_beside_slurm(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield a violation of V87 for each key of a file with `slurm` that only an environment with EKS has."""
    for part in PARTS_OF_EKS:
        if part in document:
            reason = f"Slurm orchestrates the cluster, and nothing would read {part}"
            yield Violation(part, reason, f"{part} beside eks, or slurm without {part}", f"remove {part}, or slurm")


@error("V88")
def roles_of_groups(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Require what the nodes of each group are in Slurm: one controller, compute nodes, at most one login group.

    Why: HyperPod refuses a cluster without a controller group or with several. Only compute nodes run jobs.
    Source: AWS docs, sagemaker-hyperpod-slurm-api-config-migration, troubleshooting; SageMaker API reference,
    ClusterSlurmConfig.
    Example: hyperpod.instance_groups.0.count: 2
    """
    for key, group in groups(environment):
        if group.slurm is None:
            reason, fix = "Slurm must know what its nodes are", "add slurm: {node: compute}"
            yield Violation(f"{key}.slurm", reason, "slurm: {node: controller, login or compute}", fix)
    if any(group.slurm is None for _, group in groups(environment)):
        return
    for kind, most in (("controller", 1), ("login", 1)):
        for key, _ in nodes_of(environment, kind)[most:]:
            reason, fix = f"another group is the {kind} group", "write compute, or remove the group"
            yield Violation(f"{key}.slurm.node", reason, f"one {kind} group", fix)
    for kind in ("controller", "compute"):
        if not nodes_of(environment, kind):
            reason, allowed = f"no group has {kind} nodes", f"a group with slurm: {{node: {kind}}}"
            yield Violation("hyperpod.instance_groups", reason, allowed, "add such a group")
    for key, group in nodes_of(environment, "controller")[:1]:
        if group.count != 1:
            reason = "HyperPod configures one controller node"
            yield Violation(f"{key}.count", reason, "1", "write count: 1")


@error("V89")
def partitions(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Allow a partition on compute nodes only, and require one where the lifecycle scripts configure Slurm.

    Why: HyperPod refuses partitions of other nodes. The file of the lifecycle scripts names the partition of each
    group of compute nodes.
    Source: AWS docs, sagemaker-hyperpod-slurm-api-config-migration; awslabs/awsome-distributed-ai, base-config.
    Example: hyperpod.instance_groups.0.slurm: {node: controller, partition: dev}
    """
    for key, group in groups(environment):
        node = group.slurm
        if node and node.partition and node.node != "compute":
            reason, fix = f"jobs do not run on {node.node} nodes", "remove partition"
            yield Violation(f"{key}.slurm.partition", reason, "partitions of compute nodes", fix)
        elif node and node.node == "compute" and not node.partition and _by_scripts(environment):
            reason, fix = f"{PROVISIONING_PARAMETERS} names each group's partition", "add partition: dev"
            yield Violation(f"{key}.slurm.partition", reason, "the name of a partition", fix)


@error("V90")
def keys_of_kubernetes(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Refuse keys beside `slurm` that only Kubernetes or an EKS cluster reads, and a closed network.

    Why: nothing would read them. A closed network's endpoints are chosen for EKS, and the lifecycle scripts install
    packages from the internet.
    Source: SageMaker API reference, ClusterKubernetesConfig; AWS docs,
    sagemaker-hyperpod-eks-resiliency-deep-health-checks; this project, docs/operate/slurm.md.
    Example: fsx.claim: fsx-claim
    """
    for key, group in groups(environment):
        for name, reason in _OF_GROUPS.items():
            if getattr(group, name):
                yield Violation(f"{key}.{name}", reason, f"a group of Slurm without {name}", f"remove {name}")
    for name, reason in _OF_THE_FILE_SYSTEM.items():
        stated = name in environment.fsx.model_fields_set
        if stated and (name != "provisioning" or environment.fsx.dynamic):
            yield Violation(f"fsx.{name}", reason, f"fsx without {name}", f"remove {name}")
    if environment.hyperpod.sub_charts:
        reason = "sub-charts are installed in an EKS cluster"
        yield Violation("hyperpod.sub_charts", reason, "hyperpod without sub_charts", "remove sub_charts")
    if environment.hyperpod.tiered_storage:
        reason = "AWS documents HyperPod's memory tier for clusters that EKS orchestrates"
        yield Violation("hyperpod.tiered_storage", reason, "hyperpod without tiered_storage", "remove tiered_storage")
    if environment.network.closed:
        reason = "the lifecycle scripts of Slurm's nodes install packages from the internet"
        yield Violation("network.nat_gateways", reason, "one, one-per-zone", "write nat_gateways: one")


@error("V91")
def one_configuration(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Refuse a `provisioning_parameters.json` in the folder of lifecycle scripts.

    Why: HyperPod refuses an update of a cluster that has both the file and `SlurmConfig`. Where the scripts configure
    Slurm, a deployment generates the file.
    Source: AWS docs, sagemaker-hyperpod-slurm-api-config-migration.
    Example: hyperpod.instance_groups.0.lifecycle_scripts: tests/unit/config/rules/slurm_scripts
    """
    seen = set[Path]()
    for key, group in groups(environment):
        folder = folder_of(group.lifecycle_scripts)
        if folder and folder not in seen and any(folder.rglob(PROVISIONING_PARAMETERS)):
            seen.add(folder)
            reason = f"it holds {PROVISIONING_PARAMETERS}"
            reason += (
                ", which a deployment generates"
                if _by_scripts(environment)
                else ", and HyperPod configures Slurm itself"
            )
            fix = "delete the file; `ops import` reads it into an environment"
            yield Violation(f"{key}.lifecycle_scripts", reason, f"folders without {PROVISIONING_PARAMETERS}", fix)


@error("V92")
def no_minimum_without_continuous_provisioning(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Refuse `min_count` where the lifecycle scripts configure Slurm.

    Why: HyperPod has a minimum only under continuous provisioning, which needs the API's configuration of Slurm.
    Source: AWS docs, sagemaker-hyperpod-scaling-slurm, prerequisites.
    Example: hyperpod.instance_groups.2.min_count: 1
    """
    if not _by_scripts(environment):
        return
    for key, group in groups(environment):
        if group.min_count is not None:
            reason = "continuous provisioning needs slurm.configuration: api"
            yield Violation(f"{key}.min_count", reason, "groups without min_count", "remove min_count")


@warning("V96")
def managed_policy_reads_more(environment: SlurmEnvironment) -> Iterator[Violation]:
    """Warn of nodes that AWS's managed policy lets read all buckets of the account that begin with `sagemaker-`.

    Why: those of other environments hold lifecycle scripts, which run as root, and SageMaker's own hold people's data.
    The policy also lets nodes write logs of other clusters.
    Source: AWS managed policy reference, AmazonSageMakerClusterInstanceRolePolicy.
    Example: slurm.managed_policy: true
    """
    if environment.slurm.managed_policy:
        reason = "nodes can read each bucket of the account whose name begins with sagemaker-"
        fix = "remove the key, or keep other data in buckets with other names"
        yield Violation("slurm.managed_policy", reason, "false", fix)


def _by_scripts(environment: SlurmEnvironment) -> bool:
    return environment.slurm.configuration == "provisioning_parameters"
