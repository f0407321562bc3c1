"""Kubernetes objects that are applied, updated and deleted as one CloudFormation resource."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from k8s_charts.shared.chart import ProjectChart


def manifest(
    scope: Construct,
    id: str,
    *,
    cluster: eks.ICluster,
    chart: ProjectChart,
    after: IDependable | None = None,
    prune: bool = True,
) -> eks.KubernetesManifest:
    """Apply a chart's objects after `after` exists; they are deleted before it.

    Keep `id`: for CloudFormation another id is another resource, and the old resource's objects are deleted. With
    `prune` an update deletes objects that were removed from the chart, of the kinds that kubectl prunes.
    """
    applied = eks.KubernetesManifest(
        scope,
        id,
        cluster=cluster,
        manifest=chart.to_json(),
        prune=prune,
    )
    if after is not None:
        applied.node.add_dependency(after)
    return applied
