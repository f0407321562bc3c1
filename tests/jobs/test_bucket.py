"""A run in a bucket, with real S3 requests to an embedded S3 (moto, from the project's own environment)."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch.distributed as dist
from ray.train import CheckpointConfig

from ray_resume.checkpoint_store import CheckpointStore, Saved, StaleAttemptError, Writer
from ray_resume.saving import Rest, Save, in_background
from ray_resume.storage import StorageError, check_writable, open_storage
from tests.jobs.support.embedded_s3 import VARIABLES, serving, store


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("s3")) as address:
        store(address).create_dir("bucket")
        yield address


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket/runs"


def test_run_in_a_bucket_keeps_the_same_promises(bucket: str) -> None:
    store = CheckpointStore(open_storage(bucket, "run"))
    assert store.begin(1) == (Writer(1, 1), None)
    store.settle({"steps": 5})
    store.settle({"steps": 5})
    saved, torn = Saved(5, Writer(1, 1)), Saved(10, Writer(1, 1))
    for one in (saved, torn):
        with store.storage.writing(one.folder) as directory:
            (directory / "part").write_text("weights")
            (directory / ".metadata").write_text("about")
    store.commit(saved, {"loss": 0.5})
    assert store.committed() == [saved]
    assert store.is_whole(saved)
    assert [name.rpartition("/")[2] for name in store.left_by(1)] == [
        "0001.01.json",
        *(".metadata", "manifest.json", "part"),
        *(".metadata", "part"),
    ]

    assert store.begin(2) == (Writer(2, 1), saved)
    assert store.storage.names("checkpoints") == [saved.name], "the incomplete checkpoint must be removed"
    with pytest.raises(StaleAttemptError):
        store.commit(torn, {})
    with store.storage.reading(saved.folder) as directory:
        assert (directory / "part").read_text() == "weights"
        assert (directory / ".metadata").read_text() == "about"


def test_save_in_the_background_is_committed_after_its_upload(bucket: str) -> None:
    store = CheckpointStore(open_storage(bucket, "background"))
    saved = Saved(5, store.begin(1)[0])
    save = Save(store, saved, {}, order=None, keep=CheckpointConfig(), rank=0)

    def copy(directory: Path) -> Rest:
        def write(_: dist.ProcessGroup | None) -> None:
            (directory / "part").write_text("weights")

        return write

    rest = save.begin(copy)
    assert rest
    assert store.storage.names(saved.folder) == []
    in_background(partial(save.finish, rest, None)).result()
    assert store.committed() == [saved]
    assert store.is_whole(saved)
    with store.storage.reading(saved.folder) as directory:
        assert (directory / "part").read_text() == "weights"


def test_run_in_a_bucket_is_extended(bucket: str) -> None:
    store = CheckpointStore(open_storage(bucket, "grown"))
    store.settle({"steps": 5})
    done = {"finished": "2026-11-21T10:00:00+00:00"}
    for name, content in (("DONE.json", done), ("trainer.pkl", {}), ("experiment_state-2026.json", {})):
        store.storage.put(name, json.dumps(content).encode())
    store.storage.delete("nothing.json")
    store.settle({"steps": 9}, may_grow=("steps",))
    assert store.storage.names("") == ["earlier_ends.json", "run.json"]
    assert json.loads(store.storage.read("earlier_ends.json") or b"") == [done]


def test_missing_bucket_is_named(bucket: str) -> None:
    with pytest.raises(StorageError, match="storage path 's3://nowhere/runs' cannot be written"):
        check_writable(open_storage("s3://nowhere/runs", "run"), "s3://nowhere/runs")


def test_two_runs_in_a_bucket_are_independent(bucket: str, tmp_path: Path) -> None:
    one, other = (CheckpointStore(open_storage(bucket, name)) for name in ("one", "two"))
    one.begin(3)
    assert other.writers() == []
    assert other.begin(1) == (Writer(1, 1), None)
