"""The platform stack: components that a platform team upgrades from time to time."""

from constructs import Construct

from config import EksEnvironment
from k8s_charts.platform_objects import PlatformFacts, platform_objects
from stacks.eks.stack import EksStack
from stacks.network.stack import NetworkStack
from stacks.platform.fsx_csi_role import fsx_csi_role
from stacks.shared.environment_stack import EnvironmentStack
from stacks.shared.helm_release import helm_release
from stacks.shared.kubernetes_manifest import manifest


class PlatformStack(EnvironmentStack):
    """The FSx CSI driver with its storage class, the KubeRay operator and the namespace of image builds.

    The ray stack needs all of them. It is destroyed before this stack: a deleted operator would leave its pods behind.
    """

    def __init__(self, scope: Construct, *, environment: EksEnvironment, network: NetworkStack, eks: EksStack) -> None:
        super().__init__(
            scope,
            environment=environment,
            part="platform",
            purpose="FSx CSI driver, KubeRay operator, image-build namespace",
        )
        cluster = eks.cluster
        csi_role = fsx_csi_role(self, cluster, environment)
        facts = PlatformFacts(
            fsx_csi_role_arn=csi_role.arn,
            file_system_subnet_id=network.vpc.node_subnets[0].subnet_id,
            file_system_security_group_id=network.security_group.security_group_id,
        )
        objects = platform_objects(environment, facts)

        csi_account = manifest(self, "FsxCsiServiceAccount", cluster=cluster, chart=objects.fsx_csi_account)
        # Do not wait: the DaemonSet is ready only when every node is, so one lost node would fail the deployment and
        # its rollback. `ops wait` waits for the Job that sets the owner of Ray's directory: it needs a mounted volume.
        driver = helm_release(self, "FsxCsiDriver", cluster=cluster, release=objects.fsx_csi, wait=False)
        driver.node.add_dependency(csi_account)
        if objects.storage_class:
            manifest(self, "StorageClass", cluster=cluster, chart=objects.storage_class, after=driver)

        namespace = manifest(self, "KubeRayNamespace", cluster=cluster, chart=objects.kuberay_namespace)
        policies = manifest(self, "KubeRayPolicies", cluster=cluster, chart=objects.kuberay_policies, after=namespace)
        crds = helm_release(self, "KubeRayCrds", cluster=cluster, release=objects.kuberay_crds)
        operator = helm_release(self, "KubeRay", cluster=cluster, release=objects.kuberay)
        # Helm skips definitions of the chart's own `crds/` that already exist.
        operator.node.add_dependency(policies, crds)

        if objects.image_build_namespace and objects.image_build_policies:
            builds = manifest(self, "ImageBuildNamespace", cluster=cluster, chart=objects.image_build_namespace)
            manifest(self, "ImageBuildPolicies", cluster=cluster, chart=objects.image_build_policies, after=builds)
