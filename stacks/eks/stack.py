"""The eks stack: a new or existing Kubernetes control plane, and what HyperPod requires in it."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from config import EksEnvironment, naming
from k8s_charts.helm.hyperpod_dependencies import hyperpod_dependencies_release
from k8s_charts.helm.images import with_copies
from stacks.eks.access_entries import ClusterAccessEntries
from stacks.eks.add_ons import eks_add_ons
from stacks.eks.cluster import EksControlPlane
from stacks.eks.existing_cluster import ExistingEksCluster
from stacks.eks.system_nodes import SystemNodeGroup
from stacks.network.stack import NetworkStack
from stacks.shared.environment_stack import EnvironmentStack
from stacks.shared.helm_release import helm_release


class EksStack(EnvironmentStack):
    """The EKS cluster with access entries, system nodes, add-ons and HyperPod's dependencies chart.

    `dependencies_chart` must exist before the HyperPod cluster is created.
    """

    cluster: eks.ICluster
    dependencies_chart: IDependable

    def __init__(self, scope: Construct, *, environment: EksEnvironment, network: NetworkStack) -> None:
        settings = environment.eks
        control_plane = f"Access to EKS cluster {settings.existing.name}" if settings.existing else "EKS control plane"
        super().__init__(
            scope, environment=environment, part="eks", purpose=f"{control_plane}, system nodes, HyperPod's chart"
        )
        reachable: list[IDependable] = []
        if settings.existing:
            used = ExistingEksCluster(
                self,
                "Cluster",
                existing=settings.existing,
                version=settings.version,
                vpc=network.vpc,
                security_group=network.security_group,
            )
            self.cluster, reachable = used.cluster, used.access
        else:
            self.cluster = EksControlPlane(
                self,
                "Cluster",
                name=naming.eks_cluster(environment),
                settings=settings,
                vpc=network.vpc,
                security_group=network.security_group,
                key=self.company_key,
            ).cluster
        ClusterAccessEntries(
            self,
            "Access",
            cluster=self.cluster,
            access=environment.access,
            ray_namespace=environment.ray.namespace,
        )
        node_group = SystemNodeGroup(
            self,
            "SystemNodes",
            cluster=self.cluster,
            settings=settings.system_nodes,
            version=settings.version,
            subnets=network.vpc.node_subnets,
            security_group=network.security_group,
            tags=naming.tags_of_all(environment),
            key=self.company_key,
        ).node_group
        if not settings.existing:
            eks_add_ons(self, cluster=self.cluster, add_ons=settings.add_ons, nodes=node_group)
        chart = helm_release(
            self,
            "HyperPodDependencies",
            cluster=self.cluster,
            release=with_copies(
                hyperpod_dependencies_release(
                    region=environment.region,
                    sub_charts=environment.hyperpod.sub_charts,
                    kubeflow=settings.existing.kubeflow if settings.existing else (),
                    taints=[taint for group in environment.hyperpod.instance_groups for taint in group.taints],
                ),
                environment,
            ),
            # Do not wait: the chart's DaemonSets need HyperPod's nodes, which are created only after the release.
            wait=False,
        )
        # Not after the nodes: HyperPod's cluster waits for this whole stack, the release does not wait for its pods.
        chart.node.add_dependency(*reachable)
        self.dependencies_chart = chart
