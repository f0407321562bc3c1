"""The changes of the cluster, its instance groups and its guard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handlers.hyperpod_cluster.consequences import FIXED, FIXED_IN_A_GROUP, UNSUPPORTED
from ops.review.assembly import Pair
from ops.review.model import Change, Danger, Effect
from tests.unit.ops.review.hyperpod.assemblies import (
    Resource,
    assembly,
    asset,
    changed,
    changes_of,
    cluster,
    group,
    network,
    pair,
    ray_cluster,
    teardown,
    upload,
)

HEAD = group("head-group", 1, InstanceType="ml.m5.2xlarge")
WORKERS = group("worker-group-1", 4)
GUARDED = {"Teardown": teardown()}
TAINT = {"Key": "team", "Value": "a", "Effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}


def of(tmp_path: Path, before: Resource | None, after: Resource) -> list[Change]:
    """Return the changes between two clusters of one stack, whose scripts are uploaded."""
    base = None if before is None else {"C": before, "Upload": upload()}
    reviewed = pair(tmp_path, base, {"C": after, "Upload": upload()})
    for side in (reviewed.base, reviewed.head):
        if side:
            asset(side, "v1", on_create="bash main.sh\n", other="echo\n")
    return [change for change in changes_of(reviewed) if not change.resource.startswith("LifecycleScripts")]


def one(tmp_path: Path, before: Resource, after: Resource) -> Change:
    [change] = of(tmp_path, before, after)
    return change


def with_fields(**fields: Any) -> Resource:
    """Return the cluster with the workers' fields; None removes one."""
    workers = {key: value for key, value in (WORKERS | fields).items() if value is not None}
    return cluster(HEAD, workers)


def test_a_raised_count_is_in_place_and_has_its_price(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(InstanceCount=6))
    assert (change.stack, change.resource) == ("hyperpod", "InstanceGroup worker-group-1")
    assert (change.title, change.what) == ("instance group worker-group-1", "count 4 → 6")
    assert (change.effect, set(change.dangers), change.action) == (Effect.IN_PLACE, set(), "")
    assert "2 more ml.p5.48xlarge: US$ 126.59 per hour." in change.reason


def test_a_lowered_count_removes_nodes_and_names_the_drain(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(InstanceCount=3))
    assert (change.what, change.effect, set(change.dangers)) == ("count 4 → 3", Effect.NODES_REMOVED, set())
    assert "1 node removed." in change.reason
    assert "without a drain" in change.reason
    assert "above 4 nodes by hand, the deployment fails" in change.reason
    check, scale = change.action.splitlines()
    assert check.startswith("Operator, before the deployment: check with `ops status --env dev`")
    assert scale.startswith("Operator, before the deployment: run `ops scale worker-group-1 3 --env dev`")


def test_a_count_of_the_same_value_in_another_spelling_is_nothing(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), cluster(WORKERS | {"InstanceCount": "4"}, HEAD))
    assert change.effect is Effect.NOTHING


def test_a_count_that_is_known_only_at_the_deployment_may_remove_nodes(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(InstanceCount={"Ref": "Count"}))
    assert (change.effect, set(change.dangers)) == (Effect.NODES_REMOVED, {Danger.UNKNOWN})


def test_an_unpriced_type_is_said_to_have_no_price(tmp_path: Path) -> None:
    small = group("a", 1, InstanceType="ml.x9.large")
    change = one(tmp_path, cluster(small), cluster(small | {"InstanceCount": 2}))
    assert "1 more ml.x9.large: the table has no price for them." in change.reason


def test_an_added_group_is_created(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD), cluster(HEAD, WORKERS))
    assert (change.what, change.effect) == ("added, 4 x ml.p5.48xlarge", Effect.CREATED)
    assert set(change.dangers) == set()


def test_a_removed_group_is_stopped_until_it_is_confirmed(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), cluster(HEAD))
    assert (change.what, change.effect) == ("removed, 4 x ml.p5.48xlarge", Effect.NODES_REMOVED)
    assert (set(change.dangers), change.confirmed_by) == ({Danger.GROUP_REMOVED}, "")
    assert change.fails_unless == "`hyperpod.confirm_group_removal` lists worker-group-1"
    assert "deletes the 4 nodes with everything that runs there, and does not drain." in change.reason
    assert change.reason.endswith("No RayCluster selects the group.")
    confirm, drain = change.action.splitlines()
    assert confirm.startswith("Author: list worker-group-1 under `hyperpod.confirm_group_removal` in environments/dev")
    assert "`ops scale worker-group-1 0 --env dev`" in drain


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("worker-group-1", "worker-group-1", "RayCluster rayml (head) still selects the group: its pods find no node."),
        ("worker-group-1", "head-group", "RayCluster rayml (head) runs on the group until the ray stack is deployed"),
    ],
)
def test_a_removed_group_names_the_ray_clusters_that_use_it(tmp_path: Path, before: str, after: str, said: str) -> None:
    base = {"C": cluster(HEAD, WORKERS), "Ray": ray_cluster(before)}
    change = next(
        each
        for each in changes_of(pair(tmp_path, base, {"C": cluster(HEAD), "Ray": ray_cluster(after)}))
        if each.resource == "InstanceGroup worker-group-1"
    )
    assert said in change.reason


def test_a_confirmed_removal_names_its_confirmation(tmp_path: Path) -> None:
    after = cluster(HEAD, ConfirmGroupRemoval=["worker-group-1"])
    removed, confirmation = of(tmp_path, cluster(HEAD, WORKERS), after)
    assert (set(removed.dangers), removed.confirmed_by) == ({Danger.GROUP_REMOVED}, "hyperpod.confirm_group_removal")
    assert (removed.fails_unless, "Author" in removed.action) == ("", False)
    assert (confirmation.resource, confirmation.effect) == ("HyperPodCluster", Effect.NOTHING)


def test_the_confirmation_of_another_group_confirms_nothing(tmp_path: Path) -> None:
    removed, _ = of(tmp_path, cluster(HEAD, WORKERS), cluster(HEAD, ConfirmGroupRemoval=["head-group"]))
    assert removed.confirmed_by == ""


def test_a_renamed_group_replaces_its_nodes(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(InstanceGroupName="workers"))
    assert (change.resource, change.what) == (
        "InstanceGroup worker-group-1",
        "renamed to workers, 4 x ml.p5.48xlarge",
    )
    assert (change.effect, set(change.dangers)) == (Effect.NODES_REPLACED, {Danger.GROUP_REMOVED})
    assert "list worker-group-1 under" in change.action
    assert "without capacity for both groups" in change.action


def test_a_renamed_group_that_changes_too_is_removed_and_added(tmp_path: Path) -> None:
    after = with_fields(InstanceGroupName="workers", InstanceType="ml.p5en.48xlarge")
    removed, added = of(tmp_path, cluster(HEAD, WORKERS), after)
    assert (removed.effect, set(removed.dangers)) == (Effect.NODES_REMOVED, {Danger.GROUP_REMOVED})
    assert (added.resource, added.effect) == ("InstanceGroup workers", Effect.CREATED)


@pytest.mark.parametrize(
    ("field", "value", "effect"),
    [
        *((field, {"Ref": "Another"}, Effect.REFUSED) for field in FIXED_IN_A_GROUP),
        ("MinInstanceCount", 2, Effect.IN_PLACE),
        ("InstanceStorageConfigs", [{"EbsVolumeConfig": {"VolumeSizeInGB": 900}}], Effect.IN_PLACE),
        ("OnStartDeepHealthChecks", ["InstanceStress"], Effect.IN_PLACE),
    ],
)
def test_a_field_of_a_group_has_the_effect_of_its_row(tmp_path: Path, field: str, value: Any, effect: Effect) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(**{field: value}))
    assert (change.resource, change.effect) == ("InstanceGroup worker-group-1", effect)
    assert set(change.dangers) == set()
    assert change.what.startswith(f"{field} ")
    assert ("Author: give the group another name" in change.action) is (effect is Effect.REFUSED)


@pytest.mark.parametrize(
    ("before", "after", "field", "effect"),
    [
        (
            {"NodeType": "Compute", "PartitionNames": ["dev"]},
            {"NodeType": "Compute", "PartitionNames": ["vision"]},
            "SlurmConfig.PartitionNames",
            Effect.IN_PLACE,
        ),
        ({"NodeType": "Compute"}, {"NodeType": "Login"}, "SlurmConfig.NodeType", Effect.REFUSED),
        (None, {"NodeType": "Compute"}, "SlurmConfig.NodeType", Effect.REFUSED),
        ({"NodeType": "Compute"}, None, "SlurmConfig.NodeType", Effect.REFUSED),
        ({"NodeType": "Compute"}, "text", "SlurmConfig", Effect.UNKNOWN),
    ],
)
def test_what_nodes_are_in_slurm_never_changes_and_their_partition_may(
    tmp_path: Path, before: Any, after: Any, field: str, effect: Effect
) -> None:
    old, new = (with_fields(**({"SlurmConfig": each} if each else {})) for each in (before, after))
    change = one(tmp_path, old, new)
    assert (change.resource, change.effect) == ("InstanceGroup worker-group-1", effect)
    assert change.what.startswith(f"{field} ")
    assert ("Author: give the group another name" in change.action) is (effect is Effect.REFUSED)


BY_SLURM = {"Slurm": "{}"}
CONTROLLER = group("controller-machine", 1, SlurmConfig={"NodeType": "Controller"})
COMPUTE = group("worker-group-1", 4, SlurmConfig={"NodeType": "Compute", "PartitionNames": ["dev"]})


@pytest.mark.parametrize(
    ("left", "reason", "action"),
    [
        (CONTROLLER, "Slurm starts those with `--requeue` again", "`scontrol update nodename=NODE state=drain"),
        (COMPUTE, "Slurm's queue is lost, unless its state lies on", "wait until `squeue` shows no job"),
    ],
)
def test_a_removed_group_of_slurm_names_slurms_jobs_and_no_command_that_refuses(
    tmp_path: Path, left: dict[str, Any], reason: str, action: str
) -> None:
    change = one(tmp_path, cluster(CONTROLLER, COMPUTE, Orchestrator=BY_SLURM), cluster(left, Orchestrator=BY_SLURM))
    assert change.dangers == {Danger.GROUP_REMOVED}
    assert reason in change.reason
    assert action in change.action
    assert not [word for word in ("Ray", "ops scale") if word in change.reason + change.action]


def test_a_lowered_count_of_slurm_names_no_command_that_refuses(tmp_path: Path) -> None:
    fewer = COMPUTE | {"InstanceCount": 3}
    change = one(
        tmp_path,
        cluster(CONTROLLER, COMPUTE, Orchestrator=BY_SLURM),
        cluster(CONTROLLER, fewer, Orchestrator=BY_SLURM),
    )
    assert change.effect is Effect.NODES_REMOVED
    assert "end the jobs on worker-group-1" in change.action
    assert "ops scale" not in change.reason + change.action


def test_a_volume_is_told_to_concern_new_nodes_only(tmp_path: Path) -> None:
    volume = [{"EbsVolumeConfig": {"VolumeSizeInGB": 900}}]
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(InstanceStorageConfigs=volume))
    assert change.reason == "For nodes created afterwards: a volume is made with its node."


def volumes(key: Any, size: int = 500) -> list[dict[str, Any]]:
    given = {"VolumeKmsKeyId": key} if key else {}
    root = [{"EbsVolumeConfig": {"RootVolume": True, **given}}] if key else []
    return [*root, {"EbsVolumeConfig": {"VolumeSizeInGB": size, **given}}]


@pytest.mark.parametrize(
    ("before", "after"), [(None, "key"), ("key", None), ("key", "another")], ids=["added", "removed", "another"]
)
def test_a_key_of_volumes_is_refused_and_leaves_the_group_as_it_is(
    tmp_path: Path, before: str | None, after: str | None
) -> None:
    old, new = (with_fields(InstanceStorageConfigs=volumes(key)) for key in (before, after))
    change = one(tmp_path, old, new)
    assert (change.resource, change.effect) == ("InstanceGroup worker-group-1", Effect.REFUSED)
    assert change.what.startswith("InstanceStorageConfigs[].EbsVolumeConfig.VolumeKmsKeyId ")
    assert change.reason.startswith("SageMaker cannot change VolumeKmsKeyId in an existing group.")
    assert change.action.startswith("Author: give the group another name")


def test_a_larger_volume_with_another_key_is_both(tmp_path: Path) -> None:
    old, new = (with_fields(InstanceStorageConfigs=each) for each in (volumes("key"), volumes("another", 900)))
    assert [each.effect for each in of(tmp_path, old, new)] == [Effect.REFUSED, Effect.IN_PLACE]


def test_a_larger_volume_with_its_key_is_in_place(tmp_path: Path) -> None:
    old, new = (with_fields(InstanceStorageConfigs=volumes("key", size)) for size in (500, 900))
    assert one(tmp_path, old, new).effect is Effect.IN_PLACE


@pytest.mark.parametrize("unknown", [volumes({"Ref": "Key"}), {"Ref": "Volumes"}, ["text"], [{"EbsVolumeConfig": "x"}]])
def test_volumes_that_are_known_only_at_the_deployment_are_unknown(tmp_path: Path, unknown: Any) -> None:
    change = one(
        tmp_path, with_fields(InstanceStorageConfigs=volumes("key")), with_fields(InstanceStorageConfigs=unknown)
    )
    assert (change.effect, set(change.dangers)) == (Effect.UNKNOWN, {Danger.UNKNOWN})


@pytest.mark.parametrize("field", ["TrainingPlanArn", "ImageId", "NetworkInterface", "NeverHeardOf"])
def test_a_field_of_a_group_without_a_known_effect_is_unknown(tmp_path: Path, field: str) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), with_fields(**{field: "x"}))
    assert (change.effect, set(change.dangers)) == (Effect.UNKNOWN, {Danger.UNKNOWN})


@pytest.mark.parametrize(
    ("properties", "effect"),
    [
        *(({name: {"Ref": "Another"}}, Effect.REFUSED) for name in (*FIXED, *UNSUPPORTED, "ServiceToken")),
        ({"NodeRecovery": None}, Effect.IN_PLACE),
        ({"NodeProvisioningMode": None}, Effect.REFUSED),
        ({"AutoScaling": {"Mode": "Enable"}}, Effect.IN_PLACE),
        ({"TieredStorageConfig": {"Mode": "Enable"}}, Effect.IN_PLACE),
        ({"ClusterRole": "arn:aws:iam::111122223333:role/r"}, Effect.IN_PLACE),
        ({"Tags": [{"Key": "a", "Value": "b"}]}, Effect.IN_PLACE),
        ({"ConfirmGroupRemoval": ["gone"]}, Effect.NOTHING),
        ({"SleepingGroups": {"gpu": 0}}, Effect.NOTHING),
        ({"ServiceTimeout": 3600}, Effect.NOTHING),
    ],
)
def test_a_property_has_the_effect_of_its_row(tmp_path: Path, properties: Mapping[str, Any], effect: Effect) -> None:
    before = cluster(HEAD)
    change = one(tmp_path, before, changed(before, **properties))
    assert (change.resource, change.effect, set(change.dangers)) == ("HyperPodCluster", effect, set())


@pytest.mark.parametrize(
    "properties", [{"NeverHeardOf": 1}, {"NodeProvisioningMode": "Batch"}, {"ConfirmGroupRemoval": {"Ref": "Names"}}]
)
def test_a_property_without_a_row_is_unknown(tmp_path: Path, properties: Mapping[str, Any]) -> None:
    change = one(tmp_path, cluster(HEAD), cluster(HEAD, **properties))
    assert change.effect is Effect.UNKNOWN
    assert Danger.UNKNOWN in change.dangers


@pytest.mark.parametrize("value", ["None", {"Ref": "Recovery"}])
def test_node_recovery_that_is_switched_off_lowers_protection(tmp_path: Path, value: Any) -> None:
    change = one(tmp_path, cluster(HEAD), cluster(HEAD, NodeRecovery=value))
    assert (change.effect, set(change.dangers)) == (Effect.IN_PLACE, {Danger.LOWER_PROTECTION})
    assert one(tmp_path / "back", cluster(HEAD, NodeRecovery="None"), cluster(HEAD)).dangers == set()


@pytest.mark.parametrize(
    ("after", "lower"),
    [
        (["InstanceStress"], True),
        (None, True),
        ({"Ref": "Checks"}, True),
        (["InstanceConnectivity", "InstanceStress"], False),
    ],
)
def test_deep_checks_that_are_removed_lower_protection(tmp_path: Path, after: Any, *, lower: bool) -> None:
    checked = group("checked", OnStartDeepHealthChecks=["InstanceStress", "InstanceConnectivity"])
    less = {**checked, "OnStartDeepHealthChecks": after}
    found = of(tmp_path, cluster(HEAD, checked), cluster(HEAD, less))
    assert {danger for change in found for danger in change.dangers} == ({Danger.LOWER_PROTECTION} if lower else set())


@pytest.mark.parametrize("groups", [{"Fn::If": ["Big", [], []]}, [WORKERS, WORKERS], [{"InstanceCount": 1}]])
def test_groups_without_readable_names_are_unknown(tmp_path: Path, groups: Any) -> None:
    change = one(tmp_path, cluster(HEAD), cluster(InstanceGroups=groups))
    assert (change.effect, set(change.dangers)) == (Effect.UNKNOWN, {Danger.UNKNOWN, Danger.GROUP_REMOVED})


def tainted(
    tmp_path: Path, taint: Mapping[str, str], before: tuple[Any, ...] | None, after: tuple[Any, ...] | None
) -> Change:
    """Return the change of a taint that the workers get; Ray's pods have these tolerations, None: there are no pods."""
    sides = []
    for name, tolerations, settings in (("base", before, None), ("head", after, {"Taints": [taint]})):
        ray = {} if tolerations is None else {"Ray": ray_cluster("worker-group-1", *tolerations)}
        fields = {"KubernetesConfig": settings} if settings else {}
        resources = {"C": cluster(HEAD, WORKERS | fields)}
        sides.append(assembly(tmp_path / name, hyperpod=resources, network=network(), ray=ray))
    [change] = changes_of(Pair("dev", *sides))
    return change


@pytest.mark.parametrize(
    ("taint", "before", "after", "effect"),
    [
        (TAINT, (), (TOLERATION,), Effect.NEEDS_ROLLOUT),
        (TAINT, (), (), Effect.ENDS_JOBS),
        (TAINT, (TOLERATION,), (TOLERATION,), Effect.IN_PLACE),
        (TAINT, (), ({"operator": "Exists"},), Effect.NEEDS_ROLLOUT),
        (TAINT, (TOLERATION | {"value": "b"},), (TOLERATION | {"value": "b"},), Effect.ENDS_JOBS),
        (TAINT, None, None, Effect.IN_PLACE),
        (TAINT | {"Effect": "PreferNoSchedule"}, (), (), Effect.IN_PLACE),
        (TAINT | {"Effect": "NoExecute"}, (), (TOLERATION | {"effect": "NoExecute"},), Effect.ENDS_JOBS),
        (TAINT | {"Effect": "NoExecute"}, None, None, Effect.ENDS_JOBS),
        (
            TAINT | {"Effect": "NoExecute"},
            ({"key": "team", "operator": "Exists", "tolerationSeconds": 30},),
            ({"key": "team", "operator": "Exists", "tolerationSeconds": 30},),
            Effect.ENDS_JOBS,
        ),
    ],
)
def test_a_taint_is_reviewed_by_what_rays_pods_tolerate(
    tmp_path: Path, taint: Any, before: Any, after: Any, effect: Effect
) -> None:
    assert tainted(tmp_path, taint, before, after).effect is effect


def test_a_taint_that_needs_a_rollout_names_it(tmp_path: Path) -> None:
    assert tainted(tmp_path, TAINT, (), (TOLERATION,)).action == (
        "Operator, after the deployment: run `ops rollout CLUSTER --env dev`, which ends its jobs."
    )


@pytest.mark.parametrize(("selected", "effect"), [({"disk": "fast"}, Effect.ENDS_JOBS), ({}, Effect.IN_PLACE)])
def test_a_lost_label_is_reviewed_by_what_rays_pods_select(
    tmp_path: Path, selected: dict[str, str], effect: Effect
) -> None:
    ray = {"Ray": ray_cluster("worker-group-1", **selected)}
    sides = [
        assembly(tmp_path / name, hyperpod={"C": cluster(WORKERS | {"KubernetesConfig": {"Labels": labels}})}, ray=ray)
        for name, labels in (("base", {"disk": "fast", "a": "b"}), ("head", {"a": "b"}))
    ]
    [change] = changes_of(Pair("dev", *sides))
    assert change.effect is effect


def test_an_added_label_is_in_place_and_an_unreadable_one_unknown(tmp_path: Path) -> None:
    added = with_fields(KubernetesConfig={"Labels": {"a": "b"}})
    assert one(tmp_path / "a", cluster(HEAD, WORKERS), added).effect is Effect.IN_PLACE
    unreadable = with_fields(KubernetesConfig={"Labels": {"a": {"Ref": "B"}}})
    assert one(tmp_path / "b", cluster(HEAD, WORKERS), unreadable).effect is Effect.UNKNOWN


def test_a_deleted_cluster_is_lost(tmp_path: Path) -> None:
    [change] = changes_of(pair(tmp_path, {"C": cluster(HEAD)} | GUARDED, GUARDED))
    assert (change.resource, change.effect, set(change.dangers)) == (
        "HyperPodCluster",
        Effect.DELETED,
        {Danger.CLUSTER_LOSS},
    )


def test_a_cluster_of_another_logical_id_is_replaced(tmp_path: Path) -> None:
    gone, new = changes_of(pair(tmp_path, {"C": cluster(HEAD)}, {"Other": cluster(HEAD)}))
    assert (gone.effect, set(gone.dangers)) == (Effect.REPLACED, {Danger.CLUSTER_LOSS})
    assert "The creation fails while the name and the EKS cluster belong to the old one" in gone.reason
    assert new.effect is Effect.CREATED


def test_a_cluster_that_moves_to_another_stack_is_replaced(tmp_path: Path) -> None:
    base = assembly(tmp_path / "base", hyperpod={"C": cluster(HEAD)}, compute={})
    head = assembly(tmp_path / "head", hyperpod={}, compute={"C": cluster(HEAD)})
    gone, new = changes_of(Pair("dev", base, head))
    assert (gone.stack, gone.effect, set(gone.dangers)) == ("hyperpod", Effect.REPLACED, {Danger.CLUSTER_LOSS})
    assert (new.stack, new.effect) == ("compute", Effect.CREATED)


def test_a_cluster_that_is_retained_leaves_its_stack(tmp_path: Path) -> None:
    [change] = changes_of(pair(tmp_path, {"C": cluster(HEAD) | {"DeletionPolicy": "Retain"}}, {}))
    assert (change.effect, set(change.dangers)) == (Effect.KEPT, {Danger.CLUSTER_LOSS})


def test_a_resource_that_becomes_a_guard_is_lost_and_what_it_replaces_is_unknown(tmp_path: Path) -> None:
    gone, created = changes_of(pair(tmp_path, {"C": cluster(HEAD)}, {"C": teardown()}))[:2]
    assert (gone.effect, set(gone.dangers)) == (Effect.REPLACED, {Danger.CLUSTER_LOSS})
    assert created.effect is Effect.CREATED
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {}}
    found = changes_of(pair(tmp_path / "bucket", {"C": bucket}, {"C": teardown()}))
    assert [change.effect for change in found] == [Effect.CREATED, Effect.UNKNOWN]


def test_a_new_environment_creates_a_cluster_without_danger(tmp_path: Path) -> None:
    [change] = of(tmp_path, None, cluster(HEAD, WORKERS))
    assert change.what == "created: 1 x ml.m5.2xlarge, 4 x ml.p5.48xlarge"
    assert (change.effect, set(change.dangers)) == (Effect.CREATED, set())


def test_a_removed_guard_lowers_protection(tmp_path: Path) -> None:
    [change] = changes_of(pair(tmp_path, {"C": cluster(HEAD)} | GUARDED, {"C": cluster(HEAD)}))
    assert (change.resource, change.effect) == ("HyperPodClusterTeardown", Effect.DELETED)
    assert set(change.dangers) == {Danger.LOWER_PROTECTION}


def test_a_guard_of_another_logical_id_leaves_the_cluster_alone(tmp_path: Path) -> None:
    gone, new = changes_of(pair(tmp_path, GUARDED, {"Other": teardown()}))
    assert (gone.effect, set(gone.dangers)) == (Effect.REPLACED, set())
    assert new.effect is Effect.CREATED


def test_a_guard_reads_no_property_but_its_function_cannot_change(tmp_path: Path) -> None:
    after = changed(teardown(), Note="x", ServiceToken={"Fn::GetAtt": ["Other", "Arn"]})
    found = changes_of(pair(tmp_path, GUARDED, {"Teardown": after}))
    assert {change.what.split()[0]: change.effect for change in found} == {
        "ServiceToken": Effect.REFUSED,
        "Note": Effect.NOTHING,
    }


@pytest.mark.parametrize(
    ("attribute", "value", "effect", "dangers"),
    [
        ("Metadata", {"aws:cdk:path": "x"}, Effect.NOTHING, set()),
        ("DependsOn", [], Effect.IN_PLACE, set()),
        ("DeletionPolicy", "Retain", Effect.IN_PLACE, set()),
        ("Condition", "Never", Effect.UNKNOWN, {Danger.UNKNOWN, Danger.CLUSTER_LOSS}),
    ],
)
def test_an_attribute_of_the_cluster_is_reviewed(
    tmp_path: Path, attribute: str, value: Any, effect: Effect, dangers: set[Danger]
) -> None:
    change = one(tmp_path, cluster(HEAD), cluster(HEAD) | {attribute: value})
    assert (change.effect, set(change.dangers)) == (effect, dangers)


def test_a_policy_that_no_longer_retains_lowers_protection(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD) | {"DeletionPolicy": "Retain"}, cluster(HEAD))
    assert set(change.dangers) == {Danger.LOWER_PROTECTION}


def test_a_group_that_may_sleep_keeps_its_nodes_and_brings_its_programs(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS), cluster(HEAD, WORKERS, SleepingGroups={"worker-group-1": 1}))
    assert (change.resource, change.effect, set(change.dangers)) == (
        "InstanceGroup worker-group-1",
        Effect.IN_PLACE,
        set(),
    )
    assert change.what == "may sleep, down to 1 of 4 nodes"
    assert change.reason.startswith("Nothing happens to its nodes now.")
    assert change.reason.endswith("This stack gets the function that sets its count, the ray stack the sleeper.")


def test_a_second_group_that_may_sleep_brings_nothing(tmp_path: Path) -> None:
    other = group("other", 2)
    before = cluster(WORKERS, other, SleepingGroups={"worker-group-1": 1})
    change = one(tmp_path, before, changed(before, SleepingGroups={"worker-group-1": "1", "other": 0}))
    assert (change.title, change.what) == ("instance group other", "may sleep, down to 0 of 2 nodes")
    assert "sleeper" not in change.reason


def test_a_group_that_no_longer_sleeps_gets_its_count_at_a_price(tmp_path: Path) -> None:
    change = one(tmp_path, cluster(HEAD, WORKERS, SleepingGroups={"worker-group-1": 1}), cluster(HEAD, WORKERS))
    assert (change.what, change.effect) == ("no longer sleeps: it gets all of its 4 nodes", Effect.CREATED)
    assert "at most 3 more ml.p5.48xlarge: US$ 189.89 per hour. Nodes that run are not touched." in change.reason
    assert change.reason.endswith("The function that set its count and the sleeper are deleted.")
    assert set(change.dangers) == set()


@pytest.mark.parametrize(
    ("old", "new", "effect", "said"),
    [
        (2, 1, Effect.IN_PLACE, "More of them go while nothing uses the group."),
        (1, 2, Effect.CREATED, "With fewer nodes than 2 it gets all of its 4, until it falls asleep again."),
    ],
)
def test_another_minimum_of_a_group_that_sleeps(tmp_path: Path, old: int, new: int, effect: Effect, said: str) -> None:
    before = cluster(WORKERS, SleepingGroups={"worker-group-1": old})
    change = one(tmp_path, before, changed(before, SleepingGroups={"worker-group-1": new}))
    assert (change.what, change.effect, set(change.dangers)) == (f"sleep: min {old} → {new}", effect, set())
    assert said in change.reason


@pytest.mark.parametrize("sleeping", [{"worker-group-1": {"Ref": "Least"}}, {"Ref": "Groups"}, ["worker-group-1"]])
def test_a_group_that_sleeps_by_what_only_the_deployment_knows_needs_an_approval(tmp_path: Path, sleeping: Any) -> None:
    before = cluster(WORKERS)
    change = one(tmp_path, before, changed(before, SleepingGroups=sleeping))
    assert (change.effect, set(change.dangers)) == (Effect.UNKNOWN, {Danger.UNKNOWN, Danger.JOBS_ENDED})


def test_nodes_of_a_group_that_sleeps_are_not_taken_by_ops_scale(tmp_path: Path) -> None:
    before = cluster(HEAD, WORKERS, SleepingGroups={"worker-group-1": 0})
    lowered = changed(before, InstanceGroups=[HEAD, WORKERS | {"InstanceCount": 3}])
    change = one(tmp_path / "lowered", before, lowered)
    assert "ops scale" not in change.action + change.reason
    assert "wait until the group is asleep, or check with `ops status --env dev` that nothing runs" in change.action
    found = of(tmp_path / "removed", before, cluster(HEAD))
    [removed] = [each for each in found if each.resource == "InstanceGroup worker-group-1"]
    assert "ops scale" not in removed.action
