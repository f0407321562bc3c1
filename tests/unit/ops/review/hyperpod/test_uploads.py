"""The changes of lifecycle scripts: what is uploaded, which groups use it, what the added lines do."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ops.review.model import Change, Danger, Effect
from tests.unit.ops.review.hyperpod.assemblies import (
    Resource,
    asset,
    changed,
    changes_of,
    cluster,
    group,
    pair,
    scripts,
    upload,
)

SCRIPT = "set -e\nbash main.sh\n"


def of(
    tmp_path: Path,
    before: Mapping[str, Resource] | None,
    after: Mapping[str, Resource],
    base: Mapping[str, Mapping[str, str]],
    head: Mapping[str, Mapping[str, str]],
) -> dict[str, Change]:
    """Return the changes by resource; `base` and `head` are the assets of scripts by digest."""
    reviewed = pair(tmp_path, before, after)
    for side, assets in ((reviewed.base, base), (reviewed.head, head)):
        for digest, files in assets.items():
            if side:
                asset(side, digest, **files)
    found = changes_of(reviewed)
    assert len({change.resource for change in found}) == len(found)
    return {change.resource: change for change in found}


def edited(tmp_path: Path, script: str, **files: str) -> dict[str, Change]:
    """Return the changes when `on_create.sh` becomes `script`, of an upload that a group uses."""
    before = {"Upload": upload("v1"), "C": cluster(group("a"), group("b", LifeCycleConfig=scripts("other")))}
    workers = group("a", LifeCycleConfig=scripts("v2"))
    after = {"Upload": upload("v2"), "C": cluster(workers, group("b", LifeCycleConfig=scripts("other")))}
    base, head = {"v1": {"on_create": SCRIPT}}, {"v2": {"on_create": script, **files}}
    return of(tmp_path, before, after, base, head)


def test_a_changed_script_is_told_with_its_files_and_groups(tmp_path: Path) -> None:
    found = edited(tmp_path, f"{SCRIPT}echo done\n", settings="FSX_EFA=true\n")
    change = found["LifecycleScripts lifecycle_scripts-eks"]
    assert change.title == "lifecycle scripts lifecycle_scripts-eks"
    assert change.what == "on_create.sh, settings of a"
    assert (change.effect, set(change.dangers)) == (Effect.IN_PLACE, set())
    assert "nodes created afterwards" in change.reason
    of_group = found["InstanceGroup a"]
    assert (of_group.effect, set(of_group.dangers)) == (Effect.IN_PLACE, set())
    assert of_group.reason == "For nodes created afterwards: HyperPod runs the scripts when it makes a node."


def test_a_dangerous_line_is_told_once_at_the_upload(tmp_path: Path) -> None:
    found = edited(tmp_path, f"{SCRIPT}rm -rf /fsx/old\n")
    change = found["LifecycleScripts lifecycle_scripts-eks"]
    assert (change.effect, set(change.dangers)) == (Effect.IN_PLACE, {Danger.RUNS_CODE})
    assert "`rm -rf /fsx/old`" in change.reason
    assert set(found["InstanceGroup a"].dangers) == set()


def test_a_line_that_moves_between_files_is_not_added(tmp_path: Path) -> None:
    before = {"Upload": upload("v1")}
    base = {"v1": {"on_create": f"{SCRIPT}rm -rf /var/lib/x\n"}}
    head = {"v2": {"on_create": SCRIPT, "main": "rm -rf /var/lib/x\n"}}
    [change] = of(tmp_path, before, {"Upload": upload("v2")}, base, head).values()
    assert (change.what, set(change.dangers)) == ("main.sh, on_create.sh of no group", set())


def test_the_same_files_in_another_place_are_no_change_of_code(tmp_path: Path) -> None:
    files = {"on_create": f"{SCRIPT}rm -rf /var/lib/x\n"}
    found = of(tmp_path, {"U": upload("v1")}, {"U": upload("v2")}, {"v1": files}, {"v2": files})
    assert set(next(iter(found.values())).dangers) == set()
    assert next(iter(found.values())).what == "another place of the same files"


def test_an_upload_from_an_unknown_asset_is_unknown(tmp_path: Path) -> None:
    found = of(tmp_path, {"U": upload("v1")}, {"U": upload("v2")}, {"v1": {"on_create": SCRIPT}}, {})
    [change] = found.values()
    assert (change.effect, set(change.dangers)) == (Effect.UNKNOWN, {Danger.UNKNOWN})


def test_an_asset_in_an_archive_is_read(tmp_path: Path) -> None:
    reviewed = pair(tmp_path, {"U": upload("v1")}, {"U": upload("v2")})
    asset(reviewed.head, "v2", on_create="mkfs.xfs /dev/nvme1n1\n")
    with zipfile.ZipFile(tmp_path / "base" / "asset.v1.zip", "w") as archive:
        archive.writestr("on_create.sh", SCRIPT)
    [change] = changes_of(reviewed)
    assert (change.what, set(change.dangers)) == ("on_create.sh of no group", {Danger.RUNS_CODE})


def test_a_new_folder_that_copies_an_old_one_adds_no_code_and_one_that_adds_does(tmp_path: Path) -> None:
    files = {"on_create": "rm -rf /var/lib/x\n"}
    before, after = {"U": upload("v1")}, {"U": upload("v1"), "New": upload("v2", "copied")}
    copied = of(tmp_path / "a", before, after, {"v1": files}, {"v1": files, "v2": files})
    assert set(copied["LifecycleScripts copied"].dangers) == set()
    further = {"on_create": "rm -rf /var/lib/x\nrm -rf /fsx\n"}
    added = of(tmp_path / "b", before, after, {"v1": files}, {"v1": files, "v2": further})
    assert set(added["LifecycleScripts copied"].dangers) == {Danger.RUNS_CODE}


def test_a_new_environment_has_no_earlier_scripts_to_compare_with(tmp_path: Path) -> None:
    files = {"v1": {"on_create": "rm -rf /var/lib/x\n"}}
    [change] = of(tmp_path, None, {"U": upload("v1")}, {}, files).values()
    assert (change.effect, set(change.dangers)) == (Effect.CREATED, set())


def test_a_removed_upload_keeps_its_files_unless_it_says_otherwise(tmp_path: Path) -> None:
    [kept] = of(tmp_path / "a", {"U": upload()}, {}, {}, {}).values()
    assert (kept.effect, set(kept.dangers)) == (Effect.KEPT, set())
    [deleted] = of(tmp_path / "b", {"U": upload(RetainOnDelete=False)}, {}, {}, {}).values()
    assert (deleted.effect, set(deleted.dangers)) == (Effect.DELETED, {Danger.LOWER_PROTECTION})


@pytest.mark.parametrize(
    ("properties", "effect", "dangers"),
    [
        ({"RetainOnDelete": False}, Effect.IN_PLACE, {Danger.LOWER_PROTECTION}),
        ({"ServiceToken": {"Ref": "Other"}}, Effect.REFUSED, set()),
        ({"OutputObjectKeys": True}, Effect.NOTHING, set()),
        ({"DestinationBucketName": {"Ref": "Data"}}, Effect.UNKNOWN, {Danger.UNKNOWN}),
        ({"NeverHeardOf": True}, Effect.UNKNOWN, {Danger.UNKNOWN}),
    ],
)
def test_a_setting_of_the_upload_is_reviewed(
    tmp_path: Path, properties: dict[str, Any], effect: Effect, dangers: set[Danger]
) -> None:
    [change] = of(tmp_path, {"U": upload()}, {"U": changed(upload(), **properties)}, {}, {}).values()
    assert (change.effect, set(change.dangers)) == (effect, dangers)


@pytest.mark.parametrize(
    ("properties", "worst", "dangers"),
    [
        ({"Prune": True}, Effect.IN_PLACE, {Danger.LOWER_PROTECTION}),
        ({"Prune": None}, Effect.IN_PLACE, {Danger.LOWER_PROTECTION}),
        ({"Prune": True, "DestinationBucketName": {"Ref": "Data"}}, Effect.DATA_LOST, {Danger.DATA_LOSS}),
        ({"Prune": True, "DestinationBucketKeyPrefix": None}, Effect.DATA_LOST, {Danger.DATA_LOSS}),
    ],
)
def test_an_upload_that_prunes_may_delete_what_others_keep_there(
    tmp_path: Path, properties: dict[str, Any], worst: Effect, dangers: set[Danger]
) -> None:
    reviewed = pair(tmp_path, {"U": upload()}, {"U": changed(upload(), **properties)})
    found = changes_of(reviewed)
    assert min(found, key=lambda each: each.effect.rank).effect is worst
    assert dangers <= {danger for change in found for danger in change.dangers}


def test_scripts_that_the_deployment_does_not_upload_run_unknown_code(tmp_path: Path) -> None:
    files = {"v1": {"on_create": SCRIPT}}
    elsewhere: dict[str, Any] = {"LifeCycleConfig": {"SourceS3Uri": "s3://elsewhere/v1/", "OnCreate": "on_create.sh"}}
    before = {"U": upload(), "C": cluster(group("a"))}
    switched = of(tmp_path / "a", before, {"U": upload(), "C": cluster(group("a", **elsewhere))}, files, files)
    assert set(switched["InstanceGroup a"].dangers) == {Danger.RUNS_CODE}
    added = {"U": upload(), "C": cluster(group("a"), group("b", **elsewhere))}
    assert of(tmp_path / "b", before, added, files, files)["InstanceGroup b"].dangers == {Danger.RUNS_CODE}
    new = of(tmp_path / "c", None, {"U": upload(), "C": cluster(group("a", **elsewhere))}, {}, files)
    assert new["HyperPodCluster"].dangers == {Danger.RUNS_CODE}


def test_another_entry_point_runs_other_code(tmp_path: Path) -> None:
    files = {"v1": {"on_create": SCRIPT, "wipe": "mkfs.xfs /dev/nvme1n1\n", "quiet": "echo\n"}}
    before = {"U": upload(), "C": cluster(group("a"))}

    def entry(name: str) -> Change:
        after = {"U": upload(), "C": cluster(group("a", LifeCycleConfig=scripts("v1", f"{name}.sh")))}
        return of(tmp_path / name, before, after, files, files)["InstanceGroup a"]

    assert set(entry("quiet").dangers) == set()
    assert set(entry("wipe").dangers) == {Danger.RUNS_CODE}
    assert entry("missing").effect is Effect.UNKNOWN


def test_the_scripts_of_another_group_are_other_code(tmp_path: Path) -> None:
    files = {"v1": {"on_create": SCRIPT}, "wiping": {"on_create": "mkfs.xfs /dev/nvme1n1\n"}}
    both = {"U": upload(), "W": upload("wiping", "wiping")}
    before = both | {"C": cluster(group("a"), group("b", LifeCycleConfig=scripts("wiping")))}
    after = both | {"C": cluster(*(group(name, LifeCycleConfig=scripts("wiping")) for name in ("a", "b")))}
    assert of(tmp_path, before, after, files, files)["InstanceGroup a"].dangers == {Danger.RUNS_CODE}
