"""The table of updates: the same in the handler and in the docs, complete, and with a test for every row."""

from pathlib import Path
from typing import Any

from embedded_account.hyperpod.api.validation import service_model
from handlers.hyperpod_cluster import changes
from handlers.hyperpod_cluster.properties import UNSUPPORTED
from tests.handlers import test_create, test_update

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explain" / "hyperpod-updates.md"
GROUP = "`InstanceGroups[]"
_OTHER = test_update.test_other_field_of_a_group_is_changed_in_place
_FIXED_IN_GROUP = test_update.test_fixed_field_of_a_group_is_refused_with_advice
_FIXED = test_update.test_fixed_field_of_the_cluster_is_refused_with_advice
_UNSUPPORTED = test_create.test_wrong_property_is_refused_before_any_call
TESTS = {
    f"{GROUP}`: a group is added": test_update.test_new_group_is_added_in_place,
    f"{GROUP}`: a group is taken away": test_update.test_missing_group_is_deleted_with_its_nodes,
    f"{GROUP}`: a group is renamed": test_update.test_renamed_group_is_one_update_that_adds_and_deletes,
    f"{GROUP}.InstanceCount`": test_update.test_count_is_changed_by_one_update,
    f"{GROUP}.MinInstanceCount`": _OTHER,
    f"{GROUP}.LifeCycleConfig`": _OTHER,
    f"{GROUP}.InstanceStorageConfigs`": _OTHER,
    f"{GROUP}.OnStartDeepHealthChecks`": _OTHER,
    **{f"{GROUP}.{field}`": _FIXED_IN_GROUP for field in changes.FIXED_IN_A_GROUP},
    f"{GROUP}`: every other field": _OTHER,
    "`NodeRecovery`": test_update.test_node_recovery_is_changed_in_place_and_back_by_leaving_it_out,
    "`ClusterRole`": test_update.test_cluster_role_is_set_in_place_and_cannot_be_taken_away,
    "`AutoScaling`": test_update.test_scaler_and_tiered_storage_are_disabled_by_leaving_them_out,
    "`TieredStorageConfig`": test_update.test_scaler_and_tiered_storage_are_disabled_by_leaving_them_out,
    "`NodeProvisioningMode`": test_update.test_provisioning_mode_cannot_be_taken_away,
    "`Tags`": test_update.test_tags_are_changed_by_the_calls_for_tags,
    **{f"`{field}`": _FIXED for field in changes.FIXED},
    **{f"`{field}`": _UNSUPPORTED for field in UNSUPPORTED},
}


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_page_has_the_handlers_table() -> None:
    assert rows(PAGE.read_text()) == rows(changes.__doc__ or "")


def test_every_row_has_its_test() -> None:
    fields = [row.split(" | ")[0].removeprefix("| ") for row in rows(changes.__doc__ or "")[2:]]
    assert sorted(fields) == sorted(TESTS)


def test_every_field_of_the_request_is_in_the_table() -> None:
    request: Any = service_model().operation_model("CreateCluster").input_shape
    members = request.members
    known = {*changes.FIXED, *changes.IN_PLACE, *UNSUPPORTED, "InstanceGroups", "Tags"}
    assert set(members) == known
    named = {row.split("`")[1].partition(".")[2] for row in rows(changes.__doc__ or "") if GROUP in row}
    assert {field for field in named if field} <= set(members["InstanceGroups"].member.members)
