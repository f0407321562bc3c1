"""EKS access entries: which IAM roles may use the Kubernetes API, and for what."""

from typing import Final

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from config.model import Access
from k8s_charts.shared.names import submitters_group, viewers_group

_POLICY: Final = "arn:aws:eks::aws:cluster-access-policy/{}"
ADMIN_POLICY: Final = _POLICY.format("AmazonEKSClusterAdminPolicy")
# Full access to RayCluster, RayJob, RayCronJob, Job and Pod, and nothing of the cluster itself (AWS docs:
# sagemaker-hyperpod-ray-manage-kubectl; EKS user guide, access policy permissions).
_SUBMITTER_POLICY: Final = _POLICY.format("AmazonSagemakerHyperpodTrainingPolicy")

EVERYWHERE: Final = eks.CfnAccessEntry.AccessScopeProperty(type="cluster")


class ClusterAccessEntries(Construct):
    """Access entries: admins administer the cluster, submitters run Ray in `ray_namespace`, viewers change nothing."""

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster, access: Access, ray_namespace: str) -> None:
        super().__init__(scope, id)
        in_namespace = eks.CfnAccessEntry.AccessScopeProperty(type="namespace", namespaces=[ray_namespace])
        # The ray stack binds these groups to Roles: submitters get the other rights that `ops job` needs
        # (k8s_charts/controllers/job_supervisor.py), viewers all that they have (k8s_charts/ray/viewers.py).
        submitters, viewers = [submitters_group(ray_namespace)], [viewers_group(ray_namespace)]
        for kind, roles, policies, groups in (
            ("Admin", access.admins, [_associated(ADMIN_POLICY, EVERYWHERE)], None),
            ("Submitter", access.submitters, [_associated(_SUBMITTER_POLICY, in_namespace)], submitters),
            ("Viewer", access.viewers, None, viewers),
        ):
            for role in roles:
                eks.CfnAccessEntry(
                    self,
                    f"{kind}-{role.split('/', 1)[1]}",
                    cluster_name=cluster.cluster_name,
                    principal_arn=role,
                    kubernetes_groups=groups,
                    access_policies=policies,
                )


def _associated(policy: str, scope: eks.CfnAccessEntry.AccessScopeProperty) -> eks.CfnAccessEntry.AccessPolicyProperty:
    return eks.CfnAccessEntry.AccessPolicyProperty(policy_arn=policy, access_scope=scope)
