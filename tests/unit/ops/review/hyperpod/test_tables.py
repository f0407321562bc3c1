"""The table of the instance groups, before and after."""

from pathlib import Path

from ops.review.hyperpod.tables import groups
from ops.review.model import ComparedRow
from tests.unit.ops.review.hyperpod.assemblies import cluster, group, pair

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5"


def test_each_group_of_either_side_is_a_row(tmp_path: Path) -> None:
    gone, kept = group("gone", 2), group("kept", 4)
    own = {"OverrideVpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": []}}
    new = group("new", 1, MinInstanceCount=1, TrainingPlanArn=PLAN, OnStartDeepHealthChecks=["InstanceStress"], **own)
    rows = groups(pair(tmp_path, {"C": cluster(gone, kept)}, {"C": cluster(kept | {"InstanceCount": 5}, new)}))
    plain = {
        "type": "ml.p5.48xlarge",
        "count": "4",
        "min count": "",
        "volume": "500 GiB",
        "zone": "usw2-az2",
        "training plan": "",
        "deep health checks": "",
    }
    of_new = plain | {"count": "1", "min count": "1", "zone": "subnet-1", "training plan": PLAN}
    assert rows == (
        ComparedRow("gone", plain | {"count": "2"}, {}),
        ComparedRow("kept", plain, plain | {"count": "5"}),
        ComparedRow("new", {}, of_new | {"deep health checks": "InstanceStress"}),
    )


def test_a_root_volume_that_only_has_a_key_is_left_out(tmp_path: Path) -> None:
    root, own = (
        {"EbsVolumeConfig": each} for each in ({"RootVolume": True, "VolumeKmsKeyId": "k"}, {"VolumeSizeInGB": 9})
    )
    [row] = groups(pair(tmp_path, None, {"C": cluster(group("a", InstanceStorageConfigs=[root, own]))}))
    assert row.after["volume"] == "9 GiB"


def test_a_new_environment_has_no_rows_before(tmp_path: Path) -> None:
    [row] = groups(pair(tmp_path, None, {"C": cluster(group("a"))}))
    assert (row.name, row.before, row.after["count"]) == ("a", {}, "4")


def test_groups_that_are_known_only_at_the_deployment_have_no_rows(tmp_path: Path) -> None:
    assert groups(pair(tmp_path, None, {"C": cluster(InstanceGroups={"Ref": "Groups"})})) == ()
