"""A verdict as JSON."""

from pathlib import Path

import pytest

from ops.review.checkouts.cdk import ReviewError
from ops.review.data import from_file, to_json
from ops.review.model import (
    Change,
    Compared,
    ComparedRow,
    Danger,
    Difference,
    Effect,
    EnvironmentVerdict,
    StandingCosts,
    Verdict,
)

CHANGE = Change(
    "storage", "AWS::FSx::FileSystem FileSystem", "file system", "a → b", Effect.DATA_LOST, "why", "do",
    frozenset({Danger.DATA_LOSS, Danger.LOWER_PROTECTION}), "protect",
    addresses=(("storage", "FileSystem"),), digest="9f86",
)  # fmt: skip
WHOLE = Verdict(
    (
        EnvironmentVerdict(
            "dev",
            (CHANGE,),
            StandingCosts(1.5, 8, ("x",)),
            None,
            (ComparedRow("workers", {"count": "1"}, {}),),
            (),
            ("role R may now read",),
            (Difference("RayCluster ray/rayml", "-a\n+b"),),
        ),
    ),
    ("note",),
    Compared("b", "h", {"charts": "stand-in"}, every_environment=True),
)


def test_verdict_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "review.json"
    file.write_text(to_json(WHOLE))
    read = from_file(file)
    assert read == WHOLE
    # Neither counts when changes are compared.
    [change] = read.environments[0].changes
    assert (change.addresses, change.digest) == (CHANGE.addresses, CHANGE.digest)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"format": 1', '"format": 2'),
        ('"head"', '"tip"'),
        ('"every_environment": true', '"every_environment": "maybe"'),
        ('"data lost"', '"fine"'),
        ('"data-loss"', '"none"'),
        ('"dangers"', '"other"'),
        ("{", "["),
        ('"name"', '"nom"'),
    ],
)
def test_file_that_is_no_verdict_is_refused(before: str, after: str, tmp_path: Path) -> None:
    file = tmp_path / "review.json"
    text = to_json(WHOLE)
    assert before in text
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(ReviewError, match=r"review\.json is no verdict"):
        from_file(file)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="cannot be read"):
        from_file(tmp_path / "review.json")
