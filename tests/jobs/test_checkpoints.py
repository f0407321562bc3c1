"""Which folders count as checkpoints, which attempts may add them, and which one is resumed: files decide, not Ray."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from ray.train import CheckpointConfig

from ray_resume.checkpoint_store import CheckpointStore, RunInUseError, Saved, StaleAttemptError, Writer
from ray_resume.saving import Save
from ray_resume.storage import StorageError, check_writable, open_storage


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(open_storage(str(tmp_path), "run"))


def write(store: CheckpointStore, writer: Writer, step: int, content: str = "weights") -> Saved:
    """Write files as workers do before a checkpoint is committed."""
    saved = Saved(step, writer)
    with store.storage.writing(saved.folder) as directory:
        (directory / "part-0").write_text(content)
        (directory / "part-1").write_text(content)
    return saved


def add(store: CheckpointStore, writer: Writer, step: int, loss: float = 0.5) -> Saved:
    saved = write(store, writer, step)
    store.commit(saved, {"loss": loss})
    return saved


def test_first_attempt_starts_fresh(store: CheckpointStore) -> None:
    assert store.begin(attempt=1) == (Writer(1, 1), None)


def test_next_workers_resume_from_the_newest_checkpoint(store: CheckpointStore) -> None:
    writer, _ = store.begin(1)
    add(store, writer, 5)
    newest = add(store, writer, 10)
    assert store.begin(1) == (Writer(1, 2), newest)
    assert store.begin(2) == (Writer(2, 1), newest)


def test_unfinished_checkpoint_does_not_count_and_is_removed(store: CheckpointStore, tmp_path: Path) -> None:
    writer, _ = store.begin(1)
    whole = add(store, writer, 5)
    torn = write(store, writer, 10)
    _, origin = store.begin(1)
    assert origin == whole
    assert not (tmp_path / "run" / torn.folder).exists()


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_damaged_checkpoint_is_skipped(store: CheckpointStore, tmp_path: Path, damage: str) -> None:
    writer, _ = store.begin(1)
    whole = add(store, writer, 5)
    damaged = add(store, writer, 10)
    part = tmp_path / "run" / damaged.folder / "part-1"
    if damage == "missing":
        part.unlink()
    else:
        os.truncate(part, 3)
    assert store.begin(2) == (Writer(2, 1), whole)


def test_stale_attempt_cannot_restart(store: CheckpointStore) -> None:
    store.begin(2)
    with pytest.raises(StaleAttemptError, match=r"attempt 2 has begun: attempt 1 ends here"):
        store.begin(1)


@pytest.mark.parametrize("newer", [1, 2], ids=["workers of the same attempt", "another attempt"])
def test_superseded_workers_cannot_finish_a_checkpoint(store: CheckpointStore, tmp_path: Path, newer: int) -> None:
    stale, _ = store.begin(1)
    add(store, stale, 5)
    late = write(store, stale, 10)
    store.begin(newer)
    with pytest.raises(StaleAttemptError):
        store.commit(late, {})
    assert [saved.step for saved in store.committed()] == [5]
    assert not (tmp_path / "run" / late.folder).exists()


def test_late_checkpoint_of_a_stale_attempt_is_in_no_history(store: CheckpointStore) -> None:
    """A race that no file system prevents: a commit between the successor's check and its own first checkpoint."""
    stale, _ = store.begin(1)
    origin = add(store, stale, 5)
    late = write(store, stale, 10)
    successor, resumed = store.begin(2)
    assert resumed == origin
    store.storage.put(f"{late.folder}/manifest.json", b'{"files": {}, "metrics": {}}')
    assert list(store.history()) == [origin]
    newest = add(store, successor, 8)
    assert list(store.history()) == [newest, origin]
    assert store.begin(3) == (Writer(3, 1), newest)


def test_stale_attempt_writes_nothing_over_its_successors_files(store: CheckpointStore) -> None:
    stale, _ = store.begin(1)
    successor, _ = store.begin(2)
    mine = add(store, successor, 5)
    write(store, stale, 5, content="stale")
    with store.storage.reading(mine.folder) as directory:
        assert (directory / "part-0").read_text() == "weights"


def test_newest_checkpoints_are_kept(store: CheckpointStore) -> None:
    writer, _ = store.begin(1)
    for step in (5, 10, 15, 20):
        add(store, writer, step)
        store.prune(CheckpointConfig(num_to_keep=2))
    assert [saved.step for saved in store.committed()] == [15, 20]


@pytest.mark.parametrize(("order", "kept"), [("min", [10, 15, 25]), ("max", [5, 20, 25])])
def test_best_checkpoints_are_kept_and_the_newest(store: CheckpointStore, order: str, kept: list[int]) -> None:
    writer, _ = store.begin(1)
    for step, loss in ((5, 0.9), (10, 0.1), (15, 0.2), (20, 0.8), (25, 0.5)):
        add(store, writer, step, loss)
    config = CheckpointConfig(2, checkpoint_score_attribute="loss", checkpoint_score_order=order)
    store.prune(config)
    assert [saved.step for saved in store.committed()] == kept


@pytest.mark.parametrize("loss", [float("nan"), None])
def test_checkpoint_without_a_score_is_the_worst(store: CheckpointStore, loss: float | None) -> None:
    writer, _ = store.begin(1)
    for step, score in ((5, loss), (10, 0.9), (15, 0.8), (20, 0.7)):
        store.commit(write(store, writer, step), {"loss": score})
    store.prune(CheckpointConfig(2, checkpoint_score_attribute="loss", checkpoint_score_order="min"))
    assert [saved.step for saved in store.committed()] == [15, 20]


def test_everything_is_kept_without_a_number(store: CheckpointStore) -> None:
    writer, _ = store.begin(1)
    for step in (5, 10, 15):
        add(store, writer, step)
        store.prune(CheckpointConfig())
    assert len(store.committed()) == 3


def test_history_spans_attempts(store: CheckpointStore) -> None:
    first, _ = store.begin(1)
    five, ten = add(store, first, 5), add(store, first, 10)
    second, _ = store.begin(2)
    fifteen = add(store, second, 15)
    store.begin(3)
    assert list(store.history()) == [fifteen, ten, five]


def test_run_with_other_settings_is_refused(store: CheckpointStore) -> None:
    store.settle({"batch": 12, "steps": 60})
    store.settle({"steps": 60, "batch": 12})
    with pytest.raises(RunInUseError, match=r"batch 12 then, 8 now"):
        store.settle({"batch": 8, "steps": 60})


def test_storage_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StorageError, match=r"storage path '.*/file' cannot be written: \[Errno 20\] Not a directory: .*/file"
    ):
        check_writable(open_storage(str(tmp_path / "file"), "run"), str(tmp_path / "file"))


@pytest.mark.parametrize("address", ["runs", "./runs", "s3://", "gs://bucket/x", ""])
def test_storage_is_an_absolute_path_or_a_bucket(address: str) -> None:
    with pytest.raises(StorageError, match="an absolute path that every node sees"):
        open_storage(address, "run")


def test_small_files_are_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(tmp_path), "run")
    storage.put("run.json", b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        storage.put("run.json", b"after")
    assert storage.read("run.json") == b"before"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_each_worker_syncs_its_own_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, workers, synced = open_storage(str(tmp_path), "run"), range(4), Counter[str]()
    sync = os.fsync

    def count(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.update([path.name] if path.is_file() else [])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", count)

    def write(worker: int) -> None:
        with storage.writing("checkpoints/one") as directory:
            (directory / f"part-{worker}").write_text("weights")
            (directory / "other").mkdir(exist_ok=True)
            (directory / "other" / f"generators-{worker}").write_text("numbers")
            together.wait()

    together = Barrier(len(workers))
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(write, workers))
    names = {f"{name}-{worker}" for name in ("part", "generators") for worker in workers}
    assert synced == Counter(names)
    assert {name.rpartition("/")[2] for name in storage.sizes("checkpoints/one")} == names
    assert storage.names("checkpoints/one") == ["other", *(f"part-{worker}" for worker in workers)]


class Medium:
    """What a power failure would leave of a folder: contents and names are lost until they are synced."""

    def __init__(self) -> None:
        self._contents: set[int] = set()
        self._names: dict[int, dict[str, int]] = {}
        self._sync = os.fsync

    def sync(self, descriptor: int) -> None:
        self._sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        number = os.fstat(descriptor).st_ino
        if path.is_dir():
            self._names[number] = {one.name: one.stat().st_ino for one in path.iterdir()}
        else:
            self._contents.add(number)

    def files(self, folder: Path) -> set[str]:
        """Return the files below a folder that have their content and can be found by their names."""
        return {name.removeprefix("/") for name in self._below(folder.stat().st_ino)}

    def _below(self, number: int) -> Iterator[str]:
        if number in self._contents:
            yield ""
        for name, child in self._names.get(number, {}).items():
            yield from (f"/{name}{rest}" for rest in self._below(child))


def test_nothing_of_a_committed_checkpoint_is_lost_by_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    medium = Medium()
    monkeypatch.setattr(os, "fsync", medium.sync)
    storage = open_storage(str(tmp_path), "run")
    storage.put("run.json", b"{}")
    with storage.writing("checkpoints/one") as directory:
        (directory / "part-0").write_text("weights")
        (directory / "two" / "models").mkdir(parents=True)
        (directory / "two" / "models" / "part-0").write_text("weights")
    written = {"run/run.json", "run/checkpoints/one/part-0", "run/checkpoints/one/two/models/part-0"}
    assert medium.files(tmp_path) >= written
    assert "run/checkpoints/one/manifest.json" not in medium.files(tmp_path)
    storage.put("checkpoints/one/manifest.json", b"{}")
    assert medium.files(tmp_path) >= {*written, "run/checkpoints/one/manifest.json"}


def test_only_rank_0_removes_old_checkpoints(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = store.begin(1)
    pruned: list[int] = []
    for rank in range(3):
        monkeypatch.setattr(CheckpointStore, "prune", lambda *_, rank=rank: pruned.append(rank))
        save = Save(store, Saved(5, writer), {}, order=None, keep=CheckpointConfig(num_to_keep=1), rank=rank)
        save.begin(lambda _: None)
        save.commit()
    assert pruned == [0]


def test_removing_a_run_makes_its_name_free(store: CheckpointStore, tmp_path: Path) -> None:
    store.settle({"batch": 12})
    add(store, store.begin(1)[0], 5)
    shutil.rmtree(tmp_path / "run")
    store.settle({"batch": 8})
    assert store.begin(1) == (Writer(1, 1), None)
