"""Write small cloud assemblies."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.review.assembly import Assembly, Pair, resource_changes
from ops.review.hyperpod.changes import TYPES, changes
from ops.review.model import Change

Resource = dict[str, Any]
BUCKET = {"Fn::ImportValue": "rayhp-dev-storage:Lifecycle"}
SUBNET = {"Fn::ImportValue": "rayhp-dev-network:Nodes0"}


def assembly(directory: Path, **stacks: Mapping[str, Any]) -> Assembly:
    """Write one template for each part: its resources by logical id."""
    directory.mkdir(parents=True, exist_ok=True)
    artifacts = {}
    for part, resources in stacks.items():
        name = f"rayhp-dev-{part}"
        body = {"Resources": resources, "Outputs": outputs(part)}
        (directory / f"{name}.template.json").write_text(json.dumps(body))
        properties = {"templateFile": f"{name}.template.json", "stackName": name}
        artifacts[name] = {"type": "aws:cloudformation:stack", "properties": properties}
    (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return Assembly(directory)


def outputs(part: str) -> dict[str, Any]:
    """Return the exports of the part: the nodes' subnets of the network."""
    if part != "network":
        return {}
    exported = {"Value": {"Fn::GetAtt": ["Nodes0", "SubnetId"]}, "Export": {"Name": "rayhp-dev-network:Nodes0"}}
    return {"Nodes0": exported}


def network() -> dict[str, Resource]:
    """Return the resources of the network stack: one subnet."""
    return {"Nodes0": {"Type": "AWS::EC2::Subnet", "Properties": {"AvailabilityZoneId": "usw2-az2"}}}


def group(name: str, count: int = 4, **fields: Any) -> dict[str, Any]:
    """Return an instance group as the hyperpod stack writes it."""
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": count,
        "ThreadsPerCore": 1,
        "ExecutionRole": {"Fn::GetAtt": ["ExecutionRole", "Arn"]},
        "LifeCycleConfig": scripts("v1"),
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}],
        **fields,
    }


def scripts(prefix: str, entry: str = "on_create.sh", bucket: Any = BUCKET) -> dict[str, Any]:
    """Return a group's LifeCycleConfig."""
    return {"SourceS3Uri": {"Fn::Join": ["", ["s3://", bucket, f"/{prefix}/"]]}, "OnCreate": entry}


def cluster(*groups: dict[str, Any], **properties: Any) -> Resource:
    """Return the cluster's custom resource."""
    return {
        "Type": "Custom::HyperPodCluster",
        "Properties": {
            "ServiceToken": {"Fn::GetAtt": ["OnEvent", "Arn"]},
            "ClusterName": "ml-cluster",
            "VpcConfig": {"SecurityGroupIds": [{"Fn::ImportValue": "rayhp-dev-network:Shared"}], "Subnets": [SUBNET]},
            "Orchestrator": {"Eks": {"ClusterArn": {"Fn::ImportValue": "rayhp-dev-eks:Cluster"}}},
            "NodeProvisioningMode": "Continuous",
            "NodeRecovery": "Automatic",
            "InstanceGroups": list(groups),
            "Tags": [{"Key": "project", "Value": "rayhp"}],
            **properties,
        },
        "DependsOn": ["Teardown"],
        "UpdateReplacePolicy": "Delete",
        "DeletionPolicy": "Delete",
        "Metadata": {"aws:cdk:path": "rayhp-dev-hyperpod/Cluster/Resource/Default"},
    }


def teardown() -> Resource:
    """Return the guard."""
    properties = {"ServiceToken": {"Fn::GetAtt": ["OnEvent", "Arn"]}}
    return {"Type": "Custom::HyperPodClusterTeardown", "Properties": properties, "DeletionPolicy": "Delete"}


def upload(digest: str = "v1", name: str = "lifecycle_scripts-eks", **properties: Any) -> Resource:
    """Return the upload of an asset of lifecycle scripts, below a prefix of the same name."""
    return {
        "Type": "Custom::CDKBucketDeployment",
        "Properties": {
            "ServiceToken": {"Fn::GetAtt": ["CustomCDKBucketDeployment", "Arn"]},
            "SourceBucketNames": ["cdk-hnb659fds-assets-111122223333-us-west-2"],
            "SourceObjectKeys": [f"{digest}.zip"],
            "DestinationBucketName": BUCKET,
            "DestinationBucketKeyPrefix": digest,
            "RetainOnDelete": True,
            "Prune": False,
            **properties,
        },
        "Metadata": {"aws:cdk:path": f"rayhp-dev-hyperpod/LifecycleScripts/Upload-{name}/CustomResource/Default"},
    }


def changed(resource: Resource, **properties: Any) -> Resource:
    """Return a copy of the resource with these properties; None removes one."""
    copied = copy.deepcopy(resource)
    copied["Properties"] = {
        key: value for key, value in (copied["Properties"] | properties).items() if value is not None
    }
    return copied


def pair(root: Path, before: Mapping[str, Resource] | None, after: Mapping[str, Resource]) -> Pair:
    """Write both sides of the hyperpod stack, with the network; `before` is None if the environment is new."""
    base = None if before is None else assembly(root / "base", hyperpod=before, network=network())
    return Pair("dev", base, assembly(root / "head", hyperpod=after, network=network()))


def asset(side: Assembly, digest: str, **files: str) -> None:
    """Write an asset of scripts: `on_create="…"` is the file on_create.sh."""
    folder = side.directory / f"asset.{digest}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / (name if name == "settings" else f"{name}.sh")).write_text(text)


def ray_cluster(instance_group: str, *tolerations: Mapping[str, Any], **selector: str) -> Resource:
    """Return the manifest of a RayCluster with one head on the instance group."""
    node = {"sagemaker.amazonaws.com/instance-group-name": instance_group, **selector}
    pod = {"template": {"spec": {"nodeSelector": node, "tolerations": list(tolerations)}}}
    identity = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "rayml"}}
    text = json.dumps([identity | {"spec": {"headGroupSpec": pod}}])
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": text}}


def changes_of(reviewed: Pair) -> list[Change]:
    """Return the changes of the resources that the module reviews."""
    return list(changes(reviewed, [each for each in resource_changes(reviewed) if each.type in TYPES]))
