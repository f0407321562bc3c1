"""`ops data` keeps within its paths: what a folder may hold, where an object may land, what a PATH may name."""

import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import config
from ops.commands.operate.data import _link
from ops.data import tasks
from ops.data.errors import BadPathError
from ops.data.links import DataLink, find, locate
from ops.data.local import below, files
from ops.data.plan import folder
from ops.errors import RefusedError
from ops.progress import size
from tests.unit.support.documented_data import assert_same_shape, documented


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (999e9, "999.0 GB"), (1500e9, "1.5 TB")],
)
def test_size_is_a_number_in_a_unit_that_people_read(count: float, said: str) -> None:
    assert size(count) == said


def a_link(name: str, **changes: Any) -> DataLink:
    path = PurePosixPath("/", name)
    seen_at = PurePosixPath("/fsx", name)
    settings: dict[str, Any] = {
        "bucket": "data",
        "prefix": f"of/{name}",
        "imports": True,
        "exports": True,
        "state": "AVAILABLE",
    }
    return DataLink("fs-0", path, seen_at, **(settings | changes))


LINKS = [a_link("datasets"), a_link("results", state="CREATING"), a_link("all", prefix="")]


class TestUpload:
    def test_files_are_named_by_their_path_in_the_folder(self, tmp_path: Path) -> None:
        for name in ("b", "a/c", "a/d/e"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")
        (tmp_path / "link").symlink_to(tmp_path / "a/c")
        assert sorted(files(tmp_path)) == ["a/c", "a/d/e", "b", "link"]
        assert files(tmp_path / "b") == {"b": tmp_path / "b"}

    def test_links_out_of_the_folder_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("")
        (tmp_path / "sent").mkdir()
        (tmp_path / "sent/a").symlink_to("../secret")
        with pytest.raises(BadPathError, match=r"is a symbolic link to .*secret, outside of"):
            files(tmp_path / "sent")

    @pytest.mark.parametrize("target", ["folder", "missing"])
    def test_links_to_folders_and_to_nothing_are_refused(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "a").symlink_to(tmp_path / target)
        with pytest.raises(BadPathError, match="Allowed: links to files"):
            files(tmp_path)

    def test_what_no_object_can_be_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadPathError, match="has no files"):
            files(tmp_path)
        with pytest.raises(BadPathError, match="there is no such file or folder"):
            files(tmp_path / "missing")
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(BadPathError, match="is no file"):
            files(tmp_path)
        (tmp_path / "pipe").unlink()
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("")
        with pytest.raises(BadPathError, match="is not UTF-8"):
            files(tmp_path)


class TestDownload:
    @pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "a//b", "./a", "a/.."])
    def test_object_whose_path_leaves_the_folder_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(BadPathError, match="its path leaves"):
            below(tmp_path, name)

    def test_link_in_the_folder_leads_nowhere_else(self, tmp_path: Path) -> None:
        (tmp_path / "here").mkdir()
        (tmp_path / "here/out").symlink_to(tmp_path)
        with pytest.raises(BadPathError, match="its path leaves"):
            below(tmp_path / "here", "out/a")
        assert below(tmp_path / "here", "in/a") == tmp_path / "here/in/a"


class TestLocate:
    @pytest.mark.parametrize(
        ("path", "key", "of_fsx"),
        [
            ("/fsx/datasets", "of/datasets", "/datasets"),
            ("/fsx/datasets/a/b", "of/datasets/a/b", "/datasets/a/b"),
            ("/fsx/datasets//a/", "of/datasets/a", "/datasets/a"),
            ("/fsx/all/a", "a", "/all/a"),
        ],
    )
    def test_path_has_a_key_and_a_path_of_the_file_system(self, path: str, key: str, of_fsx: str) -> None:
        place = locate(LINKS, path)
        assert (place.key, str(place.path)) == (key, of_fsx)

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("datasets", "it must be absolute"),
            ("/fsx/datasets/../results/a", "it must be absolute, without `..`"),
            ("/fsx/data", r"no data repository is linked there\. Allowed: /fsx/all, /fsx/datasets, /fsx/results"),
            ("/fsx", "no data repository is linked there"),
            ("/datasets", "no data repository is linked there"),
            ("/fsx/results/a", "its association is CREATING"),
        ],
    )
    def test_other_paths_are_refused(self, path: str, message: str) -> None:
        with pytest.raises(BadPathError, match=message):
            locate(LINKS, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"links no path of its file system .* Fix: add fsx\.data_repositories"),
        (
            {"provisioning": "dynamic"},
            r"has no link to its bucket: the CSI driver .* Fix: use fsx\.provisioning: static",
        ),
    ],
)
def test_environment_without_a_link_names_the_key(changes: dict[str, str], message: str) -> None:
    small = config.load("small")
    environment = small.model_copy(update={"fsx": small.fsx.model_copy(update=changes)})
    with pytest.raises(RefusedError, match=message):
        find(environment, None, None)


NOW = datetime(2026, 11, 23, tzinfo=UTC)


class Bucket:
    """S3's list of a folder with a folder, a file, and FSx's reports."""

    def get_paginator(self, _: str) -> "Bucket":
        return self

    def paginate(self, **request: str) -> list[dict[str, Any]]:
        assert request == {"Bucket": "data", "Prefix": "of/datasets/", "Delimiter": "/"}
        folders = [{"Prefix": f"of/datasets/{name}/"} for name in ("train", ".fsx-reports")]
        objects = [{"Key": f"of/datasets/{name}", "Size": 3, "LastModified": NOW} for name in ("", "labels.csv")]
        return [{"CommonPrefixes": folders, "Contents": objects}]


def test_data_are_as_documented() -> None:
    task = {
        "TaskId": "task-0",
        "Type": tasks.IMPORT,
        "Lifecycle": "PENDING",
        "Paths": ["s3://data"],
        "CreationTime": NOW,
    }
    listed = folder(Bucket(), locate(LINKS, "/fsx/datasets"))
    assert [file["name"] for file in listed] == ["train/", "labels.csv"]
    shown = {"links": [_link(LINKS[0])], "tasks": [tasks.as_data(task)], "files": listed}
    assert_same_shape(shown, documented("data", "ls"))
