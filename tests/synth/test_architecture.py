"""Every box of the README's picture represents a synthesised resource."""

import re
from pathlib import Path

import pytest

from tests.synth.support.synthesis import Assembly

PICTURE = Path(__file__).parents[2] / "docs" / "architecture.svg"
BOXES = re.findall(r'data-resource="(\S+) (\S+)"', PICTURE.read_text())


def test_the_picture_shows_every_stack(dev: Assembly) -> None:
    assert {part for part, _ in BOXES} == set(dev.templates)


@pytest.mark.parametrize(("part", "resource_type"), sorted(set(BOXES)))
def test_what_a_box_stands_for_is_in_its_stack(dev: Assembly, part: str, resource_type: str) -> None:
    assert dev.templates[part].all(resource_type)
