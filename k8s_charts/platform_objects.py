"""The platform stack's Kubernetes objects and Helm releases, from an environment.

The stack applies them with CloudFormation's references in `PlatformFacts`; `ops manifests` writes the same objects with
named placeholders.
"""

from dataclasses import dataclass

import cdk8s

from config import EksEnvironment, Environment, naming
from k8s_charts.helm.fsx_csi import fsx_csi_release
from k8s_charts.helm.images import with_copies
from k8s_charts.helm.kuberay import kuberay_crds_release, kuberay_release
from k8s_charts.helm.release import HelmRelease
from k8s_charts.shared import names
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.flows import IMAGE_BUILD_FLOWS, allowed, ends, operator_flows
from k8s_charts.shared.limits import IMAGE_BUILD_QUOTA
from k8s_charts.shared.namespaces import Namespace, NamespaceChart
from k8s_charts.shared.network_policies import PoliciesChart
from k8s_charts.shared.service_account import ServiceAccount, ServiceAccountChart
from k8s_charts.storage.storage_class import FileSystemClass, FileSystemClassChart


@dataclass(frozen=True)
class PlatformFacts:
    """What the platform stack knows only at deployment: the driver's role, and where it creates file systems."""

    fsx_csi_role_arn: str
    file_system_subnet_id: str
    file_system_security_group_id: str


@dataclass(frozen=True)
class PlatformObjects:
    """The platform stack's sets of objects; each set is applied and deleted as a whole."""

    kuberay_namespace: ProjectChart
    kuberay_policies: ProjectChart
    fsx_csi_account: ProjectChart
    image_build_namespace: ProjectChart | None
    image_build_policies: ProjectChart | None
    fsx_csi: HelmRelease
    storage_class: ProjectChart | None
    kuberay_crds: HelmRelease
    kuberay: HelmRelease


def platform_objects(environment: EksEnvironment, facts: PlatformFacts) -> PlatformObjects:
    """Return the objects and releases that the environment's platform stack applies."""
    app = cdk8s.App()
    kuberay = environment.kuberay
    version = environment.eks.version
    csi_account = ServiceAccount(
        name=names.FSX_CSI_SERVICE_ACCOUNT,
        namespace=names.SYSTEM_NAMESPACE,
        role_arn=facts.fsx_csi_role_arn,
        # The controller's sidecars watch volumes and claims.
        kubernetes_token=True,
    )
    return PlatformObjects(
        kuberay_namespace=NamespaceChart(
            app, "kuberay-namespace", namespace=Namespace(kuberay.namespace, "restricted", version)
        ),
        kuberay_policies=PoliciesChart(
            app,
            "kuberay-policies",
            namespace=kuberay.namespace,
            flows=allowed(operator_flows(ends(environment)), environment),
        ),
        fsx_csi_account=ServiceAccountChart(app, "fsx-csi-account", account=csi_account),
        image_build_namespace=_image_build_namespace(app, version) if environment.image.built else None,
        image_build_policies=_image_build_policies(app) if environment.image.built else None,
        fsx_csi=_fsx_csi(environment),
        storage_class=_storage_class(app, environment, facts),
        kuberay_crds=kuberay_crds_release(version=environment.kuberay_version),
        kuberay=with_copies(
            kuberay_release(
                version=environment.kuberay_version,
                namespace=kuberay.namespace,
                ray_pods=_most_ray_pods(environment),
            ),
            environment,
        ),
    )


def _image_build_namespace(app: cdk8s.App, version: str) -> ProjectChart:
    namespace = Namespace(names.IMAGE_BUILD_NAMESPACE, "privileged", version, quota=IMAGE_BUILD_QUOTA)
    return NamespaceChart(app, "image-build-namespace", namespace=namespace)


def _image_build_policies(app: cdk8s.App) -> ProjectChart:
    return PoliciesChart(app, "image-build-policies", namespace=names.IMAGE_BUILD_NAMESPACE, flows=IMAGE_BUILD_FLOWS)


def _fsx_csi(environment: EksEnvironment) -> HelmRelease:
    own = {naming.ENVIRONMENT_TAG: naming.environment_tag(environment)}
    tags = {**naming.tags_of_all(environment), **own} if environment.fsx.dynamic else None
    return with_copies(fsx_csi_release(region=environment.region, file_system_tags=tags), environment)


def _storage_class(app: cdk8s.App, environment: Environment, facts: PlatformFacts) -> ProjectChart | None:
    if not environment.fsx.dynamic:
        return None
    file_systems = FileSystemClass(
        environment.fsx,
        facts.file_system_subnet_id,
        facts.file_system_security_group_id,
        environment.company.kms_key,
    )
    return FileSystemClassChart(app, "storage-class", file_systems=file_systems)


def _most_ray_pods(environment: EksEnvironment) -> int:
    return sum(1 + sum(workers.max_replicas for workers in cluster.workers) for cluster in environment.ray.clusters)
