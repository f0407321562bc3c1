"""The teardown guard, which deletes HyperPod clusters that would outlive their stack."""

from aws_cdk import CustomResource
from constructs import Construct

from stacks.hyperpod.provider import ClusterProvider


class ClusterTeardown(Construct):
    """A resource that acts only on its own deletion: it deletes every cluster with this stack's tag, and waits.

    The cluster depends on the guard, so the guard is created before the cluster and deleted after it. The guard depends
    on all that an orderly deletion of a cluster needs: execution role, lifecycle scripts, dependencies chart, security
    group rules.
    """

    def __init__(self, scope: Construct, id: str, *, provider: ClusterProvider) -> None:
        super().__init__(scope, id)
        CustomResource(
            self, "Resource", resource_type="Custom::HyperPodClusterTeardown", service_token=provider.service_token
        )
