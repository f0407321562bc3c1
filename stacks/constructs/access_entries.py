"""Who may use the Kubernetes API: EKS access entries for the environment's IAM roles."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from config.model import Access

_POLICY = "arn:aws:eks::aws:cluster-access-policy/{}"
_ADMIN = _POLICY.format("AmazonEKSClusterAdminPolicy")
# RayCluster, RayJob, Job and Pod, and nothing of the cluster itself (AWS docs: sagemaker-hyperpod-ray-manage-kubectl).
_SUBMITTER = _POLICY.format("AmazonSagemakerHyperpodTrainingPolicy")


class AccessEntries(Construct):
    """Admins may do everything everywhere; submitters may run Ray in `submitters_namespace`."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.Cluster, access: Access, submitters_namespace: str
    ) -> None:
        super().__init__(scope, id)
        everywhere = eks.CfnAccessEntry.AccessScopeProperty(type="cluster")
        in_namespace = eks.CfnAccessEntry.AccessScopeProperty(type="namespace", namespaces=[submitters_namespace])
        for kind, roles, policy, access_scope in (
            ("Admin", access.admins, _ADMIN, everywhere),
            ("Submitter", access.submitters, _SUBMITTER, in_namespace),
        ):
            for role in roles:
                eks.CfnAccessEntry(
                    self,
                    f"{kind}-{role.split('/', 1)[1]}",
                    cluster_name=cluster.cluster_name,
                    principal_arn=role,
                    access_policies=[
                        eks.CfnAccessEntry.AccessPolicyProperty(policy_arn=policy, access_scope=access_scope)
                    ],
                )
