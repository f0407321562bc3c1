"""`ops job logs` of what only the run's storage has any more, read by a short Ray job."""

from typing import Any

import pytest

from ops.jobs.stored.kept import KeptOutput, as_ray_reads, parsed
from tests.support.kept_lines import LINES
from tests.unit.ops.jobs.test_checkpoint import FakeHead, head, ops, refused  # noqa: F401 - a fixture
from tests.unit.ops.jobs.test_job import JOBS, LEASES, REVIEWS, a_lease, a_run, cluster  # noqa: F401 - a fixture
from tests.unit.support.fake_apis import Apis


@pytest.fixture
def storage(cluster: Apis, head: FakeHead, monkeypatch: pytest.MonkeyPatch) -> FakeHead:  # noqa: F811
    """Return the head that reads the storage; it has lost its own jobs."""
    monkeypatch.setattr("ops.jobs.stored.elsewhere.heads", lambda *_: ["head"])
    monkeypatch.setattr("ops.jobs.stored.elsewhere.HeadApi", lambda *_: head)
    head.listed = []
    head.ends = ("SUCCEEDED", "\n".join(LINES))
    return head


def ended(cluster: Apis, **state: Any) -> None:  # noqa: F811
    """Let the run be over, and its pods be gone with their nodes."""
    cluster.kubernetes |= {
        f"{JOBS}/train": a_run("train", condition="Complete"),
        f"{LEASES}/train": a_lease("train", **state),
    }


def test_output_of_a_run_whose_pods_are_gone_comes_from_its_storage(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    ended(cluster, attempt=3, exit_code=0)
    result = ops("job", "logs", "train")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        *("one", "two"),
        "── output may be missing: job train-1, the head was lost before the end was kept",
        "begin",
        "── output is missing: job train-2, the storage keeps the beginning and the end",
        "� d",
        "── output may be missing: job train-3, neither a log nor the storage has it",
    ]
    asked, *uploaded, (_, request) = cluster.changes
    assert asked[0] == f"POST {REVIEWS}"
    assert request["entrypoint"] == "python -m ray_resume output /fsx/ray/runs/train"
    assert request["runtime_env"].keys() == {"working_dir"}
    assert [what for what, _ in uploaded] == ["upload"], "the checkout's library reads the storage"


def test_output_of_another_run_of_the_name_is_not_taken_for_its_own(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    ended(cluster, attempt=1, exit_code=1)
    storage.ends = ("SUCCEEDED", "\n".join(line.replace('"u-1"', '"u-0"') for line in LINES))
    result = ops("job", "logs", "train")
    assert result.exit_code == 1
    assert result.stdout == "── output may be missing: job train-1, neither a log nor the storage has it\n"


def test_ray_is_asked_before_the_storage(cluster: Apis, storage: FakeHead, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    ended(cluster, attempt=1, exit_code=0)
    storage.listed = [{"submission_id": "train-1", "status": "SUCCEEDED"}]
    monkeypatch.setattr(storage, "tail", lambda id: [f"{id} printed ", "this\n"])
    assert ops("job", "logs", "train").stdout == "train-1 printed this\n"
    assert cluster.changes == []


def test_head_that_cannot_read_the_storage_is_named_with_its_reason(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    ended(cluster, attempt=1, exit_code=0)
    storage.ends = ("FAILED", "storage path '/fsx/ray/runs/train' cannot be read: Stale file handle")
    assert "Stale file handle" in ops("job", "logs", "train").stdout


def test_run_that_kubernetes_no_longer_knows_is_shown_from_its_storage(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    result = ops("job", "logs", "train", "--storage", "s3://bucket/runs/")
    assert result.exit_code == 0, result.output
    assert "── kept output: job train-2\nbegin\n" in result.stdout
    assert cluster.changes[-1][1]["entrypoint"] == "python -m ray_resume output s3://bucket/runs/train"


def test_run_of_which_nothing_is_kept_is_unknown(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    storage.ends = ("SUCCEEDED", LINES[-1])
    said = refused("job", "logs", "nothing")
    assert "there is no run nothing in namespace ray, and none with output in /fsx/ray/runs" in said
    storage.ends = ("SUCCEEDED", "")
    assert "Output kept of an earlier one: the head ray/head cannot read /fsx/ray/runs" in refused(
        "job", "logs", "nothing"
    )


def test_who_may_not_reach_a_head_asks_none(cluster: Apis, storage: FakeHead) -> None:  # noqa: F811
    cluster.kubernetes[f"POST {REVIEWS}"] = {"spec": {}, "status": {"allowed": False}}
    assert "only submitters can read output that was kept" in refused("job", "logs", "nothing")
    ended(cluster, attempt=1, exit_code=0)
    told = ops("job", "logs", "train").stdout
    assert told == "── output may be missing: job train-1, only submitters can read output that was kept\n"
    assert {what for what, _ in cluster.changes} == {f"POST {REVIEWS}"}


def test_positions_count_characters_as_ray_reads_them() -> None:
    output = parsed(["Runtime env is setting up.", "12 o'clock", *LINES])[0]
    assert as_ray_reads(b"one\r\ntwo\r") == "one\ntwo\n"
    assert output.after(0) == ["one\r\ntwo\n"], "from the beginning on, all is the job's own"
    assert output.after(4) == ["two\n"]
    assert (output.between(4, 8), output.between(4, 9)) == ("two\n", None)


@pytest.mark.parametrize(
    ("pieces", "size", "begin", "expected"),
    [
        ([(0, b"ab"), (2, b"cd")], 4, 0, ["abcd"]),
        ([(0, b"ab"), (1, b"bcd")], 4, 0, ["abcd"]),
        ([(0, b"ab"), (4, b"ef")], 6, 0, ["ab", "ef"]),
        ([(0, b"ab"), (4, b"ef")], 6, 1, ["b", "ef"]),
        ([(0, b"ab"), (4, b"ef")], 6, 2, ["", "ef"]),
        ([(0, b"ab"), (4, b"ef")], 6, 5, ["f"]),
        ([(2, b"cd")], 4, 0, ["", "cd"]),
        ([(0, b"ab")], 4, 0, ["ab", ""]),
        ([(0, b"ab")], 2, 2, []),
        ([], 0, 0, []),
    ],
)
def test_pieces_are_joined_and_gaps_divide_them(
    pieces: list[tuple[int, bytes]], size: int, begin: int, expected: list[str]
) -> None:
    assert KeptOutput("train-1", "u-1", size, pieces).after(begin) == expected
