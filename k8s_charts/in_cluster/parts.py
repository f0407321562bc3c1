"""Objects that Prometheus, Grafana and Alertmanager have in common, as plain data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import cdk8s

from k8s_charts.controllers.code import POD_SECURITY
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.shared.chart import ProjectChart, add_object
from k8s_charts.shared.names import PROMETHEUS_NAMESPACE

RBAC: Final = "rbac.authorization.k8s.io"
# A probe of `ops isolation-check` has the labels that the policies name, and must not become a Service's endpoint.
SERVES: Final = {"ray-on-hyperpod/serves": "true"}


@dataclass(frozen=True)
class WatchedNodes:
    """Nodes with an exporter: their instance groups, tolerations of the groups' taints, the exporter's image."""

    groups: tuple[str, ...]
    tolerations: tuple[Mapping[str, Any], ...]
    image: str


@dataclass(frozen=True)
class Settings:
    """What differs between environments: namespaces, images, disk and nodes; and what is shown and alerted.

    `prices` maps instance types to US dollars per hour. With `alertmanager` Prometheus sends its alerts there.
    With `sleep` it scrapes the sleeper.
    `build_namespace` is None if no image is built, `gpus` without nodes with GPUs, and `efa` without nodes with EFA.
    """

    ray_namespace: str
    operator_namespace: str
    prometheus_image: str
    grafana_image: str
    python_image: str
    storage_gib: int
    dashboards: Mapping[str, Mapping[str, Any]]
    rule_groups: tuple[Mapping[str, Any], ...]
    alertmanager: bool
    build_namespace: str | None
    prices: Mapping[str, float]
    sleep: bool
    gpus: WatchedNodes | None = None
    efa: WatchedNodes | None = None


@dataclass(frozen=True)
class ObservabilityObject:
    """An object: `body` holds its fields beside the metadata. Without a namespace it belongs to the cluster."""

    api_version: str
    kind: str
    name: str
    body: Mapping[str, Any]
    namespace: str | None = PROMETHEUS_NAMESPACE


def add_parts(
    chart: ProjectChart, parts: Iterable[ObservabilityObject]
) -> list[tuple[ObservabilityObject, cdk8s.ApiObject]]:
    """Add the parts to a chart; return each with the object that it has become."""
    return [(part, _add(chart, part)) for part in parts]


def _add(chart: ProjectChart, part: ObservabilityObject) -> cdk8s.ApiObject:
    metadata = cdk8s.ApiObjectMetadata(name=part.name, namespace=part.namespace)
    own = "-".join(filter(None, (part.kind, part.namespace, part.name)))
    return add_object(chart, own, api_version=part.api_version, kind=part.kind, metadata=metadata, fields=part.body)


def config_map(name: str, data: Mapping[str, str]) -> ObservabilityObject:
    """Return a ConfigMap of files."""
    return ObservabilityObject("v1", "ConfigMap", name, {"data": dict(data)})


def service(name: str, pods: Mapping[str, str], port: int, target: int) -> ObservabilityObject:
    """Return a Service of the pods on `port`, which only the cluster reaches."""
    ports = [{"name": "http", "port": port, "targetPort": target}]
    return ObservabilityObject("v1", "Service", name, {"spec": {"selector": {**pods, **SERVES}, "ports": ports}})


def deployment(name: str, labels: Mapping[str, str], pod: Mapping[str, Any], configuration: str) -> ObservabilityObject:
    """Return a Deployment of one pod on the system nodes; another `configuration` (a digest) restarts the pod."""
    metadata = {"labels": {**labels, **SERVES}, "annotations": {"ray-on-hyperpod/configuration": configuration}}
    placed = {
        "nodeSelector": on_system_nodes(),
        # Without a group of their own, the volumes would belong to root.
        "securityContext": {**POD_SECURITY, "fsGroup": POD_SECURITY["runAsGroup"]},
        "enableServiceLinks": False,
        **pod,
    }
    spec = {
        "replicas": 1,
        # Two pods would each keep half of the history.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {**labels, **SERVES}},
        "template": {"metadata": metadata, "spec": placed},
    }
    return ObservabilityObject("apps/v1", "Deployment", name, {"spec": spec})


def role(
    name: str, namespace: str | None, rules: list[dict[str, Any]]
) -> tuple[ObservabilityObject, ObservabilityObject]:
    """Return a Role in `namespace` (None: a ClusterRole) and its binding to the service account `name`."""
    kind = "Role" if namespace else "ClusterRole"
    own = name if namespace else f"{PROMETHEUS_NAMESPACE}-{name}"
    binding = {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": own},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": PROMETHEUS_NAMESPACE}],
    }
    return (
        ObservabilityObject(f"{RBAC}/v1", kind, own, {"rules": rules}, namespace),
        ObservabilityObject(f"{RBAC}/v1", f"{kind}Binding", own, binding, namespace),
    )
