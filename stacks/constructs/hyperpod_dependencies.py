"""HyperPod's own chart on the EKS cluster."""

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from k8s_charts.hyperpod_dependencies import hyperpod_dependencies_release
from stacks.constructs.chart_asset import chart_asset


class HyperPodDependencies(Construct):
    """Must exist before the HyperPod cluster, and go after it."""

    def __init__(self, scope: Construct, id: str, *, cluster: eks.Cluster, region: str) -> None:
        super().__init__(scope, id)
        release = hyperpod_dependencies_release(region=region)
        eks.HelmChart(
            self,
            "Release",
            cluster=cluster,  # type: ignore[arg-type]  # aws_eks_v2.Cluster lacks ICluster's kubectl_provider_options
            chart_asset=chart_asset(self, release.chart),
            release=release.name,
            namespace=release.namespace,
            values=release.values,
            # Its DaemonSets wait for nodes that come only once the release is there.
            wait=False,
            timeout=Duration.minutes(10),
        )
