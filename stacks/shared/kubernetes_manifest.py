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
    """Apply a chart's objects, once `after` is there; they are deleted before it.

    The id is the objects' identity: under another id they would be created again, beside themselves. `prune`: an update
    deletes objects that left the chart, of the kinds that kubectl prunes.
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
