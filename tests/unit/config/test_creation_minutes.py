"""The table of creation minutes: each row is a range with a source, and says what of it is an estimate."""

import pytest

from config.estimates import creation
from config.estimates.creation import CreationTime

DELETIONS = {f"deletion of {name}": row for name, row in creation.deletions().items()}
ROWS = {**creation.by_type(), **DELETIONS, **creation.later(ray=True), "stack": creation.of_stack()}


@pytest.mark.table("config/estimates/creation_minutes.yaml")
@pytest.mark.parametrize("name", ROWS)
def test_each_row_is_a_range_with_a_source_or_says_why_it_is_an_estimate(name: str) -> None:
    row = ROWS[name]
    assert 0 < row.low <= row.typical <= row.high
    assert row.source
    assert row.source != "none found" or row.estimate


def test_a_type_without_a_row_counts_as_one_that_takes_seconds() -> None:
    assert creation.of_type("AWS::Unknown::Type") == creation.of_type("AWS::EC2::Route")
    assert isinstance(creation.of_type("AWS::EKS::Cluster"), CreationTime)
