"""Helm releases of the project's own objects."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import cdk8s
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct, IDependable

from k8s_charts.shared.chart import ProjectChart
from stacks.shared.files_chart import write_files_chart
from stacks.shared.helm_release import TIMEOUT

# Helm requires a version, but nothing reads it: the asset's hash distinguishes two states of the chart.
_VERSION: Final = "1.0.0"


def object_release(
    scope: Construct,
    id: str,
    *,
    cluster: eks.ICluster,
    name: str,
    namespace: str,
    chart: ProjectChart,
    after: IDependable,
) -> eks.HelmChart:
    """Install a chart's objects as release `name` after `after` exists; they are deleted before it.

    Use it for objects that are too long for a template: the template then holds only the hash of their asset.
    `namespace` holds the release's record and must exist.
    """
    # CDK copies the asset into the cloud assembly immediately, so its source may be deleted.
    with TemporaryDirectory() as directory:
        own = write_objects_chart(Path(directory), name, chart)
        asset = s3_assets.Asset(scope, f"{id}Chart", path=str(own))
    release = eks.HelmChart(
        scope,
        id,
        cluster=cluster,
        chart_asset=asset,
        release=name,
        namespace=namespace,
        create_namespace=False,
        timeout=TIMEOUT,
    )
    release.node.add_dependency(after)
    return release


def write_objects_chart(directory: Path, name: str, chart: ProjectChart) -> Path:
    """Write to `directory` a Helm chart with the objects of `chart`, and return its folder."""
    objects = cdk8s.Yaml.stringify(*chart.to_json()).encode()
    return write_files_chart(
        directory, name, version=_VERSION, files={"objects.yaml": objects}, template="objects.yaml"
    )
