"""Snapshots of dev's templates, and of the differences of those of Slurm's example, to protect refactoring.

`pytest tests/synth --snapshot-update` updates them.
"""

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.types import PropertyPath

from config import SlurmEnvironment, load_as
from tests.synth.support.kubernetes_objects import MANIFEST, text
from tests.synth.support.synthesis import REPOSITORY, STACKS, Assemblies, Assembly

LONGEST_LINE = 2000
# The hash in an asset's name tells a reviewer nothing.
ASSET = re.compile(r"\b[0-9a-f]{64}\b")
# As `text` writes an intrinsic function.
REFERENCE = re.compile(r"<\{.*?\}>")


def _without_hashes(data: Any, path: PropertyPath) -> Any:
    return ASSET.sub("<hash>", data) if isinstance(data, str) else data


def _brief(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the resource with names and references of a manifest's objects: manifests/ holds and protects the rest."""
    if resource["Type"] != MANIFEST:
        return resource
    properties = resource["Properties"]
    objects = {
        f"{each['kind']} {each['metadata']['name']}": REFERENCE.findall(json.dumps(each))
        for each in json.loads(text(properties["Manifest"]))
    }
    return resource | {"Properties": properties | {"Manifest": objects}}


@pytest.mark.parametrize("part", STACKS)
def test_template_of_dev_is_as_reviewed(dev: Assembly, part: str, snapshot: SnapshotAssertion) -> None:
    taken = snapshot.use_extension(JSONSnapshotExtension)
    body = dev.templates[part].body
    resources = {id: _brief(resource) for id, resource in body["Resources"].items()}
    assert {**body, "Resources": resources} == taken(matcher=_without_hashes)


@pytest.mark.parametrize("part", load_as(SlurmEnvironment, "slurm").stacks)
def test_template_of_slurm_differs_from_devs_as_reviewed(
    dev: Assembly, assembly: Assemblies, part: str, snapshot: SnapshotAssertion
) -> None:
    taken = snapshot.use_extension(JSONSnapshotExtension)
    body = json.loads(json.dumps(assembly("slurm").templates[part].body).replace("slurmhp-slurm", "rayhp-dev"))
    assert _difference(body, dev.templates[part].body) == taken(matcher=_without_hashes)


def _difference(value: Any, base: Any) -> Any:
    """Return what `value` has otherwise than `base`, with None for what it lacks."""
    if not (isinstance(value, dict) and isinstance(base, dict)):
        return value
    keys = [key for key in {**base, **value} if value.get(key) != base.get(key)]
    return {key: _difference(value.get(key), base.get(key)) for key in keys}


def test_snapshots_have_no_line_that_nobody_can_review() -> None:
    lines = [
        (file.name, len(line))
        for file in REPOSITORY.glob("tests/**/__snapshots__/**/*.*")
        for line in file.read_text().splitlines()
    ]
    assert lines, "no snapshot was found"
    assert [(name, length) for name, length in lines if length > LONGEST_LINE] == []
