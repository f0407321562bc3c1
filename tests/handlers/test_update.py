"""Custom::HyperPodCluster, Update: a test per row of the table (`test_update_table` says which)."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.hyperpod import views
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.model import SimulatedCluster
from handlers.hyperpod_cluster.changes import update_request
from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG, added_groups
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG
from handlers.hyperpod_cluster.record import BEFORE_TAG, DEPLOYED_TAG
from tests.handlers.support.cloudformation import CloudFormation
from tests.handlers.support.framework import Properties, Response

Change = Callable[[Properties], Any]
CONFIRMED_WORKERS = {"ConfirmGroupRemoval": ["worker-group-1"]}
RENAMED = {"InstanceGroupName": "workers-2"}
CHANGING = {"CreateCluster", "UpdateCluster", "DeleteCluster", "AddTags", "DeleteTags"}


@pytest.fixture
def created(cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench) -> Properties:
    """Return the properties of a cluster whose nodes all run."""
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=120)
    cloudformation.calls.clear()
    return properties


@pytest.fixture
def change(cloudformation: CloudFormation, created: Properties) -> Callable[[Change], Response]:
    """Apply a change to the properties, send the update, and return the answer."""

    def changed(edit: Change) -> Response:
        new = deepcopy(created)
        edit(new)
        return cloudformation.update("ml-cluster", new, created)

    return changed


def groups_of(sagemaker: Any) -> dict[str, dict[str, Any]]:
    cluster = sagemaker.describe_cluster(ClusterName="ml-cluster")
    return {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}


def changing(calls: list[str]) -> list[str]:
    return [call for call in calls if call in CHANGING]


def test_count_is_changed_by_one_update(
    change: Callable[[Change], Response], cloudformation: CloudFormation, sagemaker: Any
) -> None:
    response = change(lambda new: new["InstanceGroups"][1].update(InstanceCount=3))
    assert (response.succeeded, response.physical_id) == (True, "ml-cluster")
    assert response.data["ClusterName"] == "ml-cluster"
    assert changing(cloudformation.calls) == ["UpdateCluster"]
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 3


def test_every_group_goes_with_its_threads_per_core(
    change: Callable[[Change], Response], sagemaker: Any, created: Properties
) -> None:
    change(lambda new: new["InstanceGroups"][0].update(InstanceCount=2))
    assert {group["ThreadsPerCore"] for group in groups_of(sagemaker).values()} == {1}


def test_equal_cluster_is_success_without_a_call_that_changes(
    cloudformation: CloudFormation, created: Properties
) -> None:
    assert cloudformation.update("ml-cluster", created, created).succeeded
    assert changing(cloudformation.calls) == []


TAINT = {"Key": "gpu", "Value": "yes", "Effect": "NoSchedule"}
OTHER_TAINT = TAINT | {"Key": "team"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"Labels": {"a": "1", "b": "2"}}, {"Labels": {"a": "1"}}),
        ({"Labels": {"a": "1"}, "Taints": [TAINT]}, {"Labels": {"a": "1"}}),
        ({"Labels": {"a": "1"}, "Taints": [TAINT]}, {"Taints": [TAINT]}),
        ({"Taints": [TAINT, OTHER_TAINT]}, {"Taints": [TAINT]}),
        ({"Labels": {"a": "1"}}, None),
    ],
    ids=["a label", "all taints", "all labels", "a taint", "everything"],
)
def test_label_or_taint_that_is_taken_away_goes(
    cloudformation: CloudFormation,
    properties: Properties,
    sagemaker: Any,
    before: dict[str, Any],
    after: dict[str, Any] | None,
) -> None:
    old, new = deepcopy(properties), deepcopy(properties)
    old["InstanceGroups"][1]["KubernetesConfig"] = before
    if after:
        new["InstanceGroups"][1]["KubernetesConfig"] = after
    assert cloudformation.create(old).succeeded
    cloudformation.bench.advance(minutes=240)
    cloudformation.calls.clear()
    assert cloudformation.update("ml-cluster", new, old).succeeded
    assert changing(cloudformation.calls) == ["UpdateCluster"]
    shown = groups_of(sagemaker)["worker-group-1"].get("KubernetesConfig", {})
    assert {key: shown.get(f"Desired{key}") or None for key in ("Labels", "Taints")} == {
        key: (after or {}).get(key) for key in ("Labels", "Taints")
    }


TAKEN_AWAY: list[dict[str, Any]] = [
    {"KubernetesConfig": {"Labels": {"a": "1"}}},
    {"KubernetesConfig": {"Taints": [TAINT]}},
    {"OnStartDeepHealthChecks": ["InstanceStress"]},
    {"MinInstanceCount": 1},
    {"ImageId": "ami-0123456789abcdef0"},
    {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 700}}]},
]


@pytest.fixture
def with_fields(cloudformation: CloudFormation, created: Properties) -> Callable[[dict[str, Any]], Properties]:
    """Give the workers these fields, and the cluster no recovery; return the properties."""

    def given(fields: dict[str, Any]) -> Properties:
        old = deepcopy(created) | {"NodeRecovery": "None"}
        old["InstanceGroups"][1] |= fields
        assert cloudformation.update("ml-cluster", old, created).succeeded
        cloudformation.bench.advance(minutes=240)
        cloudformation.calls.clear()
        return old

    return given


def without(fields: dict[str, Any], old: Properties) -> Properties:
    new = deepcopy(old)
    for key in fields:
        del new["InstanceGroups"][1][key]
    return new


@pytest.mark.parametrize("fields", TAKEN_AWAY, ids=str)
def test_removal_of_a_field_that_the_service_takes_back_is_no_success(
    cloudformation: CloudFormation,
    with_fields: Callable[[dict[str, Any]], Properties],
    bench: HyperPodBench,
    fields: dict[str, Any],
) -> None:
    old = with_fields(fields)
    bench.fault(fail_update="No capacity.")
    response = cloudformation.update("ml-cluster", without(fields, old), old)
    assert response.reason.startswith("HyperPod cluster ml-cluster accepted the update but did not keep it: ")


def test_removal_of_a_field_of_the_cluster_that_the_service_takes_back_is_no_success(
    cloudformation: CloudFormation, with_fields: Callable[[dict[str, Any]], Properties], bench: HyperPodBench
) -> None:
    old = with_fields({})
    bench.fault(fail_update="No capacity.")
    new = {key: value for key, value in old.items() if key != "NodeRecovery"}
    response = cloudformation.update("ml-cluster", new, old)
    assert response.reason.startswith("HyperPod cluster ml-cluster accepted the update but did not keep it: ")


def test_removal_of_a_group_that_the_service_takes_back_is_no_success(
    change: Callable[[Change], Response], bench: HyperPodBench
) -> None:
    bench.fault(fail_update="No capacity.")
    response = change(lambda new: (new["InstanceGroups"].pop(), new.update(CONFIRMED_WORKERS)))
    assert response.reason.startswith("HyperPod cluster ml-cluster accepted the update but did not keep it: ")


@pytest.mark.parametrize("fields", TAKEN_AWAY, ids=str)
def test_removal_of_a_field_while_the_cluster_is_busy_is_sent_once(
    cloudformation: CloudFormation,
    with_fields: Callable[[dict[str, Any]], Properties],
    sagemaker: Any,
    fields: dict[str, Any],
) -> None:
    old = with_fields(fields)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    response = cloudformation.update("ml-cluster", without(fields, old), old)
    assert response.succeeded, response.reason
    # One call that the busy cluster refused, and one that was accepted.
    assert cloudformation.calls.count("UpdateCluster") == 2


@pytest.mark.parametrize("fields", [*TAKEN_AWAY[:2], *TAKEN_AWAY[3:]], ids=str)
def test_rollback_that_waits_for_deep_checks_takes_a_field_away_by_one_update(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, fields: dict[str, Any]
) -> None:
    failed = deepcopy(created)
    failed["InstanceGroups"][1] |= fields
    failed["InstanceGroups"].append(
        bench.group("checked", "ml.g5.2xlarge", 1, OnStartDeepHealthChecks=["InstanceStress"])
    )
    assert cloudformation.update("ml-cluster", failed, created).succeeded
    bench.advance(minutes=40)
    cloudformation.calls.clear()
    response = cloudformation.roll_back("ml-cluster", created, failed)
    assert response.succeeded, response.reason
    assert cloudformation.calls.count("UpdateCluster") == 1


def test_removal_is_said_where_the_api_has_a_word_for_it() -> None:
    before = {
        "ImageId": "ami-0123456789abcdef0",
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": "500"}}],
        "KubernetesConfig": {"Labels": {"a": "1"}, "Taints": [TAINT]},
        "MinInstanceCount": "1",
        "OnStartDeepHealthChecks": ["InstanceStress"],
    }
    group = {"InstanceGroupName": "workers", "InstanceCount": 2}
    live = {"InstanceGroupName": "workers", "TargetCount": 2, "DesiredImageId": before["ImageId"]}
    request = update_request(
        {"ClusterName": "ml-cluster", "InstanceGroups": [group]},
        {"ClusterName": "ml-cluster", "InstanceGroups": [live]},
        {"InstanceGroups": [group | before]},
    )
    assert request is not None
    assert request["InstanceGroups"] == [
        group
        | {"ImageId": "default", "InstanceStorageConfigs": [], "MinInstanceCount": 0}
        | {"KubernetesConfig": {"Labels": {}, "Taints": []}}
    ]


def test_one_of_two_labels_that_stays_is_no_success() -> None:
    """The template removed all of them, and the service kept one."""
    group, desired = {"InstanceGroupName": "workers"}, {"ClusterName": "ml-cluster"}
    before = [group | {"KubernetesConfig": {"Labels": {"a": "1", "b": "2"}}}]
    live = [group | {"KubernetesConfig": {"DesiredLabels": {"b": "2"}}}]
    assert update_request(
        desired | {"InstanceGroups": [group]}, desired | {"InstanceGroups": live}, {"InstanceGroups": before}
    )


def test_order_in_which_the_service_tells_taints_is_no_difference() -> None:
    group = {"InstanceGroupName": "workers", "KubernetesConfig": {"Taints": [TAINT, OTHER_TAINT]}}
    told = {"InstanceGroupName": "workers", "KubernetesConfig": {"DesiredTaints": [OTHER_TAINT, TAINT]}}
    desired = {"ClusterName": "ml-cluster", "InstanceGroups": [group]}
    live = {"ClusterName": "ml-cluster", "InstanceGroups": [told]}
    assert update_request(desired, live, desired) is None


def test_new_group_is_added_in_place(
    change: Callable[[Change], Response], bench: HyperPodBench, sagemaker: Any
) -> None:
    assert change(lambda new: new["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 1))).succeeded
    assert groups_of(sagemaker)["more"]["TargetCount"] == 1


def test_missing_group_is_deleted_with_its_nodes(
    change: Callable[[Change], Response], bench: HyperPodBench, sagemaker: Any
) -> None:
    assert change(lambda new: (new["InstanceGroups"].pop(), new.update(CONFIRMED_WORKERS))).succeeded
    bench.advance(minutes=60)
    assert list(groups_of(sagemaker)) == ["head-group"]


def test_renamed_group_is_one_update_that_adds_and_deletes(
    change: Callable[[Change], Response], cloudformation: CloudFormation, bench: HyperPodBench, sagemaker: Any
) -> None:
    assert change(lambda new: (new["InstanceGroups"][1].update(RENAMED), new.update(CONFIRMED_WORKERS))).succeeded
    assert changing(cloudformation.calls) == ["UpdateCluster"]
    bench.advance(minutes=120)
    assert list(groups_of(sagemaker)) == ["head-group", "workers-2"]


@pytest.mark.parametrize(
    "fields",
    [
        {"LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/eks/v2", "OnCreate": "on_create.sh"}},
        {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}]},
        {"OnStartDeepHealthChecks": ["InstanceStress"]},
        {"MinInstanceCount": 1},
        {"KubernetesConfig": {"Labels": {"team": "vision"}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_other_field_of_a_group_is_changed_in_place(
    change: Callable[[Change], Response], bench: HyperPodBench, sagemaker: Any, fields: dict[str, Any]
) -> None:
    bench.client("s3").put_object(Bucket="sagemaker-scripts", Key="eks/v2/on_create.sh", Body=b"#!/bin/bash\n")
    assert change(lambda new: new["InstanceGroups"][1].update(fields)).succeeded
    shown = groups_of(sagemaker)["worker-group-1"]
    # DescribeCluster has other names for a minimum and for labels that are not applied yet.
    shown |= {"MinInstanceCount": shown.get("MinCount")}
    shown |= {"KubernetesConfig": {"Labels": shown.get("KubernetesConfig", {}).get("DesiredLabels")}}
    assert fields.items() <= shown.items()


def test_field_of_a_group_that_is_taken_away_is_noticed(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    old = deepcopy(properties)
    old["InstanceGroups"][1]["OnStartDeepHealthChecks"] = ["InstanceStress"]
    cloudformation.create(old)
    bench.advance(minutes=240)
    cloudformation.update("ml-cluster", properties, old)
    assert changing(cloudformation.calls) == ["CreateCluster", "UpdateCluster"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("InstanceType", "ml.g5.2xlarge"),
        ("ExecutionRole", "arn:aws:iam::111122223333:role/other"),
        ("ThreadsPerCore", 2),
        ("OverrideVpcConfig", {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}),
        ("CapacityRequirements", {"Spot": {}}),
    ],
)
def test_fixed_field_of_a_group_is_refused_with_advice(
    change: Callable[[Change], Response], cloudformation: CloudFormation, field: str, value: Any
) -> None:
    response = change(lambda new: new["InstanceGroups"][1].update({field: value}))
    assert not response.succeeded
    advice, values = response.reason.splitlines()
    assert advice == (
        f"{field} of instance group worker-group-1 cannot be changed: "
        "give the group another name, which makes new nodes and removes the old ones"
    )
    assert values.startswith("It is ")
    assert changing(cloudformation.calls) == []


@pytest.mark.parametrize("change", ["added", "removed", "another"])
def test_key_of_a_volume_is_refused_with_advice(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, change: str
) -> None:
    """SageMaker would refuse it in the middle of an update of other groups."""
    keys = {"added": (None, bench.key()), "removed": (bench.key(), None), "another": (bench.key(), bench.key())}
    old, new = deepcopy(properties), deepcopy(properties)
    for given, key in zip((old, new), keys[change], strict=True):
        if key:
            root = {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": key}}
            given["InstanceGroups"][1]["InstanceStorageConfigs"].append(root)
    assert cloudformation.create(old).succeeded
    bench.advance(minutes=60)
    response = cloudformation.update("ml-cluster", new, old)
    assert not response.succeeded
    assert response.reason.startswith(
        "VolumeKmsKeyId of instance group worker-group-1 cannot be changed: give the group another name"
    )
    assert changing(cloudformation.calls) == ["CreateCluster"]


def test_volume_grows_while_its_key_stays(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    [volume] = properties["InstanceGroups"][1]["InstanceStorageConfigs"]
    volume["EbsVolumeConfig"]["VolumeKmsKeyId"] = bench.key()
    old = deepcopy(properties)
    cloudformation.create(old)
    bench.advance(minutes=60)
    volume["EbsVolumeConfig"]["VolumeSizeInGB"] = 900
    assert cloudformation.update("ml-cluster", properties, old).succeeded


@pytest.mark.parametrize(
    "fields",
    [
        {"ClusterName": "other"},
        {"VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}},
        {"Orchestrator": {"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:111122223333:cluster/other"}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_fixed_field_of_the_cluster_is_refused_with_advice(
    change: Callable[[Change], Response], cloudformation: CloudFormation, fields: dict[str, Any]
) -> None:
    response = change(lambda new: new.update(fields))
    assert response.physical_id == "ml-cluster"
    advice, values = response.reason.splitlines()
    assert advice == (
        f"{next(iter(fields))} of HyperPod cluster ml-cluster cannot be changed: "
        "destroy this stack and what depends on it, then deploy again"
    )
    assert values.endswith(f" and would be {next(iter(fields.values()))}.")
    assert changing(cloudformation.calls) == []


def test_node_recovery_is_changed_in_place_and_back_by_leaving_it_out(
    change: Callable[[Change], Response], cloudformation: CloudFormation, sagemaker: Any, created: Properties
) -> None:
    off = deepcopy(created) | {"NodeRecovery": "None"}
    assert change(lambda new: new.update(off)).succeeded
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["NodeRecovery"] == "None"
    without = {key: value for key, value in off.items() if key != "NodeRecovery"}
    assert cloudformation.update("ml-cluster", without, off).succeeded
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["NodeRecovery"] == "Automatic"


def test_memory_tier_is_switched_on_sized_and_switched_off_in_place(
    change: Callable[[Change], Response], cloudformation: CloudFormation, sagemaker: Any, created: Properties
) -> None:
    def found() -> Any:
        return sagemaker.describe_cluster(ClusterName="ml-cluster").get("TieredStorageConfig")

    # CloudFormation sends numbers as text.
    on = created | {"TieredStorageConfig": {"Mode": "Enable", "InstanceMemoryAllocationPercentage": "20"}}
    assert change(lambda new: new.update(on)).succeeded
    assert found() == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}
    more = created | {"TieredStorageConfig": {"Mode": "Enable", "InstanceMemoryAllocationPercentage": "30"}}
    assert cloudformation.update("ml-cluster", more, on).succeeded
    assert found()["InstanceMemoryAllocationPercentage"] == 30
    assert cloudformation.update("ml-cluster", created, more).succeeded
    assert found()["Mode"] == "Disable"


def test_cluster_role_is_set_in_place_and_cannot_be_taken_away(
    change: Callable[[Change], Response], cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    role = bench.role("scaler", service="hyperpod.sagemaker.amazonaws.com")
    assert change(lambda new: new.update(ClusterRole=role)).succeeded
    response = cloudformation.update("ml-cluster", created, created | {"ClusterRole": role})
    assert response.reason == "ClusterRole cannot be taken away from a HyperPod cluster once it is set"


@pytest.mark.parametrize("field", ["AutoScaling", "TieredStorageConfig"])
def test_scaler_and_tiered_storage_are_disabled_by_leaving_them_out(field: str) -> None:
    on, off = {"Mode": "Enable"}, {"Mode": "Disable"}
    desired = {"ClusterName": "ml-cluster", "InstanceGroups": []}
    live = desired | {"VpcConfig": None, "Orchestrator": None}
    assert update_request(desired | {field: on}, live, {}) == desired | {field: on}
    assert update_request(desired, live | {field: on}, {field: on}) == desired | {field: off}
    assert update_request(desired, live | {field: off}, {field: on}) is None


@pytest.mark.parametrize("edit", ["taken away", "renamed"])
def test_removal_of_a_group_is_refused_until_it_is_confirmed(
    change: Callable[[Change], Response], cloudformation: CloudFormation, edit: str
) -> None:
    def remove(new: Properties) -> object:
        new["ConfirmGroupRemoval"] = ["head-group"]
        return new["InstanceGroups"].pop() if edit == "taken away" else new["InstanceGroups"][1].update(RENAMED)

    response = change(remove)
    assert response.reason == (
        "Instance group worker-group-1 of HyperPod cluster ml-cluster would be removed with its nodes: "
        "list it under hyperpod.confirm_group_removal in the environment's file, or keep it in instance_groups"
    )
    assert changing(cloudformation.calls) == []
    # The note names the renamed group: a rollback would remove it.
    [cluster] = cloudformation.bench.hyperpod.world.clusters.values()
    assert added_groups(cluster.tag_values) == ({"workers-2": 2} if edit == "renamed" else {})


RAISED = (
    "Instance group worker-group-1 of HyperPod cluster ml-cluster has 4 instances, raised outside this stack, and the "
    "update would remove nodes: write count: 4 into the environment's file, or lower the group with `ops scale`; then "
)


@pytest.fixture
def raised(created: Properties, bench: HyperPodBench, sagemaker: Any) -> Properties:
    """Return the properties of a cluster whose workers somebody raised from 2 to 4."""
    sagemaker.update_cluster(
        ClusterName="ml-cluster", InstanceGroups=[bench.group("worker-group-1", "ml.p5.48xlarge", 4)]
    )
    bench.advance(60)
    return created


@pytest.mark.parametrize("count", [1, 2, 3])
def test_count_that_was_raised_by_hand_is_not_lowered_without_consent(
    cloudformation: CloudFormation, raised: Properties, bench: HyperPodBench, sagemaker: Any, count: int
) -> None:
    """The same holds if the template lowers its own count, or changes only a tag."""
    new = deepcopy(raised) | {"Tags": [{"Key": "team", "Value": "vision"}]}
    new["InstanceGroups"][1]["InstanceCount"] = count
    response = cloudformation.update("ml-cluster", new, raised)
    assert " ".join(response.reason.replace("…", "").split()).startswith(RAISED)
    assert cloudformation.roll_back("ml-cluster", raised, new).succeeded
    bench.advance(60)
    assert groups_of(sagemaker)["worker-group-1"]["CurrentCount"] == 4


@pytest.mark.parametrize("count", [4, 5])
def test_count_that_was_raised_by_hand_is_taken_over_by_the_template(
    cloudformation: CloudFormation, raised: Properties, sagemaker: Any, count: int
) -> None:
    new = deepcopy(raised)
    new["InstanceGroups"][1]["InstanceCount"] = count
    assert cloudformation.update("ml-cluster", new, raised).succeeded
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == count


def test_group_without_nodes_that_somebody_deleted_is_made_again(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    properties["InstanceGroups"][1]["InstanceCount"] = 0
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=120)
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroupsToDelete=["worker-group-1"])
    bench.advance(60)
    assert groups_of(sagemaker).keys() == {"head-group"}
    response = cloudformation.update("ml-cluster", properties | {"NodeRecovery": "None"}, properties)
    assert response.succeeded, response.reason
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 0


def test_rollback_keeps_a_count_that_was_raised_by_hand_whatever_else_it_changes(
    cloudformation: CloudFormation, raised: Properties, sagemaker: Any
) -> None:
    failed = deepcopy(raised) | {"NodeRecovery": "None"}
    sagemaker.update_cluster(ClusterName="ml-cluster", NodeRecovery="None")
    cloudformation.bench.advance(60)
    assert cloudformation.roll_back("ml-cluster", raised, failed).succeeded
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 4
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["NodeRecovery"] == "Automatic"


@pytest.fixture
def autoscaled(created: Properties, bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Return the cluster with Karpenter enabled outside the stack; the simulator has no Karpenter of its own."""
    monkeypatch.setattr(views, "ECHOED", (*views.ECHOED, "AutoScaling"))
    [cluster] = bench.hyperpod.world.clusters.values()
    cluster.request["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter", "Status": "InService"}
    return cluster


@pytest.mark.parametrize("live", [0, 1, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_counts_of_an_autoscaled_cluster_are_karpenters(
    cloudformation: CloudFormation,
    created: Properties,
    autoscaled: SimulatedCluster,
    live: int,
    count: int,
) -> None:
    """The template's count counts where the template changes it, and never below what Karpenter has added."""
    autoscaled.groups["worker-group-1"].target = live
    new = deepcopy(created) | {"NodeRecovery": "None"}
    new["InstanceGroups"][1]["InstanceCount"] = count
    assert cloudformation.update("ml-cluster", new, created).succeeded
    expected = live if count == 2 or live > max(2, count) else count
    assert autoscaled.groups["worker-group-1"].target == expected
    assert autoscaled.request["NodeRecovery"] == "None"
    autoscaled.groups["worker-group-1"].target = live + 4
    assert cloudformation.roll_back("ml-cluster", created, new).succeeded
    assert autoscaled.groups["worker-group-1"].target == live + 4


def test_update_that_switches_autoscaling_off_needs_the_counts_that_it_leaves(
    cloudformation: CloudFormation, created: Properties, autoscaled: SimulatedCluster
) -> None:
    autoscaled.groups["worker-group-1"].target = 4
    old = created | {"AutoScaling": {"Mode": "Enable", "AutoScalerType": "Karpenter"}}
    response = cloudformation.update("ml-cluster", created, old)
    assert " ".join(response.reason.replace("…", "").split()).startswith(RAISED)


def test_count_that_the_template_lowers_is_lowered(change: Callable[[Change], Response], sagemaker: Any) -> None:
    assert change(lambda new: new["InstanceGroups"][1].update(InstanceCount=1)).succeeded
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 1


def test_confirmation_alone_changes_nothing(
    change: Callable[[Change], Response], cloudformation: CloudFormation
) -> None:
    assert change(lambda new: new.update(ConfirmGroupRemoval=["worker-group-1"])).succeeded
    assert changing(cloudformation.calls) == []


def test_tags_cannot_give_the_cluster_to_another_stack(
    change: Callable[[Change], Response], cloudformation: CloudFormation
) -> None:
    assert change(lambda new: new["Tags"].append({"Key": STACK_TAG, "Value": "another"})).succeeded
    assert changing(cloudformation.calls) == []
    assert cloudformation.delete("ml-cluster").succeeded
    assert not cloudformation.bench.hyperpod.world.clusters


def test_provisioning_mode_cannot_be_taken_away(change: Callable[[Change], Response]) -> None:
    response = change(lambda new: new.pop("NodeProvisioningMode"))
    assert response.reason == "NodeProvisioningMode cannot be taken away from a HyperPod cluster once it is set"


def test_tags_are_changed_by_the_calls_for_tags(
    change: Callable[[Change], Response], cloudformation: CloudFormation, sagemaker: Any
) -> None:
    response = change(lambda new: new.update(Tags=[{"Key": "team", "Value": "vision"}]))
    tags = {tag["Key"] for tag in sagemaker.list_tags(ResourceArn=response.data["ClusterArn"])["Tags"]}
    assert changing(cloudformation.calls) == ["AddTags", "DeleteTags"]
    assert tags == {"team", STACK_TAG, RESOURCE_TAG, REQUESTS_TAG, DEPLOYED_TAG, BEFORE_TAG}


def test_update_is_refused_while_nodes_are_in_deep_health_checks(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    properties["InstanceGroups"][1]["OnStartDeepHealthChecks"] = ["InstanceStress"]
    cloudformation.create(properties)
    bench.advance(minutes=30)
    new = deepcopy(properties)
    new["InstanceGroups"][1]["InstanceCount"] = 4
    response = cloudformation.update("ml-cluster", new, properties)
    assert response.reason == (
        "HyperPod cluster ml-cluster takes no update while 2 of its nodes are in deep health checks "
        "(worker-group-1): wait until they have passed (ops wait), then deploy again"
    )
    # The rollback then requests the existing state.
    assert cloudformation.update("ml-cluster", properties, new).succeeded


def test_update_of_a_busy_cluster_is_sent_when_it_is_free(
    change: Callable[[Change], Response], cloudformation: CloudFormation, sagemaker: Any
) -> None:
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    response = change(lambda new: new["InstanceGroups"][1].update(InstanceCount=3))
    assert response.succeeded
    assert response.polls > 100
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 3
    # One call that was refused, and one that was accepted.
    assert changing(cloudformation.calls) == ["UpdateCluster", "UpdateCluster"]


def test_tag_only_update_that_meets_another_update_leaves_the_cluster_as_desired(
    change: Callable[[Change], Response], cloudformation: CloudFormation, bench: HyperPodBench, sagemaker: Any
) -> None:
    """The cluster is as desired when the request arrives; a running update changes it while the request waits."""
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    fewer = [bench.group("worker-group-1", "ml.p5.48xlarge", 1)]
    pauses = cloudformation.framework.pauses

    def update_by_hand() -> None:
        with suppress(ClientError):
            sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=fewer)
            pauses.clear()

    pauses.append(update_by_hand)
    response = change(lambda new: new.update(Tags=[{"Key": "team", "Value": "vision"}]))
    assert response.succeeded, response.reason
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 2


def test_rollback_restores_what_an_accepted_update_changed(
    change: Callable[[Change], Response], cloudformation: CloudFormation, created: Properties, sagemaker: Any
) -> None:
    grown = deepcopy(created)
    grown["InstanceGroups"][1]["InstanceCount"] = 5
    assert change(lambda new: new.update(grown)).succeeded
    assert cloudformation.update("ml-cluster", created, grown).succeeded
    assert groups_of(sagemaker)["worker-group-1"]["TargetCount"] == 2


def test_update_that_the_service_takes_back_is_a_failure(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    del properties["NodeProvisioningMode"]
    assert cloudformation.create(properties).succeeded
    bench.fault(capacity={"ml.p5.48xlarge": 2})
    new = deepcopy(properties)
    new["InstanceGroups"][1]["InstanceCount"] = 4
    response = cloudformation.update("ml-cluster", new, properties)
    assert response.reason.splitlines()[0].startswith(
        "HyperPod cluster ml-cluster accepted the update but did not keep it: "
    )


def test_cluster_that_was_deleted_behind_the_stack_is_told(
    change: Callable[[Change], Response], bench: HyperPodBench, sagemaker: Any
) -> None:
    sagemaker.delete_cluster(ClusterName="ml-cluster")
    bench.advance(minutes=60)
    response = change(lambda new: new["InstanceGroups"][1].update(InstanceCount=3))
    assert response.reason.startswith("HyperPod cluster ml-cluster does not exist any more: destroy this stack")


def test_cluster_that_goes_while_its_update_looks_at_its_tags_is_told(
    change: Callable[[Change], Response], cloudformation: CloudFormation, bench: HyperPodBench
) -> None:
    def vanish(called: str, carried_out: bool) -> None:
        if called == "ListTags" and not carried_out:
            bench.hyperpod.world.clusters.clear()

    cloudformation.framework.interruptions.append(vanish)
    response = change(lambda new: new["InstanceGroups"][1].update(InstanceCount=3))
    assert response.reason.startswith("HyperPod cluster ml-cluster does not exist any more: destroy this stack")


def test_cluster_that_is_made_again_after_it_accepted_the_update_is_told(
    change: Callable[[Change], Response], cloudformation: CloudFormation, bench: HyperPodBench, sagemaker: Any
) -> None:
    def make_again() -> None:
        gone = bench.hyperpod.world.clusters.pop("ml-cluster")
        tags = [{"Key": key, "Value": value} for key, value in gone.tag_values.items()]
        sagemaker.create_cluster(**bench.request(Tags=tags))

    cloudformation.framework.at_pause(1, make_again)
    response = change(lambda new: new["InstanceGroups"][1].update(InstanceCount=3))
    told = (
        "HyperPod cluster ml-cluster is gone: it was deleted after it had accepted the update, and another one has its"
    )
    assert response.reason.startswith(told)


def test_old_properties_in_another_shape_do_not_disturb(cloudformation: CloudFormation, created: Properties) -> None:
    old = {"ClusterName": "ml-cluster", "Config": '{"groups": []}', "InstanceGroups": [{"Name": "x", "Count": 1}]}
    assert cloudformation.update("ml-cluster", created, old).succeeded


def test_field_that_is_taken_away_while_the_cluster_is_busy_goes_when_it_is_free(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    old = deepcopy(properties) | {"NodeRecovery": "None"}
    old["InstanceGroups"][1]["OnStartDeepHealthChecks"] = ["InstanceStress"]
    cloudformation.create(old)
    bench.advance(minutes=240)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    del properties["NodeRecovery"]
    assert cloudformation.update("ml-cluster", properties, old).succeeded
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["NodeRecovery"] == "Automatic"
    assert "OnStartDeepHealthChecks" not in groups_of(sagemaker)["worker-group-1"]
