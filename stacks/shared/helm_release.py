"""Helm releases of locked charts."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from k8s_charts.helm.release import HelmRelease
from stacks.shared.helm_chart_asset import chart_asset

# The function that runs Helm dies after 15 minutes; a release that it leaves half-way blocks every later one
# (aws-cdk#22257), so Helm gives up well before.
TIMEOUT: Final = cdk.Duration.minutes(10)


def helm_release(
    scope: Construct, id: str, *, cluster: eks.ICluster, release: HelmRelease, wait: bool = True
) -> eks.HelmChart:
    """Install `release` with the chart as an asset; its namespace must exist. `wait`: until its pods are ready.

    Raises ChartError when the chart is missing or was altered.
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
