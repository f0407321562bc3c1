"""The templates of dev as they were: the net under a refactoring. `pytest tests/synth --snapshot-update` takes anew."""

import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.types import PropertyPath

from tests.synth.synthesis import PARTS, Assembly

# Assets are named by the hash of what they hold, which says nothing to a reader.
ASSET = re.compile(r"\b[0-9a-f]{64}\b")


def _without_hashes(data: Any, path: PropertyPath) -> Any:
    return ASSET.sub("<hash>", data) if isinstance(data, str) else data


@pytest.mark.parametrize("part", PARTS)
def test_template_of_dev_is_as_reviewed(dev: Assembly, part: str, snapshot: SnapshotAssertion) -> None:
    taken = snapshot.use_extension(JSONSnapshotExtension)
    assert dev.templates[part].body == taken(matcher=_without_hashes)
