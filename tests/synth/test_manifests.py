"""The templates apply exactly the Kubernetes objects and Helm values of manifests/, which a pull request shows."""

import json
import re
from typing import Any

import pytest

from config import available
from k8s_charts.controllers import code
from tests.support.rendered import documents
from tests.synth.support.kubernetes_objects import RELEASE, Object, objects, released, text
from tests.synth.support.synthesis import REPOSITORY, Assemblies

# Values that only a deployment knows: in manifests/ a name such as ${FileSystemId}, in a template a function or asset.
PROGRAM = re.compile(r"\$\{([\w/]+\.(?:py|sh))\}")
PLACEHOLDER = re.compile(r"\$\{\w+\}")
TOLD = re.compile(r"<\{[^<>]*\}>|s3://cdk-[\w/-]+\.zip")


def own(item: Object) -> Object:
    """Return the object without the label by which CDK finds objects to prune."""
    labels = item["metadata"].get("labels", {})
    kept = {key: value for key, value in labels.items() if not key.startswith("aws.cdk.eks/prune-")}
    return item | {"metadata": item["metadata"] | ({"labels": kept} if kept else {})}


def whole(value: Any) -> Any:
    """Return the value with the content of each program instead of its path."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    path = PROGRAM.fullmatch(value) if isinstance(value, str) else None
    return (REPOSITORY / path[1]).read_text() if path else value


def normal(value: Any, unknown: re.Pattern[str]) -> str:
    """Return JSON text with `?` for values that only a deployment knows."""
    return unknown.sub("?", json.dumps(value, sort_keys=True))


@pytest.mark.parametrize("name", available())
def test_templates_apply_the_objects_and_values_of_manifests(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    shown = [whole(item) for file in documents(synthesised.of_eks).values() for item in file]
    templates = [synthesised.templates[part] for part in ("platform", "ray")]
    applied = [own(item) for template in templates for manifest in objects(template).values() for item in manifest]
    applied += released(synthesised, "ray", code.RELEASE)
    assert sorted(normal(item, PLACEHOLDER) for item in shown if "kind" in item) == sorted(
        normal(item, TOLD) for item in applied
    )
    releases = [release for template in templates for release in template.properties(RELEASE)]
    values = {
        release["Release"]: normal(json.loads(text(release["Values"])), TOLD)
        for release in releases
        if "Values" in release
    }
    wanted = {item["name"]: normal(item["values"], PLACEHOLDER) for item in shown if item.get("values")}
    assert wanted
    assert wanted.items() <= values.items()
