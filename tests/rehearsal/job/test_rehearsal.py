"""What the job's story reads of a run."""

import json
from pathlib import Path

from rehearsal.job.rehearsal import starts


def test_starts_are_told_in_order_with_their_steps(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    records = {"0001.01": ("10:00:00", None), "0001.02": ("10:00:30", "000000020@0001.01")}
    for name, (time, origin) in records.items():
        record = {"began": f"2026-01-01T{time}+00:00", "resumed_from": origin}
        (tmp_path / "attempts" / f"{name}.json").write_text(json.dumps(record))
    (first, begun_at), (second, resumed_at) = starts(tmp_path)
    assert (begun_at, resumed_at) == (0, 20)
    assert second - first == 30


def test_run_that_has_not_begun_has_no_starts(tmp_path: Path) -> None:
    assert starts(tmp_path) == []
