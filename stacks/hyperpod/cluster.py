"""The HyperPod cluster."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import CustomResource
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.model import HyperPod, InstanceGroup
from stacks.hyperpod.lifecycle_scripts import LifecycleScripts
from stacks.hyperpod.provider import ClusterProvider
from stacks.hyperpod.slurm import SlurmTopology


class HyperPodCluster(Construct):
    """A cluster that the boto3 custom resource creates; its properties are the fields of CreateCluster.

    `cdk diff` therefore shows an instance count as a number beside its name. `handlers/hyperpod_cluster/changes.py`
    says what an update of each field does. The resource is complete when the cluster is InService; nodes join later.

    `orchestration` holds the fields that name the orchestrator, and `slurm` what Slurm adds to each group.
    `subnet` is the nodes' subnet; `own_subnets` maps the name of a group in another zone to its subnet.
    """

    resource: CustomResource
    arn: str

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        provider: ClusterProvider,
        settings: HyperPod,
        tags: dict[str, str],
        execution_role: iam.IRole,
        lifecycle_scripts: LifecycleScripts,
        orchestration: Mapping[str, Any],
        slurm: SlurmTopology | None = None,
        subnet: ec2.ISubnet,
        own_subnets: Mapping[str, ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        own_networks = {name: _vpc_config(subnet, security_group) for name, subnet in own_subnets.items()}
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::HyperPodCluster",
            service_token=provider.service_token,
            properties={
                "ClusterName": settings.cluster_name,
                # One subnet: from several, HyperPod would choose one for all nodes, and the choice is unpredictable.
                "VpcConfig": _vpc_config(subnet, security_group),
                **orchestration,
                "NodeRecovery": settings.node_recovery,
                **_given("TieredStorageConfig", _tiered_storage(settings)),
                "InstanceGroups": [
                    _instance_group(
                        group,
                        execution_role,
                        lifecycle_scripts,
                        own_network=own_networks.get(group.name),
                        key=key,
                        slurm=slurm,
                    )
                    for group in settings.instance_groups
                ],
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                # Not fields of the API, but properties for the handler (handlers/hyperpod_cluster/request.py).
                **_given("ConfirmGroupRemoval", list(settings.confirm_group_removal)),
                **_given("SleepingGroups", {name: least for name, (least, _) in settings.sleeping_groups.items()}),
            },
        )
        self.arn = self.resource.get_att_string("ClusterArn")


def _instance_group(
    group: InstanceGroup,
    execution_role: iam.IRole,
    lifecycle_scripts: LifecycleScripts,
    *,
    own_network: dict[str, Any] | None,
    key: kms.IKey | None,
    slurm: SlurmTopology | None,
) -> dict[str, Any]:
    """Return a group in CreateCluster's form (`ClusterInstanceGroupSpecification`)."""
    return {
        "InstanceGroupName": group.name,
        "InstanceType": group.instance_type,
        "InstanceCount": group.count,
        **_given("MinInstanceCount", group.min_count),
        "ThreadsPerCore": group.threads_per_core,
        "ExecutionRole": execution_role.role_arn,
        "LifeCycleConfig": {
            "SourceS3Uri": lifecycle_scripts.uris[group.lifecycle_scripts],
            "OnCreate": lifecycle_scripts.entry_point,
        },
        **(slurm.of_group(group) if slurm else {}),
        "InstanceStorageConfigs": [*_volumes(group, key), *(slurm.storage() if slurm else [])],
        **_given("OnStartDeepHealthChecks", list(group.deep_health_checks)),
        **_given("KubernetesConfig", _kubernetes_config(group)),
        **_given("OverrideVpcConfig", own_network),
        **_given("TrainingPlanArn", group.training_plan),
        **_given("ImageId", group.image_id),
    }


def _tiered_storage(settings: HyperPod) -> dict[str, Any]:
    tier = settings.tiered_storage
    return {"Mode": "Enable", "InstanceMemoryAllocationPercentage": tier.memory_percent} if tier else {}


def _volumes(group: InstanceGroup, key: kms.IKey | None) -> list[dict[str, Any]]:
    """Return the volumes; the root volume, whose size HyperPod chooses, is named only to give it a key."""
    secondary: dict[str, Any] = {"VolumeSizeInGB": group.volume_gib}
    if key is None:
        return [{"EbsVolumeConfig": secondary}]
    given = {"VolumeKmsKeyId": key.key_arn}
    return [{"EbsVolumeConfig": {"RootVolume": True, **given}}, {"EbsVolumeConfig": secondary | given}]


def _kubernetes_config(group: InstanceGroup) -> dict[str, Any]:
    # A taint's value is optional, and if given has at least one character (ClusterKubernetesTaintValue).
    taints = [{"Key": each.key, "Effect": each.effect, **_given("Value", each.value)} for each in group.taints]
    return {**_given("Labels", dict(group.labels)), **_given("Taints", taints)}


def _vpc_config(subnet: ec2.ISubnet, security_group: ec2.ISecurityGroup) -> dict[str, Any]:
    return {"SecurityGroupIds": [security_group.security_group_id], "Subnets": [subnet.subnet_id]}


def _given(field: str, value: Any) -> dict[str, Any]:
    """Return `{field: value}`, or `{}` if the value is empty: SageMaker rejects some empty fields."""
    return {field: value} if value else {}
