"""Check CreateCluster and UpdateCluster against HyperPod's own rules, beyond the service model.

Sources of the rules: AWS docs, the SageMaker API reference, sagemaker-hyperpod-prerequisites and
sagemaker-hyperpod-eks-prerequisites, and error messages that users reported. If no source shows a message, the
rehearsal uses its own words. All checks run before any change.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from embedded_account.hyperpod import instance_types
from embedded_account.hyperpod.eks import EksDescription, KubernetesUnavailableError
from embedded_account.hyperpod.errors import (
    AlreadyInUseError,
    ConflictError,
    LimitExceededError,
    ValidationFailedError,
)
from embedded_account.hyperpod.model import (
    KEPT_WHEN_OMITTED,
    ClusterStatus,
    NodeStatus,
    SimulatedCluster,
    SimulatedGroup,
    Specification,
    instance_types_of,
    names_of_types,
)
from embedded_account.hyperpod.permissions import checks as permissions
from embedded_account.hyperpod.permissions import volume_keys
from embedded_account.hyperpod.slurm import clusters as slurm
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.services.iam.policies import trusts

NOT_SIMULATED: Final = ("RestrictedInstanceGroups", "RestrictedInstanceGroupsConfig", "AutoScaling")
NOT_SIMULATED_IN_GROUPS: Final = ("ScheduledUpdateConfig", "AutoPatchConfig", "ImageReleaseVersion")
IMMUTABLE: Final = (
    "InstanceType",
    "InstanceRequirements",
    "ExecutionRole",
    "OverrideVpcConfig",
    "CapacityRequirements",
)
"""Fields of an instance group that UpdateCluster cannot change (AWS docs: UpdateCluster, prerequisites)."""
KUBERNETES_VERSIONS: Final = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
"""The versions that HyperPod supports, fewer than EKS (AWS docs: sagemaker-hyperpod-eks-prerequisites)."""
AUTHENTICATION_MODES: Final = ("API", "API_AND_CONFIG_MAP")
SUBNETS_NOT_RETRIEVED: Final = (
    "Unable to retrieve subnets. Please ensure that the execution role allows the action sts:AssumeRole for the "
    "service principal sagemaker.amazonaws.com"
)

Request = Mapping[str, Any]


def check_create(world: SimulatorState, request: Request) -> EksDescription | None:
    """Return the EKS cluster that orchestrates the new cluster, None for Slurm; raise the error of SageMaker."""
    name = request["ClusterName"]
    if name in world.clusters:
        raise AlreadyInUseError(
            f"Resource Already Exists: Cluster with name {name} already exists. Choose a different name."
        )
    _refuse_not_simulated(request, NOT_SIMULATED)
    _check_tiered_storage(request)
    groups = request.get("InstanceGroups", [])
    of_eks = "Eks" in request.get("Orchestrator", {})
    if of_eks and "VpcConfig" not in request:
        raise ValidationFailedError("VpcConfig is required for clusters with Amazon EKS as the orchestrator.")
    check_groups(groups, continuous=request.get("NodeProvisioningMode") == "Continuous", of_eks=of_eks)
    if not of_eks:
        slurm.check_cluster(request, groups)
        if twice := slurm.configured_twice(world.surroundings, groups):
            raise ValidationFailedError(twice)
    eks = _check_eks(world, request["Orchestrator"]["Eks"]["ClusterArn"]) if of_eks else None
    _check_training_plans(world, groups)
    _check_roles(world, groups)
    for config in (request["VpcConfig"], *_own_vpc_configs(groups)):
        _check_vpc(world, config, eks)
    _check_quota(world, groups, replacing="")
    if eks:
        _check_dependencies(world, eks)
    return eks


def check_update(world: SimulatorState, cluster: SimulatedCluster, request: Request) -> None:
    """Raise the error that SageMaker would return for UpdateCluster, if any."""
    check_takes_changes(cluster)
    _refuse_not_simulated(request, NOT_SIMULATED)
    before = cluster.request.get("Orchestrator")
    if request.get("Orchestrator", before) != before:
        raise ValidationFailedError("The orchestrator of a cluster cannot be changed.")
    _check_tiered_storage(request)
    if "TieredStorageConfig" in request and not {"InstanceGroups", "NodeRecovery"} & request.keys():
        raise ValidationFailedError("TieredStorageConfig cannot be updated alone: give InstanceGroups or NodeRecovery.")
    groups = request.get("InstanceGroups", [])
    deleted = request.get("InstanceGroupsToDelete", [])
    unknown = [name for name in deleted if name not in cluster.groups]
    if unknown:
        raise ValidationFailedError(f"Instance groups to delete do not exist: {', '.join(unknown)}")
    both = [group["InstanceGroupName"] for group in groups if group["InstanceGroupName"] in deleted]
    if both:
        raise ValidationFailedError(f"Instance groups cannot be updated and deleted at once: {', '.join(both)}")
    continuous = cluster.continuous or request.get("NodeProvisioningMode") == "Continuous"
    of_eks = cluster.eks_name != slurm.NO_EKS
    check_groups(groups, continuous=continuous, of_eks=of_eks)
    for specification in groups:
        _check_unchanged(cluster.groups.get(specification["InstanceGroupName"]), specification)
    eks = world.orchestrators.cluster(cluster.eks_name) if of_eks else None
    if not of_eks:
        _check_slurm_after(cluster, groups, deleted, request)
    elif eks is None:
        raise ValidationFailedError(f"The Amazon EKS orchestrator cluster {cluster.eks_name} does not exist.")
    _check_training_plans(world, groups)
    _check_roles(world, groups)
    for config in _own_vpc_configs(groups):
        _check_vpc(world, config, eks)
    _check_quota(world, groups, replacing=cluster.name)


def _check_slurm_after(
    cluster: SimulatedCluster, groups: Iterable[Specification], deleted: Iterable[str], request: Request
) -> None:
    """Raise ValidationFailedError unless the groups after the update are those of a Slurm cluster."""
    named = {name: group.specification for name, group in cluster.groups.items() if not group.deleting}
    for group in groups:
        name = group["InstanceGroupName"]
        before = named.get(name, {})
        named[name] = {key: before[key] for key in KEPT_WHEN_OMITTED if key in before} | group
    after = [group for name, group in named.items() if name not in deleted]
    slurm.check_cluster(cluster.request | {key: request[key] for key in request if key != "InstanceGroups"}, after)


def _check_tiered_storage(request: Request) -> None:
    percentage = request.get("TieredStorageConfig", {}).get("InstanceMemoryAllocationPercentage", 20)
    # The API's model takes 0 to 100; the service refuses less than 20.
    if percentage < 20:
        raise ValidationFailedError("InstanceMemoryAllocationPercentage must be between 20 and 100.")


def check_takes_changes(cluster: SimulatedCluster) -> None:
    """Raise an error unless the cluster permits changes.

    Raises:
        ValidationFailedError: The cluster is Failed and can only be deleted.
        ConflictError: The cluster is not InService, or deep health checks are running.
    """
    if cluster.status is ClusterStatus.FAILED:
        raise ValidationFailedError(f"Cluster {cluster.arn} is in status Failed: it can only be deleted.")
    if cluster.status is not ClusterStatus.IN_SERVICE:
        raise ConflictError(f"Cluster {cluster.arn} is in status {cluster.status}. Fix: wait until it is InService.")
    checked = [node for node in cluster.nodes.values() if node.status is NodeStatus.DEEP_HEALTH_CHECK]
    if checked:
        raise ConflictError(
            f"Cluster {cluster.arn} has {len(checked)} instances in status DeepHealthCheckInProgress. "
            "Fix: wait until their deep health checks end."
        )


def check_groups(groups: Iterable[Specification], *, continuous: bool, of_eks: bool) -> None:
    """Raise ValidationFailedError if an instance group contradicts itself, another group or the provisioning mode."""
    groups = list(groups)
    counted = Counter(group["InstanceGroupName"] for group in groups)
    twice = [name for name, count in counted.items() if count > 1]
    if twice:
        raise ValidationFailedError(f"Instance group names must be unique: {', '.join(twice)}")
    for group in groups:
        _check_group(group, continuous=continuous)
        slurm.check_group(group, of_eks=of_eks)


def _check_group(group: Specification, *, continuous: bool) -> None:
    name = group["InstanceGroupName"]
    _refuse_not_simulated(group, NOT_SIMULATED_IN_GROUPS, where=f" of instance group {name}")
    if ("InstanceType" in group) is ("InstanceRequirements" in group):
        raise ValidationFailedError(
            f"Instance group {name}: exactly one of InstanceType or InstanceRequirements is required."
        )
    unknown = [each for each in names_of_types(group) if not instance_types.find(each)]
    if unknown:
        raise ValidationFailedError(
            f"Instance group {name}: the rehearsal has no figures for {', '.join(unknown)}. "
            "Allowed: the x86-64 types of EC2."
        )
    if not continuous:
        only = {"InstanceRequirements", "MinInstanceCount"} & group.keys()
        only |= {"VolumeKmsKeyId"} if volume_keys.of(group) else set()
        only |= {"CapacityRequirements.Spot"} if "Spot" in group.get("CapacityRequirements", {}) else set()
        if only:
            raise ValidationFailedError(
                f"Instance group {name}: {', '.join(sorted(only))} needs NodeProvisioningMode Continuous."
            )
    if group.get("MinInstanceCount", 0) > group["InstanceCount"]:
        raise ValidationFailedError(f"Instance group {name}: MinInstanceCount is above InstanceCount.")
    _check_types(name, group)
    _check_storage(name, group)


def _check_types(name: str, group: Specification) -> None:
    for instance_type in instance_types_of(group):
        threads = group.get("ThreadsPerCore")
        if threads is not None and threads not in instance_type.threads_per_core:
            raise ValidationFailedError(
                f"Instance group {name}: ThreadsPerCore {threads} is not valid for {instance_type.name} "
                f"(valid: {', '.join(map(str, instance_type.threads_per_core))})."
            )
        if group.get("OnStartDeepHealthChecks") and not instance_type.accelerated:
            raise ValidationFailedError(
                f"Instance group {name}: deep health checks are not supported for {instance_type.name}; "
                "they need GPU or Trainium instances."
            )
    if group.get("OnStartDeepHealthChecks") and group.get("KubernetesConfig", {}).get("Taints"):
        raise ValidationFailedError(
            f"Instance group {name}: custom taints cannot be used with OnStartDeepHealthChecks."
        )


def _check_storage(name: str, group: Specification) -> None:
    """Raise ValidationFailedError unless the root volume has a key and no size, and the secondary volume a size.

    Source: SageMaker API reference, ClusterEbsVolumeConfig.
    """
    for volume in (
        each["EbsVolumeConfig"] for each in group.get("InstanceStorageConfigs", []) if "EbsVolumeConfig" in each
    ):
        root, key, size = volume.get("RootVolume", False), "VolumeKmsKeyId" in volume, "VolumeSizeInGB" in volume
        if root and (size or not key):
            raise ValidationFailedError(
                f"Instance group {name}: RootVolume requires VolumeKmsKeyId and does not allow VolumeSizeInGB."
            )
        if not root and not size:
            raise ValidationFailedError(f"Instance group {name}: VolumeSizeInGB is required for the secondary volume.")


def _check_training_plans(world: SimulatorState, groups: Iterable[Specification]) -> None:
    """Raise ValidationFailedError for a training plan outside this account and region.

    The rehearsal has no reservations, so it assumes that every plan inside exists.
    """
    own = f"arn:{world.partition}:sagemaker:{world.region}:{world.account_id}:training-plan/"
    for group in groups:
        plan = group.get("TrainingPlanArn", own)
        if not plan.startswith(own):
            raise ValidationFailedError(
                f"Instance group {group['InstanceGroupName']}: training plan {plan} does not exist."
            )


def _check_unchanged(group: SimulatedGroup | None, wanted: Specification) -> None:
    if group is None:
        return
    changed = [
        key
        for key in IMMUTABLE
        if wanted.get(key) != group.specification.get(key) and not (key in KEPT_WHEN_OMITTED and key not in wanted)
    ]
    if "ThreadsPerCore" in wanted and wanted["ThreadsPerCore"] != group.threads_per_core:
        changed.append("ThreadsPerCore")
    if volume_keys.of(wanted) != volume_keys.of(group.specification):
        changed.append("VolumeKmsKeyId")
    slurm.check_unchanged(group, wanted)
    if changed:
        raise ValidationFailedError(
            f"Instance group {group.name}: {', '.join(changed)} cannot be changed. Delete the group and add another."
        )


def _check_eks(world: SimulatorState, arn: str) -> EksDescription:
    name = arn.rpartition("/")[2]
    eks = world.orchestrators.cluster(name)
    if eks is None or eks.arn != arn:
        raise ValidationFailedError(f"The Amazon EKS orchestrator cluster {arn} does not exist.")
    if eks.status != "ACTIVE":
        raise ValidationFailedError(f"The Amazon EKS orchestrator cluster {name} is not ACTIVE but {eks.status}.")
    if eks.authentication_mode not in AUTHENTICATION_MODES:
        raise ValidationFailedError(
            f"The Amazon EKS orchestrator cluster {name} has authentication mode {eks.authentication_mode}; "
            f"HyperPod needs {' or '.join(AUTHENTICATION_MODES)}."
        )
    if eks.version and eks.version not in KUBERNETES_VERSIONS:
        raise ValidationFailedError(
            f"The Amazon EKS orchestrator cluster {name} has Kubernetes {eks.version}; "
            f"HyperPod supports {', '.join(KUBERNETES_VERSIONS)}."
        )
    other = next((cluster for cluster in world.clusters.values() if cluster.eks_name == name), None)
    if other:
        raise ValidationFailedError(
            f"The Amazon EKS orchestrator cluster {name} is already used by the HyperPod cluster {other.name}; "
            "EKS and HyperPod clusters are one to one."
        )
    return eks


def _check_dependencies(world: SimulatorState, eks: EksDescription) -> None:
    try:
        missing = world.orchestrators.missing_dependencies(eks.name)
    except KubernetesUnavailableError as error:
        raise ValidationFailedError(
            f"The Amazon EKS orchestrator cluster {eks.name} cannot be reached: {error}"
        ) from error
    if missing:
        raise ValidationFailedError(
            f"The Amazon EKS orchestrator cluster {eks.name} is missing one or more required dependencies. "
            f"(the rehearsal looked for {', '.join(missing)})"
        )


def _check_roles(world: SimulatorState, groups: Iterable[Specification]) -> None:
    """Raise ValidationFailedError unless each role exists, trusts SageMaker and may describe the network.

    SageMaker's message names only the trust policy, whichever of them is the cause.
    """
    for arn in dict.fromkeys(group["ExecutionRole"] for group in groups):
        role = world.surroundings.role(arn)
        if role is None or not trusts(role.trust, "sagemaker.amazonaws.com"):
            raise ValidationFailedError(SUBNETS_NOT_RETRIEVED)
        refused = permissions.denied(role.grants, permissions.execution_role_needs(world.account_id))
        if refused:
            raise ValidationFailedError(f"{SUBNETS_NOT_RETRIEVED} (the rehearsal found {refused[0].action} missing)")
    for group in groups:
        _check_keys(world, group)


def _check_keys(world: SimulatorState, group: Specification) -> None:
    """Raise ValidationFailedError unless the volumes' KMS keys can be used, and the role may grant their use."""
    name, keys = group["InstanceGroupName"], list(dict.fromkeys(volume_keys.of(group).values()))
    for key in keys:
        if why := world.surroundings.unusable_key(key):
            raise ValidationFailedError(f"Instance group {name}: the KMS key {key} {why}.")
    role = world.surroundings.role(group["ExecutionRole"])
    if role and (
        refused := permissions.denied(role.grants, permissions.key_needs(world.region, world.account_id, keys))
    ):
        raise ValidationFailedError(f"Instance group {name}: the execution role may not call {refused[0].action}.")


def _check_vpc(world: SimulatorState, config: Request, eks: EksDescription | None) -> None:
    subnets = {subnet_id: world.surroundings.subnet(subnet_id) for subnet_id in config["Subnets"]}
    groups = {group_id: world.surroundings.security_group(group_id) for group_id in config["SecurityGroupIds"]}
    absent = [identifier for identifier, found in (*subnets.items(), *groups.items()) if found is None]
    if absent:
        raise ValidationFailedError(f"VpcConfig names resources that do not exist: {', '.join(absent)}")
    vpcs = {found.vpc_id for found in (*subnets.values(), *groups.values()) if found}
    vpcs |= {eks.vpc_id} if eks and eks.vpc_id else set()
    if len(vpcs) > 1:
        raise ValidationFailedError(
            f"Subnets, security groups and the Amazon EKS cluster must share a VPC, not {', '.join(sorted(vpcs))}."
        )


def _check_quota(world: SimulatorState, groups: Iterable[Specification], *, replacing: str) -> None:
    """Raise LimitExceededError if instances that the groups add would exceed a service quota.

    The groups' counts replace those of the same groups in the cluster named `replacing`. A quota that was lowered below
    the utilization refuses what adds instances, and nothing else: the service's message names a delta.
    """
    wanted = {group["InstanceGroupName"]: group for group in groups}
    used: Counter[str] = Counter()
    delta: Counter[str] = Counter()
    for cluster in world.clusters.values():
        for group in cluster.groups.values():
            name = group.instance_types[0].name
            used[name] += group.target
            if cluster.name == replacing and group.name in wanted:
                delta[name] -= group.target
    for specification in wanted.values():
        delta[instance_types_of(specification)[0].name] += specification["InstanceCount"]
    for name, count in delta.items():
        limit = world.faults.quota.get(name, world.quota(name))
        if limit is not None and count > 0 and used[name] + count > limit:
            raise LimitExceededError(
                f"The account-level service limit '{name} for cluster usage' is {limit} Instances, with current "
                f"utilization of {used[name]} Instances and a request delta of {count} Instances. Please use AWS "
                "Service Quotas to request an increase for this quota."
            )


def _own_vpc_configs(groups: Iterable[Specification]) -> list[Request]:
    return [group["OverrideVpcConfig"] for group in groups if "OverrideVpcConfig" in group]


def _refuse_not_simulated(request: Request, members: Iterable[str], where: str = "") -> None:
    used = [member for member in members if member in request]
    if used:
        raise ValidationFailedError(f"The rehearsal does not simulate {', '.join(used)}{where}.")
