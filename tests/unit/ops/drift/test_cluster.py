"""The comparison of a deployed template with DescribeCluster's answer."""

import copy
from typing import Any

import pytest

from ops.drift.cluster import differences

ROLE = {"Fn::GetAtt": ["Role", "Arn"]}
SCRIPTS = {"Fn::Join": ["", ["s3://", {"Ref": "Bucket"}, "/abc/"]]}
DEPLOYED: dict[str, Any] = {
    "ClusterName": "dev",
    "NodeRecovery": "Automatic",
    "InstanceGroups": [
        {
            "InstanceGroupName": "workers",
            "InstanceType": "ml.g5.8xlarge",
            "InstanceCount": 2,
            "ExecutionRole": ROLE,
            "LifeCycleConfig": {"SourceS3Uri": SCRIPTS, "OnCreate": "main.sh"},
            "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}],
            "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
            "KubernetesConfig": {"Labels": {"team": "a"}},
        },
        {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1},
    ],
    "Orchestrator": {"Slurm": "{}"},
    "Tags": [{"Key": "project", "Value": "rayhp"}],
}
LIVE: dict[str, Any] = {
    "ClusterName": "dev",
    "ClusterStatus": "InService",
    "NodeRecovery": "Automatic",
    "InstanceGroups": [
        {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge", "CurrentCount": 0, "TargetCount": 1},
        {
            "InstanceGroupName": "workers",
            "InstanceType": "ml.g5.8xlarge",
            "CurrentCount": 1,
            "TargetCount": 2,
            "ExecutionRole": "arn:aws:iam::111122223333:role/a",
            "LifeCycleConfig": {"SourceS3Uri": "s3://bucket/abc/", "OnCreate": "main.sh"},
            "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500, "RootVolume": False}}],
            "OnStartDeepHealthChecks": ["InstanceConnectivity", "InstanceStress"],
            "KubernetesConfig": {"CurrentLabels": {}, "DesiredLabels": {"team": "a"}},
        },
    ],
    "Orchestrator": {"Slurm": {}},
    "Tags": [{"Key": "aws:cloudformation:stack-name", "Value": "s"}, {"Key": "project", "Value": "rayhp"}],
}


def test_states_orders_defaults_and_references_are_no_drift() -> None:
    assert list(differences(DEPLOYED, LIVE)) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["NodeRecovery"], "None", "NodeRecovery is None, deployed Automatic"),
        (["InstanceGroups", 1, "TargetCount"], 4, "InstanceGroups[workers].InstanceCount is 4, deployed 2"),
        (
            ["InstanceGroups", 1, "LifeCycleConfig", "SourceS3Uri"],
            "s3://bucket/other/",
            "InstanceGroups[workers].LifeCycleConfig.SourceS3Uri is s3://bucket/other/, "
            "which the deployed template excludes",
        ),
        (
            ["InstanceGroups", 1, "OnStartDeepHealthChecks"],
            [],
            "InstanceGroups[workers].OnStartDeepHealthChecks is [], "
            "deployed ['InstanceStress', 'InstanceConnectivity']",
        ),
        (
            ["InstanceGroups", 1, "KubernetesConfig", "DesiredLabels", "team"],
            "b",
            "InstanceGroups[workers].KubernetesConfig.Labels.team is b, deployed a",
        ),
        (
            ["InstanceGroups", 1, "InstanceStorageConfigs"],
            [{"EbsVolumeConfig": {"VolumeSizeInGB": 100}}],
            "InstanceGroups[workers].InstanceStorageConfigs is [{'EbsVolumeConfig': {'VolumeSizeInGB': 100}}], "
            "deployed [{'EbsVolumeConfig': {'VolumeSizeInGB': 500}}]",
        ),
        (["InstanceGroups", 0, "InstanceGroupName"], "new", "InstanceGroups[head] is deleted"),
        (["Tags"], [], "Tags[project] is deleted"),
    ],
)
def test_change_by_hand_is_named(path: list[Any], value: object, said: str) -> None:
    live = copy.deepcopy(LIVE)
    *within, last = path
    target: Any = live
    for step in within:
        target = target[step]
    target[last] = value
    assert next(differences(DEPLOYED, live)) == said


def test_added_group_is_drift_until_it_is_being_deleted() -> None:
    added = {"InstanceGroupName": "extra", "TargetCount": 1, "Status": "InService"}
    live = LIVE | {"InstanceGroups": [*LIVE["InstanceGroups"], added]}
    assert list(differences(DEPLOYED, live)) == ["instance group extra was not deployed"]
    added["Status"] = "Deleting"
    assert list(differences(DEPLOYED, live)) == []
