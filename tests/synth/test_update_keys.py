"""The property that the reference names for a key of an instance group is the one that the key changes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.model import InstanceGroup
from config.model.hyperpod import Sleep, Taint
from handlers.hyperpod_cluster.consequences import GROUPS
from ops.environment.updates import ELSEWHERE, GROUP_KEYS, PROPERTY_OF
from stacks.hyperpod import cluster
from stacks.hyperpod.slurm import SlurmTopology

GROUP = InstanceGroup(name="a", instance_type="ml.p5.48xlarge", count=2)
CHANGES: dict[str, Any] = {
    "instance_type": "ml.p5en.48xlarge",
    "count": 3,
    "min_count": 1,
    "threads_per_core": 2,
    "volume_gib": 600,
    "deep_health_checks": ("InstanceStress",),
    "labels": {"team": "a"},
    "taints": (Taint(key="team", value="a", effect="NoSchedule"),),
    "training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5",
    "image_id": "ami-0123456789abcdef0",
    "lifecycle_scripts": "other",
}
# `name` identifies the group; the whole cluster decides on `zone` (tests/synth/stacks/test_instance_groups.py), and has
# one property for all groups that sleep (tests/synth/stacks/test_group_counts.py).
OTHERS = {"name", "zone", "sleep"}


def fields(group: InstanceGroup) -> dict[str, Any]:
    role = SimpleNamespace(role_arn="role")
    scripts = SimpleNamespace(uris={name: name for name in (GROUP.lifecycle_scripts, "other")}, entry_point="x.sh")
    of_slurm = SlurmTopology(by_api=True, mounted={}) if group.slurm else None
    return cluster._instance_group(
        group, cast(Any, role), cast(Any, scripts), own_network=None, key=None, slurm=of_slurm
    )


def test_every_key_is_tried_or_has_no_property() -> None:
    elsewhere = {key.removeprefix(f"{GROUP_KEYS}.") for key in ELSEWHERE if key.startswith(GROUP_KEYS)}
    elsewhere -= {f"sleep.{key}" for key in Sleep.model_fields}
    assert InstanceGroup.model_fields.keys() == CHANGES.keys() | OTHERS | elsewhere


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_changes_its_property_and_no_other(key: str) -> None:
    before, after = fields(GROUP), fields(GROUP.model_copy(update={key: CHANGES[key]}))
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {f"{GROUPS}.{name}" for name in changed} == {PROPERTY_OF[f"{GROUP_KEYS}.{key}"]}
