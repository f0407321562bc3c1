"""The platform stack: what a platform team upgrades now and then."""

from aws_cdk import Acknowledgment, Validations, aws_eks_v2
from aws_cdk import aws_iam as iam
from constructs import Construct

from config import Environment
from k8s_charts import names
from k8s_charts.assembly import PlatformFacts, platform_objects
from stacks.base import EnvironmentStack
from stacks.constructs.helm_release import helm_release
from stacks.constructs.irsa import IrsaRole
from stacks.constructs.manifest import manifest
from stacks.eks import EksStack


class PlatformStack(EnvironmentStack):
    """The FSx CSI driver, the KubeRay operator and the namespace of image builds.

    The ray stack needs all of it, and goes first when both are destroyed: an operator that is gone deletes no pods.
    """

    def __init__(self, scope: Construct, *, environment: Environment, eks: EksStack) -> None:
        super().__init__(
            scope,
            environment=environment,
            part="platform",
            purpose="FSx CSI driver, KubeRay operator, image-build namespace",
        )
        cluster = eks.cluster
        csi_role = _fsx_csi_role(self, cluster)
        objects = platform_objects(environment, PlatformFacts(fsx_csi_role_arn=csi_role.arn))

        csi_account = manifest(self, "FsxCsiServiceAccount", cluster=cluster, chart=objects.fsx_csi_account)
        driver = helm_release(self, "FsxCsiDriver", cluster=cluster, release=objects.fsx_csi)
        driver.node.add_dependency(csi_account)

        namespace = manifest(self, "KubeRayNamespace", cluster=cluster, chart=objects.kuberay_namespace)
        policies = manifest(self, "KubeRayPolicies", cluster=cluster, chart=objects.kuberay_policies, after=namespace)
        operator = helm_release(self, "KubeRay", cluster=cluster, release=objects.kuberay)
        operator.node.add_dependency(policies)

        builds = manifest(self, "ImageBuildNamespace", cluster=cluster, chart=objects.image_build_namespace)
        manifest(self, "ImageBuildPolicies", cluster=cluster, chart=objects.image_build_policies, after=builds)


def _fsx_csi_role(stack: PlatformStack, cluster: aws_eks_v2.Cluster) -> IrsaRole:
    role = IrsaRole(
        stack,
        "FsxCsiRole",
        cluster=cluster,
        namespace=names.SYSTEM_NAMESPACE,
        service_account=names.FSX_CSI_SERVICE_ACCOUNT,
        description="FSx CSI driver: looks at file systems, and neither makes nor deletes one",
        statements=[iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"])],
    )
    reason = "fsx:DescribeFileSystems has no resource type: IAM takes it for all resources only"
    Validations.of(role).acknowledge(Acknowledgment(id="AwsSolutions-IAM5[Resource::*]", reason=reason))
    return role
