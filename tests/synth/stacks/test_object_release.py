"""The project's own objects as a Helm chart: reproducible to the byte, and never read as Helm templates."""

import os
from pathlib import Path

import aws_cdk as cdk
import cdk8s
import yaml
from aws_cdk import aws_s3_assets as s3_assets

from k8s_charts.shared.chart import ProjectChart
from stacks.shared.object_release import write_objects_chart

BRACES = 'x = {{ .Values.secret }}\nfmt = f"{{{x}}}"  # {{- end }}\n---\n\tif x: print(\'%s\' % "ü")  \n'


def chart(text: str) -> ProjectChart:
    made = ProjectChart(cdk8s.App(), "code")
    metadata = cdk8s.ApiObjectMetadata(name="code", namespace="kuberay")
    config_map = cdk8s.ApiObject(made, "code", api_version="v1", kind="ConfigMap", metadata=metadata)
    config_map.add_json_patch(cdk8s.JsonPatch.add("/data", {"code.py": text}))
    return made


def asset_hash(directory: Path, text: str, *, umask: int = 0o022) -> str:
    before = os.umask(umask)
    try:
        own = write_objects_chart(directory, "code", chart(text))
        stack = cdk.Stack(cdk.App(outdir=str(directory / "cdk.out")), "stack")
        return s3_assets.Asset(stack, "Chart", path=str(own)).asset_hash
    finally:
        os.umask(before)


def test_equal_objects_are_an_equal_asset_and_one_changed_letter_is_another(tmp_path: Path) -> None:
    first = asset_hash(tmp_path / "first", BRACES)
    assert first == asset_hash(tmp_path / "second", BRACES, umask=0o077)
    assert first != asset_hash(tmp_path / "third", BRACES.upper())


def test_text_is_in_a_file_of_the_chart_that_helm_does_not_read_as_a_template(tmp_path: Path) -> None:
    own = write_objects_chart(tmp_path, "code", chart(BRACES))
    assert yaml.safe_load((own / "files" / "objects.yaml").read_text())["data"] == {"code.py": BRACES}
    [template] = (own / "templates").iterdir()
    assert BRACES.splitlines()[0] not in template.read_text()
    assert yaml.safe_load((own / "Chart.yaml").read_text()) == {"apiVersion": "v2", "name": "code", "version": "1.0.0"}
