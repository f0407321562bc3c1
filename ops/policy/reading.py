"""What every role reads: where the cluster is, what is deployed, what state it is in."""

from config import naming
from k8s_charts.shared.names import IMAGE_BUILD_LOGS
from ops.policy import keys
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import Statement, actions


def find_kubernetes(arns: Arns) -> Statement:
    """Return the right to find the Kubernetes API; EKS's access entries decide what a caller may do there."""
    return Statement("FindKubernetes", actions("eks", "DescribeCluster"), arns.eks_cluster)


def find_access_entry(arns: Arns) -> Statement:
    """Return the right to read who has access to the cluster: `hyp set-cluster-context` refuses without it."""
    return Statement("FindAccessEntry", actions("eks", "DescribeAccessEntry"), arns.in_eks("access-entry"))


def read_stacks(arns: Arns) -> Statement:
    """Return the rights to read the environment's stacks."""
    names = "DescribeStackEvents DescribeStacks GetTemplate ListStackResources"
    return Statement("ReadStacks", actions("cloudformation", names), arns.stacks)


def find_hyperpod(arns: Arns) -> Statement:
    """Return the right to find the HyperPod cluster: its id names the log group of its nodes."""
    return Statement("FindHyperPod", actions("sagemaker", "DescribeCluster"), arns.hyperpod_clusters)


def read_hyperpod(arns: Arns) -> Statement:
    """Return the rights to read the HyperPod cluster, its nodes and its events."""
    names = "DescribeCluster DescribeClusterEvent ListClusterEvents ListClusterNodes"
    return Statement("ReadHyperPod", actions("sagemaker", names), arns.hyperpod_clusters)


def find_nodes(arns: Arns) -> Statement:
    """Return the rights to find the HyperPod cluster's nodes, which `ops ssh-config` lists."""
    return Statement("FindNodes", actions("sagemaker", "DescribeCluster ListClusterNodes"), arns.hyperpod_clusters)


def list_hyperpod() -> Statement:
    """Return the right to list the account's HyperPod clusters, as `hyp list-cluster` does."""
    return Statement("ListHyperPod", actions("sagemaker", "ListClusters"), EVERYTHING)


def read_image(arns: Arns) -> tuple[Statement, ...]:
    """Return the rights to see whether the Ray image is built, and the log of its build."""
    log = f"arn:aws:s3:::{naming.data_bucket(arns.environment)}/{IMAGE_BUILD_LOGS}/*"
    return (
        Statement("ReadImage", actions("ecr", "DescribeImages"), arns.repository),
        Statement("ReadBuildLog", actions("s3", "GetObject"), (log,) if arns.repository else ()),
        *([keys.use(arns, "DecryptBuildLog", "s3", "Decrypt")] if arns.repository else ()),
    )


def read_node_logs(arns: Arns) -> Statement:
    """Return the right to read what HyperPod logs of its nodes."""
    return Statement("ReadNodeLogs", actions("logs", "FilterLogEvents"), arns.node_logs)


def read_node_groups(arns: Arns) -> Statement:
    """Return the right to read the node group of system nodes."""
    return Statement("ReadNodeGroups", actions("eks", "DescribeNodegroup"), arns.in_eks("nodegroup"))


def read_file_systems() -> Statement:
    """Return the rights to read file systems, and their use."""
    use = (*actions("fsx", "DescribeFileSystems"), *actions("cloudwatch", "GetMetricStatistics"))
    return Statement("ReadFileSystems", use, EVERYTHING)
