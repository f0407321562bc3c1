"""The charts of `observability.in_cluster`, from an environment."""

import cdk8s

from config import EksEnvironment, naming
from config.estimates.costs import prices_of_nodes
from config.facts import versions
from config.model import InCluster, InstanceGroup
from k8s_charts.helm.images import pulled
from k8s_charts.in_cluster.alertmanager import AlertFacts, Alertmanager, AlertmanagerChart
from k8s_charts.in_cluster.alerts import rule_groups
from k8s_charts.in_cluster.chart import ObservabilityChart
from k8s_charts.in_cluster.dashboards import dashboards
from k8s_charts.in_cluster.parts import Settings, WatchedNodes
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.flows import Flow, allowed, efa_metrics_flows, ends, gpu_metrics_flows, observability_flows
from k8s_charts.shared.names import (
    EFA_METRICS_NAMESPACE,
    GPU_METRICS_NAMESPACE,
    IMAGE_BUILD_NAMESPACE,
    PROMETHEUS_NAMESPACE,
)
from k8s_charts.shared.namespaces import Namespace, NamespaceChart
from k8s_charts.shared.network_policies import PoliciesChart
from k8s_charts.shared.tolerations import tolerations


def observability(app: cdk8s.App, environment: EksEnvironment, alerts: AlertFacts | None) -> dict[str, ProjectChart]:
    """Return the charts by name, in the order in which they are applied; nothing if it is off.

    Raises ValueError if the environment has Alertmanager and `alerts` is None.
    """
    wanted = environment.observability.in_cluster
    if wanted is None:
        return {}
    own = Namespace(PROMETHEUS_NAMESPACE, "restricted", environment.eks.version)
    flows = allowed(observability_flows(ends(environment)), environment)
    return {
        "namespace": NamespaceChart(app, "observability-namespace", namespace=own),
        "policies": PoliciesChart(app, "observability-policies", namespace=PROMETHEUS_NAMESPACE, flows=flows),
        **({"alertmanager": _alertmanager(app, environment, alerts)} if environment.alertmanager else {}),
        **_exporter_namespaces(app, environment),
        "programs": ObservabilityChart(app, "observability", settings=_settings(environment, wanted)),
    }


def _exporter_namespaces(app: cdk8s.App, environment: EksEnvironment) -> dict[str, ProjectChart]:
    gpus, efa = environment.observed_gpu_groups, environment.observed_efa_groups
    of_gpus = gpu_metrics_flows(ends(environment))
    return {
        **(_namespace(app, environment, "gpu", GPU_METRICS_NAMESPACE, of_gpus) if gpus else {}),
        **(_namespace(app, environment, "efa", EFA_METRICS_NAMESPACE, efa_metrics_flows()) if efa else {}),
    }


def _namespace(
    app: cdk8s.App, environment: EksEnvironment, part: str, name: str, flows: tuple[Flow, ...]
) -> dict[str, ProjectChart]:
    # Both exporters need a folder of the node, and that of GPUs a capability: the other levels refuse them.
    own = Namespace(name, "privileged", environment.eks.version)
    open_flows = allowed(flows, environment)
    return {
        f"{part}-namespace": NamespaceChart(app, f"{name}-namespace", namespace=own),
        f"{part}-policies": PoliciesChart(app, f"{name}-policies", namespace=name, flows=open_flows),
    }


def _watched(environment: EksEnvironment, groups: tuple[InstanceGroup, ...], image: str) -> WatchedNodes | None:
    if not groups:
        return None
    return WatchedNodes(
        groups=tuple(group.name for group in groups),
        tolerations=tuple(tolerations(taint for group in groups for taint in group.taints)),
        image=pulled(image, environment),
    )


def _settings(environment: EksEnvironment, wanted: InCluster) -> Settings:
    gpus = _watched(environment, environment.observed_gpu_groups, versions.DCGM_EXPORTER_IMAGE)
    efa = _watched(environment, environment.observed_efa_groups, versions.PYTHON_IMAGE)
    shown = {
        "gpus": gpus is not None,
        "efa": efa is not None,
        "sleep": bool(environment.hyperpod.sleeping_groups),
    }
    return Settings(
        ray_namespace=environment.ray.namespace,
        operator_namespace=environment.kuberay.namespace,
        prometheus_image=pulled(versions.PROMETHEUS_IMAGE, environment),
        grafana_image=pulled(versions.GRAFANA_IMAGE, environment),
        python_image=pulled(versions.PYTHON_IMAGE, environment),
        storage_gib=wanted.storage_gib,
        dashboards=dashboards(**shown),
        rule_groups=rule_groups(**shown),
        alertmanager=environment.alertmanager,
        build_namespace=IMAGE_BUILD_NAMESPACE if environment.image.built else None,
        prices=prices_of_nodes(environment),
        sleep=shown["sleep"],
        gpus=gpus,
        efa=efa,
    )


def _alertmanager(app: cdk8s.App, environment: EksEnvironment, facts: AlertFacts | None) -> ProjectChart:
    if facts is None:
        raise ValueError(f"{environment.name}: Alertmanager needs a topic and a role")
    settings = Alertmanager(
        environment=environment.name,
        cluster=naming.eks_cluster(environment),
        region=environment.region,
        image=pulled(versions.ALERTMANAGER_IMAGE, environment),
        facts=facts,
    )
    return AlertmanagerChart(app, "observability-alertmanager", alertmanager=settings)
