"""With `image_registry`, nothing comes from a public registry, and nodes and builds may pull from the private one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config import load
from k8s_charts.helm.images import CHARTS
from tests.synth.support.kubernetes_objects import RELEASE, objects, text
from tests.synth.support.synthesis import Assemblies, Assembly, synthesise


def _containers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping below `value` that names an image."""
    if isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value
        for item in value.values():
            yield from _containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _containers(item)


def _images(assembly: Assembly) -> set[str]:
    return {
        container["image"]
        for template in assembly.templates.values()
        for manifest in objects(template).values()
        for container in _containers(manifest)
    }


def _values(assembly: Assembly, chart: str) -> dict[str, Any]:
    """Return the Helm values of the only release `chart` with values."""
    [values] = [
        json.loads(text(release["Values"]))
        for template in assembly.templates.values()
        for release in template.properties(RELEASE)
        if release["Release"] == chart and "Values" in release
    ]
    return dict(values)


def test_every_container_of_a_closed_environment_comes_from_its_registry(assembly: Assemblies) -> None:
    closed = assembly("closed")
    registry, own = closed.of_eks.image_registry, closed.of_eks.image.uri
    images = _images(closed)
    assert own in images
    assert [image for image in images - {own} if not image.startswith(f"{registry}/")] == []


@pytest.mark.parametrize(
    ("chart", "release"),
    [
        ("kuberay-operator", "kuberay-operator"),
        ("aws-fsx-csi-driver", "aws-fsx-csi-driver"),
        ("HyperPodHelmChart", "hyperpod-dependencies"),
    ],
)
def test_every_release_of_a_closed_environment_has_its_images_from_the_registry(
    assembly: Assemblies, chart: str, release: str
) -> None:
    closed = assembly("closed")
    values = _values(closed, release)
    chosen = {"kuberay-operator": closed.of_eks.kuberay_version}
    [images] = [
        images for (name, version), images in CHARTS.items() if name == chart and chosen.get(name) in (None, version)
    ]
    for image in images:
        found: Any = values
        for key in image.values:
            found = found[key]
        if image.values:
            assert found["repository"].startswith(f"{closed.of_eks.image_registry}/")
            assert image.image.endswith(f":{found['tag']}")


def test_the_image_build_may_pull_its_base_from_the_accounts_own_registry(tmp_path: Path) -> None:
    small = load("small")
    host = f"{small.account}.dkr.ecr.{small.region}.amazonaws.com"
    mirrored = synthesise(small.model_copy(update={"image_registry": f"{host}/mirror"}), tmp_path)
    images = {image for image in _images(mirrored) if "aws-ray-custom" not in image}
    assert [image for image in images if not image.startswith(f"{host}/mirror/")] == []
    allowed = json.dumps(mirrored.templates["ray"].properties("AWS::IAM::Role"))
    assert 'repository/mirror/rayproject/ray"' in allowed
