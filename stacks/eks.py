"""The eks stack: the Kubernetes control plane and what must be on it before HyperPod comes."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from config import Environment, naming
from k8s_charts.hyperpod_dependencies import hyperpod_dependencies_release
from stacks.base import EnvironmentStack
from stacks.constructs.access_entries import AccessEntries
from stacks.constructs.eks_add_on import eks_add_on
from stacks.constructs.eks_cluster import EksCluster
from stacks.constructs.helm_release import helm_release
from stacks.constructs.system_nodes import SystemNodes
from stacks.network import NetworkStack


class EksStack(EnvironmentStack):
    """`dependencies_chart` must exist before the HyperPod cluster is created."""

    cluster: eks.Cluster
    dependencies_chart: IDependable

    def __init__(self, scope: Construct, *, environment: Environment, network: NetworkStack) -> None:
        super().__init__(
            scope, environment=environment, part="eks", purpose="EKS control plane, system nodes, HyperPod's chart"
        )
        control_plane = EksCluster(
            self,
            "Cluster",
            name=naming.eks_cluster(environment),
            settings=environment.eks,
            vpc=network.vpc,
            security_group=network.security_group,
        )
        self.cluster = control_plane.cluster
        AccessEntries(
            self,
            "Access",
            cluster=self.cluster,
            access=environment.access,
            submitters_namespace=environment.ray.namespace,
        )
        node_group = SystemNodes(
            self,
            "SystemNodes",
            cluster=self.cluster,
            settings=environment.eks.system_nodes,
            subnets=network.vpc.node_subnets,
            security_group=network.security_group,
        ).node_group
        # A node is Ready only with these; CoreDNS is healthy only with nodes.
        node_group.node.add_dependency(
            eks_add_on(self, "vpc-cni", cluster=self.cluster, configuration={"enableNetworkPolicy": "true"}),
            eks_add_on(self, "kube-proxy", cluster=self.cluster),
            eks_add_on(self, "eks-pod-identity-agent", cluster=self.cluster),
        )
        eks_add_on(self, "coredns", cluster=self.cluster).node.add_dependency(node_group)
        chart = helm_release(
            self,
            "HyperPodDependencies",
            cluster=self.cluster,
            release=hyperpod_dependencies_release(region=environment.region),
            # Its DaemonSets wait for nodes that come only once the release is there.
            wait=False,
        )
        # HyperPod looks at the chart's pods, which need a place before HyperPod's own nodes exist.
        chart.node.add_dependency(node_group)
        self.dependencies_chart = chart
