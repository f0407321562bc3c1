"""The ray stack: what a training team changes every week."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct, IDependable

from config import EksEnvironment, naming
from k8s_charts.controllers import code as controller_code
from k8s_charts.helm.images import own_repository, pulled
from k8s_charts.image_build.context import context_files, write_context
from k8s_charts.in_cluster import chart as observability
from k8s_charts.in_cluster.alertmanager import AlertFacts
from k8s_charts.ray_objects import ImageBuildFacts, RayFacts, image_build, ray_objects
from k8s_charts.shared import names
from k8s_charts.shared.chart import ProjectChart
from stacks.eks.stack import EksStack
from stacks.observability.alert_topic import AlertTopic
from stacks.observability.alertmanager import publisher_role
from stacks.observability.container_insights.add_on import Alarms, Insights
from stacks.observability.container_insights.dashboard import AwsDashboard
from stacks.observability.hyperpod_observability.add_on import HyperPodAddOn
from stacks.observability.hyperpod_observability.grafana import GrafanaWorkspace
from stacks.ray.file_system_guard import FileSystemGuard
from stacks.ray.roles import image_builder_role, ray_role, sleeper_role
from stacks.shared.environment_stack import EnvironmentStack
from stacks.shared.kubernetes_manifest import manifest
from stacks.shared.object_release import object_release
from stacks.storage.mlflow import ARTIFACTS, logging_rights
from stacks.storage.stack import StorageStack


class RayStack(EnvironmentStack):
    """Ray's namespace, its volume and policies, the build of its image, and the RayClusters."""

    def __init__(self, scope: Construct, *, environment: EksEnvironment, storage: StorageStack, eks: EksStack) -> None:
        super().__init__(
            scope, environment=environment, part="ray", purpose="RayClusters, their volume, policies and image"
        )
        cluster = eks.cluster
        alerts = self._alert_topic(environment)
        facts = RayFacts(
            file_system=storage.file_system,
            ray_role_arn=ray_role(
                self,
                cluster,
                environment.ray.namespace,
                naming.data_bucket(environment),
                self.company_key,
                further=logging_rights(environment) if environment.managed_mlflow else (),
                further_prefixes=(ARTIFACTS,) if environment.managed_mlflow else (),
            ).arn,
            image_build=self._image_build(environment, storage.image_repository, cluster),
            alerts=self._alertmanager(alerts, cluster) if alerts and environment.alertmanager else None,
            sleeper_role_arn=self._sleeper(environment, cluster) if environment.hyperpod.sleeping_groups else None,
        )
        objects = ray_objects(environment, facts)

        namespace = manifest(self, "Namespace", cluster=cluster, chart=objects.namespace)
        # Update the code before its pods are rolled, so that the new pods start with the new code.
        code = object_release(
            self,
            "ControllerCode",
            cluster=cluster,
            name=controller_code.RELEASE,
            namespace=environment.kuberay.namespace,
            chart=objects.controller_code,
            after=namespace,
        )
        # Deleted after the volume: a pod stuck on a lost node keeps the claim in use until the reaper deletes the pod.
        reaper = manifest(self, "Reaper", cluster=cluster, chart=objects.reaper, after=code)
        if objects.sleeper:
            manifest(self, "Sleeper", cluster=cluster, chart=objects.sleeper, after=code)
        volume = manifest(self, "Volume", cluster=cluster, chart=objects.volume, after=reaper)
        if environment.fsx.dynamic:
            volume.node.add_dependency(FileSystemGuard(self, "FileSystemGuard", environment=environment))
        namespaces = [namespace]
        # The Job uses a dynamic claim; otherwise it has a claim and a namespace of its own.
        before = volume if environment.fsx.dynamic else None
        for part, own in objects.volume_owner.items():
            before = manifest(self, f"VolumeOwner-{part}", cluster=cluster, chart=own, after=before)
            if part == "namespace":
                namespaces.append(before)
        ready = [
            manifest(self, "NetworkPolicies", cluster=cluster, chart=objects.policies, after=namespace),
            manifest(self, "ServiceAccount", cluster=cluster, chart=objects.account, after=namespace),
            volume,
        ]
        # Do not prune: Jobs of runs mount the ConfigMap that earlier deployments created here (docs/adr/0042).
        manifest(self, "JobSupervisor", cluster=cluster, chart=objects.job_supervisor, after=reaper, prune=False)
        if objects.observability:
            namespaces += self._observe(objects.observability, cluster, after=namespace)
        if objects.viewers:
            # It has Roles in these namespaces.
            viewers = manifest(self, "Viewers", cluster=cluster, chart=objects.viewers)
            viewers.node.add_dependency(*namespaces)
        self._observe_with_aws(environment, cluster, storage, alerts)
        for wanted in environment.ray.clusters:
            ray_cluster = manifest(
                self, f"RayCluster-{wanted.name}", cluster=cluster, chart=objects.clusters[wanted.name]
            )
            policies = objects.cluster_policies[wanted.name]
            inside = manifest(self, f"Policies-{wanted.name}", cluster=cluster, chart=policies, after=namespace)
            ray_cluster.node.add_dependency(*ready, inside)
            if chart := objects.priorities.get(wanted.name):
                # Another value is another resource: created before the RayCluster's update, the old one deleted after.
                id = f"Priority-{wanted.name}-{wanted.priority}"
                ray_cluster.node.add_dependency(manifest(self, id, cluster=cluster, chart=chart))

        if objects.image_builder_account and objects.image_build:
            builder = manifest(self, "ImageBuilderAccount", cluster=cluster, chart=objects.image_builder_account)
            manifest(self, "ImageBuild", cluster=cluster, chart=objects.image_build, after=builder)

    def _observe(
        self, charts: Mapping[str, ProjectChart], cluster: eks.ICluster, *, after: IDependable
    ) -> list[eks.KubernetesManifest]:
        """Add the observability of the cluster; return its namespaces."""
        namespace = manifest(self, "ObservabilityNamespace", cluster=cluster, chart=charts["namespace"], after=after)
        policies = manifest(self, "ObservabilityPolicies", cluster=cluster, chart=charts["policies"], after=namespace)
        namespaces, before = [namespace], policies
        for part in (part for part in ("gpu", "efa") if f"{part}-namespace" in charts):
            id = f"{part.title()}Metrics"
            own = manifest(self, f"{id}Namespace", cluster=cluster, chart=charts[f"{part}-namespace"], after=before)
            before = manifest(self, f"{id}Policies", cluster=cluster, chart=charts[f"{part}-policies"], after=own)
            namespaces.append(own)
        if chart := charts.get("alertmanager"):
            manifest(self, "Alertmanager", cluster=cluster, chart=chart, after=policies)
        object_release(
            self,
            "Observability",
            cluster=cluster,
            name=observability.RELEASE,
            namespace=names.PROMETHEUS_NAMESPACE,
            chart=charts["programs"],
            after=before,
        )
        return namespaces

    def _alert_topic(self, environment: EksEnvironment) -> AlertTopic | None:
        if not (environment.container_insights or environment.alertmanager):
            return None
        name = f"Alerts of {naming.eks_cluster(environment)}"
        wanted = environment.observability.alerts
        services = {"Alarms": "cloudwatch.amazonaws.com"} if environment.container_insights else {}
        return AlertTopic(self, "Alerts", display_name=name, alerts=wanted, services=services, key=self.company_key)

    def _alertmanager(self, alerts: AlertTopic, cluster: eks.ICluster) -> AlertFacts:
        role = publisher_role(self, cluster, alerts)
        return AlertFacts(topic_arn=alerts.topic.topic_arn, role_arn=role.arn)

    def _sleeper(self, environment: EksEnvironment, cluster: eks.ICluster) -> str:
        function = naming.group_counts(environment)
        return sleeper_role(self, cluster, namespace=environment.kuberay.namespace, function=function).arn

    def _observe_with_aws(
        self, environment: EksEnvironment, cluster: eks.ICluster, storage: StorageStack, alerts: AlertTopic | None
    ) -> None:
        wanted, name = environment.observability, naming.eks_cluster(environment)
        if wanted.hyperpod:
            alias = naming.named(environment, "metrics")
            add_on = HyperPodAddOn(self, "HyperPodObservability", cluster=cluster, alias=alias, key=self.company_key)
            if wanted.hyperpod.grafana:
                GrafanaWorkspace(
                    self,
                    "Grafana",
                    name=naming.named(environment, "grafana"),
                    prometheus_arn=add_on.workspace_arn,
                    settings=wanted.hyperpod.grafana,
                    key=self.company_key,
                )
        if wanted.container_insights is None or alerts is None:
            return
        Insights(self, "ContainerInsights", cluster=cluster, cluster_name=name, settings=wanted.container_insights)
        file_system = storage.file_system.id if storage.file_system else ""
        dimensions = {"ClusterName": name, "FileSystemId": file_system}
        alarms = Alarms(self, "Alarms", environment=environment, topic=alerts.topic, dimensions=dimensions)
        AwsDashboard(self, "Dashboard", environment=environment, alarms=alarms.made, dimensions=dimensions)

    def _image_build(
        self, environment: EksEnvironment, repository: ecr.IRepository | None, cluster: eks.ICluster
    ) -> ImageBuildFacts | None:
        if repository is None:
            return None
        with TemporaryDirectory() as directory:
            write_context(context_files(environment.version_set, environment.image.pip), Path(directory))
            context = s3_assets.Asset(self, "ImageContext", path=directory)
        base = own_repository(pulled(environment.version_set.base_image, environment), environment)
        log = image_build(environment, context="").log
        role = image_builder_role(
            self, cluster, repository, context, log=log, base_repository=base, key=self.company_key
        )
        return ImageBuildFacts(role_arn=role.arn, context=context.s3_object_url)
