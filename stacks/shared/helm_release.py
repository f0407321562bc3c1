"""Helm releases of locked charts."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from k8s_charts.helm.release import HelmRelease
from stacks.shared.helm_chart_asset import chart_asset

# Lambda ends the function that runs Helm after 15 minutes, and a half-finished release blocks every later one
# (aws-cdk#22257): Helm must give up well before.
TIMEOUT: Final = cdk.Duration.minutes(10)


def helm_release(
    scope: Construct, id: str, *, cluster: eks.ICluster, release: HelmRelease, wait: bool = True
) -> eks.HelmChart:
    """Install `release` with its chart as an asset; its namespace must exist.

    With `wait` the installation is complete only when the release's pods are ready.

    Raises:
        ChartError: the chart is missing or was altered.
    """
    return eks.HelmChart(
        scope,
        id,
        cluster=cluster,
        chart_asset=chart_asset(scope, release.chart, version=release.version, only_crds=release.only_crds),
        release=release.name,
        namespace=release.namespace,
        create_namespace=False,
        values=release.values,
        wait=wait,
        timeout=TIMEOUT,
    )
