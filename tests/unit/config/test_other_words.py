"""Keys that other tools and AWS's API know lead to this project's, or to what it lacks."""

import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from config import examine
from config.load import DIRECTORY, validated
from config.model.environment import every_key
from config.reading.declared import keys_of
from config.reading.other_words import ABSENT, SYNONYMS, Feature
from config.reading.strict_yaml import read
from ops.environment.schema import REFERENCE
from tests.unit.support.findings import with_fix, write

GROUP = "hyperpod.instance_groups.0"


@pytest.fixture(scope="module")
def dev() -> Any:
    return read(DIRECTORY / "dev.yaml").values


def refused(document: Any, path: str, directory: Path) -> tuple[Any, Any]:
    """Return the document with a value at an unknown key, and the key's finding."""
    document = read(DIRECTORY / "dev.yaml").values
    *way, key = path.split(".")
    place: Any = document
    for part in way:
        place = place[int(part) if part.isdigit() else part]
    place[key] = "x"
    write(directory / "dev.yaml", document)
    [finding] = [each for each in examine("dev", directory).errors if each.key == path]
    return document, finding


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f"{GROUP}.gpus", "instance_type"),
        (f"{GROUP}.type", "instance_type"),
        (f"{GROUP}.instances", "count"),
        (f"{GROUP}.InstanceCount", "count"),
        (f"{GROUP}.storage", "volume_gib"),
        (f"{GROUP}.VolumeSizeInGB", "volume_gib"),
        (f"{GROUP}.OnStartDeepHealthChecks", "deep_health_checks"),
        (f"{GROUP}.TrainingPlanArn", "training_plan"),
        ("fsx.storage", "capacity_gib"),
        ("fsx.PerUnitStorageThroughput", "throughput_mbps_per_tib"),
        ("eks.allowed_cidrs", "public_access_cidrs"),
        ("network.availability_zones", "zones"),
        ("stack_name", "project"),
        ("deletion-protection", "protect"),
    ],
)
def test_a_key_of_another_tool_leads_to_ours(written: str, meant: str, dev: Any, tmp_path: Path) -> None:
    document, finding = refused(dev, written, tmp_path)
    assert finding.fix == f"did you mean {meant!r}?"
    write(tmp_path / "dev.yaml", with_fix(document, finding))
    assert written not in {each.key for each in examine("dev", tmp_path).errors}


def keys_below(model: Any) -> set[str]:
    return set(re.findall(r'"(\w+)": \{', str(model.model_json_schema()).replace("'", '"')))


def test_every_synonym_names_a_key_and_is_none() -> None:
    known = keys_below(every_key())
    for word, keys in SYNONYMS.items():
        assert set(keys) <= known, word
        assert word == re.sub(r"[^a-z0-9]", "", word), "other spellings are compared in this form"


@pytest.mark.parametrize("feature", ABSENT, ids=lambda each: each.field)
def test_what_hyperpod_has_and_this_project_lacks_is_said_so(feature: Feature, dev: Any, tmp_path: Path) -> None:
    known = {*keys_of(("hyperpod",)), *keys_of(("hyperpod", "instance_groups", 0)), *keys_of(("slurm",))}
    for word in feature.words:
        assert word not in {each.replace("_", "") for each in known}, "a key has this name"
        for path in (f"hyperpod.{word}", f"{GROUP}.{word}"):
            _, finding = refused(dev, path, tmp_path)
            assert finding.reason == f"HyperPod has {feature.name} ({feature.field}), but this project does not yet"
            assert finding.fix == f"remove it; {feature.instead}"
    assert f"| {feature.name} | `{feature.field}` | {feature.instead} |" in REFERENCE.read_text()


def test_absent_features_are_those_of_aws_s_api() -> None:
    """A feature is in CreateCluster as botocore publishes it; what no list names is sent, or made by the project."""
    request = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateCluster").input_shape
    fields = set(_fields(request, set()))
    assert {feature.field for feature in ABSENT} <= fields


def _fields(shape: Any, seen: set[str]) -> list[str]:
    if shape.name in seen:
        return []
    seen.add(shape.name)
    if shape.type_name == "list":
        return _fields(shape.member, seen)
    members = shape.members.items() if shape.type_name == "structure" else ()
    return [name for name, member in members for name in (name, *_fields(member, seen))]


@pytest.mark.parametrize(
    ("key", "value", "fix"),
    [
        ("eks.version", 1.3, 'write one of them in quotes, such as "1.35"'),
        ("eks.version", 1.35, 'write it in quotes: "1.35"'),
        ("fsx.capacity_gib", 1000, "write 1200"),
    ],
)
def test_a_fix_names_a_value_that_is_allowed(key: str, value: Any, fix: str, dev: Any) -> None:
    part, name = key.split(".")
    _, found = validated({**dev, part: {**dev[part], name: value}}, "dev")
    assert [each.fix for each in found if each.key == key] == [fix]
