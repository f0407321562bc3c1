"""The table of consequences: complete, with one answer to each change, and with a test for every row."""

from collections.abc import Callable
from typing import Any

from embedded_account.hyperpod.api.validation import service_model
from handlers.hyperpod_cluster import request
from handlers.hyperpod_cluster.consequences import (
    ANY_FIELD,
    FIXED,
    FIXED_IN_A_GROUP,
    GROUPS,
    IN_PLACE,
    KEY_OF_A_VOLUME,
    NODE_OF_SLURM,
    TABLE,
    UNSUPPORTED,
    ChangeKind,
)
from tests.handlers import test_create, test_sleeping_groups, test_slurm, test_update

ANY = (ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED)
SET = (ChangeKind.ADDED, ChangeKind.CHANGED)
REMOVED = (ChangeKind.REMOVED,)
_OTHER = test_update.test_other_field_of_a_group_is_changed_in_place
_RECOVERY = test_update.test_node_recovery_is_changed_in_place_and_back_by_leaving_it_out
_ROLE = test_update.test_cluster_role_is_set_in_place_and_cannot_be_taken_away
_SWITCHED = test_update.test_scaler_and_tiered_storage_are_disabled_by_leaving_them_out
_MODE = test_update.test_provisioning_mode_cannot_be_taken_away
_SLEEPING = test_sleeping_groups.test_count_of_a_sleeping_group_after_an_update_and_its_rollback
TESTS: dict[tuple[str, tuple[ChangeKind, ...]], Callable[..., None]] = {
    (GROUPS, (ChangeKind.ADDED,)): test_update.test_new_group_is_added_in_place,
    (GROUPS, REMOVED): test_update.test_missing_group_is_deleted_with_its_nodes,
    (GROUPS, (ChangeKind.RENAMED,)): test_update.test_renamed_group_is_one_update_that_adds_and_deletes,
    (f"{GROUPS}.InstanceCount", (ChangeKind.RAISED,)): test_update.test_count_is_changed_by_one_update,
    (f"{GROUPS}.InstanceCount", (ChangeKind.LOWERED,)): test_update.test_count_that_the_template_lowers_is_lowered,
    (f"{GROUPS}.MinInstanceCount", ANY): _OTHER,
    (f"{GROUPS}.KubernetesConfig", ANY): _OTHER,
    (f"{GROUPS}.LifeCycleConfig", ANY): _OTHER,
    (f"{GROUPS}.InstanceStorageConfigs", ANY): _OTHER,
    (f"{GROUPS}.{KEY_OF_A_VOLUME}", ANY): test_update.test_key_of_a_volume_is_refused_with_advice,
    (f"{GROUPS}.OnStartDeepHealthChecks", ANY): _OTHER,
    (f"{GROUPS}.{NODE_OF_SLURM}", ANY): test_slurm.test_what_nodes_are_in_slurm_is_refused_with_advice,
    (f"{GROUPS}.SlurmConfig.PartitionNames", ANY): test_slurm.test_partition_of_a_group_is_changed_in_place,
    **{(f"{GROUPS}.{name}", ANY): _OTHER for name in ("TrainingPlanArn", "ImageId")},
    **{
        (f"{GROUPS}.{name}", ANY): test_update.test_fixed_field_of_a_group_is_refused_with_advice
        for name in FIXED_IN_A_GROUP
    },
    (ANY_FIELD, ANY): _OTHER,
    ("NodeRecovery", SET): _RECOVERY,
    ("NodeRecovery", REMOVED): _RECOVERY,
    ("NodeProvisioningMode", (ChangeKind.ADDED,)): _MODE,
    ("NodeProvisioningMode", REMOVED): _MODE,
    ("ClusterRole", SET): _ROLE,
    ("ClusterRole", REMOVED): _ROLE,
    **{(name, kinds): _SWITCHED for name in ("AutoScaling", "TieredStorageConfig") for kinds in (SET, REMOVED)},
    ("Tags", ANY): test_update.test_tags_are_changed_by_the_calls_for_tags,
    **{(name, ANY): test_update.test_fixed_field_of_the_cluster_is_refused_with_advice for name in FIXED},
    **{(name, ANY): test_create.test_wrong_property_is_refused_before_any_call for name in UNSUPPORTED},
    ("ConfirmGroupRemoval", ANY): test_update.test_confirmation_alone_changes_nothing,
    **{
        ("SleepingGroups", kinds): _SLEEPING
        for kinds in ((ChangeKind.ADDED,), (ChangeKind.REMOVED, ChangeKind.CHANGED))
    },
}
# CloudFormation's own properties: the handler never sees a change of them.
CLOUDFORMATIONS = {("ServiceToken", ANY), ("ServiceTimeout", ANY)}


def test_every_row_has_its_test() -> None:
    assert {(row.path, row.kinds) for row in TABLE} == TESTS.keys() | CLOUDFORMATIONS


def test_a_change_has_one_answer() -> None:
    answered = [(row.path, kind) for row in TABLE for kind in row.kinds]
    assert len(answered) == len(set(answered))


def test_every_field_of_the_request_is_in_the_table() -> None:
    shape: Any = service_model().operation_model("CreateCluster").input_shape
    members = shape.members
    assert set(members) == {*FIXED, *IN_PLACE, *UNSUPPORTED, "InstanceGroups", "Tags"}
    top = {row.path for row in TABLE if not row.path.startswith(GROUPS)}
    assert top == set(members) - {"InstanceGroups"} | request.NO_FIELDS
    paths = [row.path.removeprefix(f"{GROUPS}.") for row in TABLE if row.path.startswith(f"{GROUPS}.")]
    named = {path.partition("[]")[0].partition(".")[0] for path in paths}
    assert named - {"*"} <= set(members["InstanceGroups"].member.members)
