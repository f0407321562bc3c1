"""The ray stack's Kubernetes objects, from an environment.

The stack applies them with CloudFormation's references in `RayFacts`; `ops manifests` writes the same objects with
named placeholders.
"""

from dataclasses import dataclass
from typing import Literal

import cdk8s

from config import EksEnvironment, Environment, naming
from config.facts import versions
from config.facts.add_ons import TRAINING_OPERATOR
from k8s_charts.controllers.code import ControllerCode, ControllerCodeChart
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.controllers.reaper import ReaperChart, ReaperObjects
from k8s_charts.controllers.sleeper import SleeperChart, sleeper_objects
from k8s_charts.helm.images import pulled
from k8s_charts.image_build.context import build_arguments, context_files, context_tag
from k8s_charts.image_build.job import ImageBuild, ImageBuildChart
from k8s_charts.in_cluster.alertmanager import AlertFacts
from k8s_charts.in_cluster.from_environment import observability
from k8s_charts.ray.cluster import RayClusterChart
from k8s_charts.ray.from_environment import priority_class, ray_cluster, token_secrets
from k8s_charts.ray.priority_class import PriorityClassChart
from k8s_charts.ray.viewers import ViewersChart
from k8s_charts.shared import names
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.flows import allowed, ends, ray_flows
from k8s_charts.shared.namespaces import Namespace, NamespaceChart
from k8s_charts.shared.network_policies import PoliciesChart, RayClusterPoliciesChart
from k8s_charts.shared.service_account import ServiceAccount, ServiceAccountChart
from k8s_charts.storage.directory_owner import OWN_CLAIM, ClosedNamespaceChart, VolumeOwner, VolumeOwnerChart
from k8s_charts.storage.volumes import (
    FileSystemAddress,
    FileSystemVolume,
    FileSystemVolumeChart,
    ProvisionedClaim,
    ProvisionedClaimChart,
    existing_file_system,
)


@dataclass(frozen=True)
class ImageBuildFacts:
    """What is known about the image build only at deployment: its role, and the S3 address of its context."""

    role_arn: str
    context: str


@dataclass(frozen=True)
class RayFacts:
    """What the ray stack knows only at deployment.

    `file_system` is the one in the storage stack, or None if that stack has none. `image_build` is None if the
    environment uses an existing image, `alerts` if it has no Alertmanager, and `sleeper_role_arn` if no group sleeps.
    """

    file_system: FileSystemAddress | None
    ray_role_arn: str
    image_build: ImageBuildFacts | None
    alerts: AlertFacts | None = None
    sleeper_role_arn: str | None = None


@dataclass(frozen=True)
class RayObjects:
    """The ray stack's sets of objects, each applied and deleted as a whole; the last three are by RayCluster name.

    `observability` is empty if it is off."""

    namespace: ProjectChart
    policies: ProjectChart
    account: ProjectChart
    volume: ProjectChart
    volume_owner: dict[str, ProjectChart]
    image_builder_account: ProjectChart | None
    image_build: ProjectChart | None
    controller_code: ProjectChart
    reaper: ProjectChart
    sleeper: ProjectChart | None
    job_supervisor: ProjectChart
    observability: dict[str, ProjectChart]
    viewers: ProjectChart | None
    cluster_policies: dict[str, ProjectChart]
    priorities: dict[str, ProjectChart]
    clusters: dict[str, ProjectChart]


def ray_objects(environment: EksEnvironment, facts: RayFacts) -> RayObjects:
    """Return the objects that the environment's ray stack applies."""
    app = cdk8s.App()
    namespace = environment.ray.namespace
    clusters = environment.ray.clusters
    image = ray_image(environment)
    build = _image_build_facts(environment, facts)
    return RayObjects(
        namespace=NamespaceChart(app, "ray-namespace", namespace=_ray_namespace(environment)),
        policies=PoliciesChart(
            app, "ray-policies", namespace=namespace, flows=allowed(ray_flows(ends(environment)), environment)
        ),
        account=ServiceAccountChart(
            app, "ray-account", account=ServiceAccount(names.RAY_SERVICE_ACCOUNT, namespace, facts.ray_role_arn)
        ),
        volume=_volume(app, environment, facts),
        volume_owner=_volume_owner(app, environment, facts),
        image_builder_account=_image_builder_account(app, build.role_arn) if build else None,
        image_build=_image_build(app, environment, build.context) if build else None,
        controller_code=_controller_code(app, environment),
        reaper=ReaperChart(app, "reaper", reaper=_reaper(environment)),
        sleeper=_sleeper(app, environment, facts) if environment.hyperpod.sleeping_groups else None,
        job_supervisor=JobSupervisorChart(app, "job-supervisor", supervisor=_job_supervisor(environment)),
        observability=observability(app, environment, facts.alerts),
        viewers=_viewers(app, environment) if environment.access.viewers else None,
        cluster_policies={
            cluster.name: RayClusterPoliciesChart(
                app, f"policies-{cluster.name}", namespace=namespace, cluster=cluster.name
            )
            for cluster in clusters
        },
        priorities={
            cluster.name: PriorityClassChart(app, f"priority-{cluster.name}", priority=priority)
            for cluster in clusters
            if (priority := priority_class(environment, cluster))
        },
        clusters={
            cluster.name: RayClusterChart(
                app, f"cluster-{cluster.name}", cluster=ray_cluster(environment, cluster, image)
            )
            for cluster in clusters
        },
    )


def ray_image(environment: EksEnvironment) -> str:
    """Return the image that Ray's pods run: the existing one, or the one that is built."""
    return environment.image.uri or image_build(environment, context="").image


def image_build(environment: EksEnvironment, *, context: str) -> ImageBuild:
    """Return the build of the environment's Ray image; its tag is known without a deployment.

    Raises ValueError if the environment uses an existing image.
    """
    if environment.image.repository is None:
        raise ValueError(f"{environment.name}: image.uri is set: there is nothing to build")
    arguments = build_arguments(environment.version_set)
    tag = context_tag(context_files(environment.version_set, environment.image.pip), arguments)
    return ImageBuild(
        registry=f"{environment.account}.dkr.ecr.{environment.region}.amazonaws.com",
        repository=environment.image.repository,
        tag=tag,
        arguments={**arguments, "BASE_IMAGE": pulled(environment.version_set.base_image, environment)},
        log=f"s3://{naming.data_bucket(environment)}/{names.IMAGE_BUILD_LOGS}/{tag}.log",
        tools_registry=environment.image_registry,
        context=context,
        region=environment.region,
    )


def _image_build_facts(environment: EksEnvironment, facts: RayFacts) -> ImageBuildFacts | None:
    if not environment.image.built:
        return None
    if facts.image_build is None:
        raise ValueError(f"{environment.name}: the build of its image needs a role and a context")
    return facts.image_build


def _image_builder_account(app: cdk8s.App, role_arn: str) -> ProjectChart:
    account = ServiceAccount(names.IMAGE_BUILDER_SERVICE_ACCOUNT, names.IMAGE_BUILD_NAMESPACE, role_arn)
    return ServiceAccountChart(app, "image-builder-account", account=account)


def _image_build(app: cdk8s.App, environment: EksEnvironment, context: str) -> ProjectChart:
    return ImageBuildChart(app, "image-build", build=image_build(environment, context=context))


def _viewers(app: cdk8s.App, environment: EksEnvironment) -> ProjectChart:
    ray = environment.ray.namespace
    own = [ray, environment.kuberay.namespace, naming.volume_namespace(environment)]
    build = [names.IMAGE_BUILD_NAMESPACE] if environment.image.built else []
    seen = [names.PROMETHEUS_NAMESPACE] if environment.observability.in_cluster else []
    seen += [names.GPU_METRICS_NAMESPACE] if environment.observed_gpu_groups else []
    seen += [names.EFA_METRICS_NAMESPACE] if environment.observed_efa_groups else []
    namespaces = list(dict.fromkeys([*own, *build, *seen]))
    jobs = _hyperpod_jobs(environment)
    return ViewersChart(app, "viewers", ray_namespace=ray, namespaces=namespaces, hyperpod_jobs=jobs)


def _ray_namespace(environment: EksEnvironment) -> Namespace:
    # For a dynamic claim, the Job that sets the directory's owner runs here as root (storage/directory_owner.py).
    level: Literal["baseline", "restricted"] = "baseline" if environment.fsx.dynamic else "restricted"
    return Namespace(environment.ray.namespace, level, environment.eks.version)


def _volume(app: cdk8s.App, environment: EksEnvironment, facts: RayFacts) -> ProjectChart:
    fsx, namespace = environment.fsx, environment.ray.namespace
    if fsx.dynamic:
        claim = ProvisionedClaim(fsx.claim, namespace, fsx.capacity_gib)
        return ProvisionedClaimChart(app, "volume", claim=claim)
    volume = _static_volume(environment, facts, namespace=namespace, claim=fsx.claim)
    return FileSystemVolumeChart(app, "volume", volume=volume)


def _static_volume(environment: Environment, facts: RayFacts, *, namespace: str, claim: str) -> FileSystemVolume:
    file_system = existing_file_system(environment.fsx, environment.region) or facts.file_system
    if file_system is None:
        raise ValueError(f"{environment.name}: a static volume needs the storage stack's file system")
    return FileSystemVolume(claim, namespace, environment.fsx.capacity_gib, file_system)


def _volume_owner(app: cdk8s.App, environment: EksEnvironment, facts: RayFacts) -> dict[str, ProjectChart]:
    """Return the Job and the objects that it needs, by name, in the order in which they are applied."""
    fsx = environment.fsx
    image = pulled(versions.PYTHON_IMAGE, environment)
    namespace = naming.volume_namespace(environment)
    linked = tuple(repository.path for repository in fsx.data_repositories)
    owner = VolumeOwner(namespace, fsx.claim if fsx.dynamic else OWN_CLAIM, fsx.mount_path, image, linked)
    job = VolumeOwnerChart(app, "volume-owner", owner=owner)
    if fsx.dynamic:
        return {"job": job}
    level = Namespace(namespace, "baseline", environment.eks.version)
    volume = _static_volume(environment, facts, namespace=namespace, claim=OWN_CLAIM)
    return {
        "namespace": NamespaceChart(app, "volume-owner-namespace", namespace=level),
        "policies": ClosedNamespaceChart(app, "volume-owner-policies", namespace=namespace),
        "volume": FileSystemVolumeChart(app, "volume-owner-volume", volume=volume),
        "job": job,
    }


def _controller_code(app: cdk8s.App, environment: EksEnvironment) -> ProjectChart:
    sleeper = ControllerCode("sleeper", names.SLEEPER_CODE, environment.kuberay.namespace)
    controllers = (
        ControllerCode("reaper", names.REAPER_CODE, environment.kuberay.namespace),
        ControllerCode("job_supervisor", names.JOB_SUPERVISOR_CODE, environment.ray.namespace),
        ControllerCode("rayjob_submitter", names.RAYJOB_SUBMITTER_CODE, environment.ray.namespace),
        *([sleeper] if environment.hyperpod.sleeping_groups else []),
    )
    return ControllerCodeChart(app, "controller-code", controllers=controllers)


def _reaper(environment: EksEnvironment) -> ReaperObjects:
    image = pulled(versions.PYTHON_IMAGE, environment)
    return ReaperObjects(environment.kuberay.namespace, environment.ray.namespace, image)


def _sleeper(app: cdk8s.App, environment: EksEnvironment, facts: RayFacts) -> ProjectChart:
    if facts.sleeper_role_arn is None:
        raise ValueError(f"{environment.name}: the sleeper needs a role")
    return SleeperChart(app, "sleeper", sleeper=sleeper_objects(environment, facts.sleeper_role_arn))


def _job_supervisor(environment: EksEnvironment) -> JobSupervisor:
    image = pulled(versions.PYTHON_IMAGE, environment)
    return JobSupervisor(environment.ray.namespace, image, _hyperpod_jobs(environment), token_secrets(environment))


def _hyperpod_jobs(environment: EksEnvironment) -> bool:
    """Return whether the environment installs the operator of HyperPodPyTorchJobs."""
    return any(each.name == TRAINING_OPERATOR for each in environment.eks.add_ons)
