"""checkov's CloudFormation policies on every template: the resource's metadata explains each departure."""

import json
from pathlib import Path

import pytest

from config import available
from tests.support.checkov import Finding, check, places
from tests.synth.support.synthesis import Assemblies
from tests.synth.support.variants import VARIANTS


@pytest.fixture(scope="module")
def found(assembly: Assemblies, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """Return checkov's findings for the templates, for the templates without explanations, and for an open bucket.

    One run checks all three, because checkov takes seconds to start. It takes as long for each equal template again.
    """
    directory = tmp_path_factory.mktemp("checkov") / "input"
    seen = set[str]()
    for name in (*available(), "slurm", *VARIANTS):
        for part, template in assembly(name).templates.items():
            text = json.dumps(template.body)
            if text in seen:
                continue
            seen.add(text)
            bare = json.loads(text)
            write(directory / "explained" / f"{name}-{part}.json", template.body)
            for resource in bare["Resources"].values():
                resource.get("Metadata", {}).pop("checkov", None)
            if bare != template.body:
                write(directory / "bare" / f"{name}-{part}.json", bare)
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"AccessControl": "PublicRead"}}
    write(directory / "wrong" / "open.json", {"Resources": {"Open": bucket}})
    return check(directory, "cloudformation")


def write(file: Path, template: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(template))


def test_no_resource_departs_from_a_policy_without_saying_why(found: dict[str, list[Finding]]) -> None:
    assert sorted(places(found["failed_checks"], "explained")) == []
    assert len(places(found["passed_checks"], "explained")) > 1000, "checkov must have checked the resources"


def test_nothing_is_explained_that_does_not_depart(found: dict[str, list[Finding]]) -> None:
    assert places(found["skipped_checks"], "explained") == places(found["failed_checks"], "bare")


def test_every_explanation_is_a_sentence(found: dict[str, list[Finding]]) -> None:
    reasons = {finding["check_result"]["suppress_comment"] for finding in found["skipped_checks"]}
    assert all(len(reason.split()) > 5 for reason in reasons), reasons


def test_an_open_bucket_is_found(found: dict[str, list[Finding]]) -> None:
    assert "CKV_AWS_20" in {policy for _, _, policy in places(found["failed_checks"], "wrong")}
