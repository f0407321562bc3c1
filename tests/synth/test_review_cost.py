"""The review's bill, from templates, agrees with the estimate of `ops check`, from the environment's file."""

from pathlib import Path

import pytest

import config
from config import load_any
from config.estimates.costs import estimate
from ops.review.assembly import Assembly as ReviewedAssembly
from ops.review.cost import bill
from tests.synth.support.synthesis import Assemblies

# What the estimate leaves out by its docstring or by its note.
LEFT_OUT = ("volumes of", "KMS key", "public IPv4 address", "interface endpoint")


@pytest.mark.parametrize("name", config.available())
def test_the_bill_is_the_estimate(assembly: Assemblies, name: str) -> None:
    environment = load_any(name)
    found, lines = bill(ReviewedAssembly(Path(assembly(name).directory))), estimate(environment)
    assert found.usd_per_hour == pytest.approx(sum(line.usd_per_hour or 0 for line in lines))
    assert found.gpus == sum(group.type.accelerators * group.count for group in environment.hyperpod.instance_groups)
    assert [what for what in found.unpriced if not what.startswith(LEFT_OUT)] == [
        line.what for line in lines if line.usd_per_hour is None
    ]
