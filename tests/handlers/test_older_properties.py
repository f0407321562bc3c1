"""Properties of an older version of the template, which rollbacks and Deletes send."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.cloudformation import CloudFormation, strings
from tests.handlers.support.framework import Properties
from tests.handlers.support.judging import live


@pytest.mark.parametrize("direction", ["forward", "back"])
def test_property_that_one_version_lacks_is_read_from_the_other(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, direction: str
) -> None:
    cloudformation.create(properties)
    bench.advance(60)
    newer = deepcopy(properties) | {"ConfirmGroupRemoval": ["worker-group-1"]}
    del newer["InstanceGroups"][1]
    if direction == "forward":
        assert cloudformation.update("ml-cluster", newer, properties).succeeded
        return
    assert cloudformation.update("ml-cluster", newer, properties).succeeded
    assert cloudformation.roll_back("ml-cluster", properties, newer).succeeded
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]] == ["head-group", "worker-group-1"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = ["InstanceGroups", "Tags", "NodeRecovery", "ClusterName", "Config", "ConfirmGroupRemoval", "VpcConfig"]
_NAMES += ["SleepingGroups"]


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.dictionaries(st.sampled_from(_NAMES), _json))
def test_old_properties_of_any_shape_disturb_neither_rollback_nor_delete(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, old: dict[str, Any]
) -> None:
    bench.hyperpod.world.clusters.clear()
    cloudformation.create(properties)
    response = cloudformation.roll_back("ml-cluster", properties, strings(old))
    assert response.succeeded, response.reason
    assert cloudformation.delete("ml-cluster", strings(old)).succeeded
