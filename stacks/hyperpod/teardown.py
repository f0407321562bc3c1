"""The guard that leaves no HyperPod cluster behind."""

from aws_cdk import CustomResource
from constructs import Construct

from stacks.hyperpod.provider import ClusterProvider


class ClusterTeardown(Construct):
    """Does nothing until it is deleted; then removes every cluster that carries this stack's tag and waits for it.

    The cluster depends on it, so it is created before and deleted after. It depends on whatever a cluster needs to
    be deleted in good order: execution role, lifecycle scripts, dependencies chart, security group rules.
    """

    def __init__(self, scope: Construct, id: str, *, provider: ClusterProvider) -> None:
        super().__init__(scope, id)
        CustomResource(
            self, "Resource", resource_type="Custom::HyperPodClusterTeardown", service_token=provider.service_token
        )
