"""The objects of Grafana: its data source, its dashboards, its pod and its Service.

Whoever reaches it may look, and nobody may change anything: the dashboards come from this repository. It holds no
secret, and only heads reach it (`ops dashboard` comes from the node).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from k8s_charts.controllers.code import CONTAINER_SECURITY, digest
from k8s_charts.in_cluster.parts import RBAC, ObservabilityObject, Settings, config_map, deployment, service
from k8s_charts.shared.flows import GRAFANA_PODS
from k8s_charts.shared.names import (
    GRAFANA_PORT,
    GRAFANA_SERVICE,
    PROMETHEUS_PORT,
    PROMETHEUS_SERVICE,
    submitters_group,
)

DATA_SOURCE: Final = "prometheus"

_NAME: Final = "grafana"
_PROVISIONING: Final = "/etc/grafana/provisioning"
_DASHBOARDS: Final = "/etc/grafana/dashboards"
_VARIABLES: Final[Mapping[str, str]] = {
    "GF_AUTH_ANONYMOUS_ENABLED": "true",
    "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
    "GF_AUTH_DISABLE_LOGIN_FORM": "true",
    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
    # Ray's dashboard shows panels in frames.
    "GF_SECURITY_ALLOW_EMBEDDING": "true",
    # Nothing below can be reached: only Prometheus can.
    "GF_ANALYTICS_REPORTING_ENABLED": "false",
    "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
    "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
    "GF_NEWS_NEWS_FEED_ENABLED": "false",
    "GF_PLUGINS_PREINSTALL_DISABLED": "true",
}


def grafana(settings: Settings) -> list[ObservabilityObject]:
    """Return the objects of Grafana."""
    provisioning = _provisioning()
    boards = {f"{name}.json": json.dumps(board, indent=1) for name, board in settings.dashboards.items()}
    return [
        ObservabilityObject("v1", "ServiceAccount", _NAME, {"automountServiceAccountToken": False}),
        config_map(_NAME, provisioning),
        config_map(f"{_NAME}-dashboards", boards),
        deployment(_NAME, GRAFANA_PODS, _pod(settings), digest({**provisioning, **boards})),
        service(GRAFANA_SERVICE, GRAFANA_PODS, 80, GRAFANA_PORT),
        *_port_forward(settings),
    ]


def _port_forward(settings: Settings) -> tuple[ObservabilityObject, ObservabilityObject]:
    """Return the right of submitters to open the pages of this namespace, as they open Ray's dashboard."""
    name = f"{_NAME}-port-forward"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        # A WebSocket begins with a GET; from Kubernetes 1.35 on the API server also requires `create`.
        {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
    ]
    group = {"apiGroup": RBAC, "kind": "Group", "name": submitters_group(settings.ray_namespace)}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    return (
        ObservabilityObject(f"{RBAC}/v1", "Role", name, {"rules": rules}),
        ObservabilityObject(f"{RBAC}/v1", "RoleBinding", name, {"roleRef": reference, "subjects": [group]}),
    )


def _provisioning() -> dict[str, str]:
    source = {
        "name": "Prometheus",
        "uid": DATA_SOURCE,
        "type": "prometheus",
        "access": "proxy",
        "url": f"http://{PROMETHEUS_SERVICE}:{PROMETHEUS_PORT}",
        "isDefault": True,
    }
    provider = {"name": "project", "type": "file", "options": {"path": _DASHBOARDS}}
    return {
        "datasources.yaml": json.dumps({"apiVersion": 1, "datasources": [source]}, indent=1),
        "providers.yaml": json.dumps({"apiVersion": 1, "providers": [provider]}, indent=1),
    }


def _pod(settings: Settings) -> dict[str, Any]:
    def file(name: str, folder: str) -> dict[str, Any]:
        path = f"{_PROVISIONING}/{folder}/{name}"
        return {"name": "provisioning", "mountPath": path, "subPath": name, "readOnly": True}

    container = {
        "name": _NAME,
        "image": settings.grafana_image,
        "env": [{"name": name, "value": value} for name, value in _VARIABLES.items()],
        "ports": [{"name": "http", "containerPort": GRAFANA_PORT}],
        "readinessProbe": {"httpGet": {"path": "/api/health", "port": GRAFANA_PORT}, "periodSeconds": 10},
        "livenessProbe": {
            "httpGet": {"path": "/api/health", "port": GRAFANA_PORT},
            "periodSeconds": 20,
            "failureThreshold": 9,
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "1Gi"},
            "limits": {"memory": "512Mi", "ephemeral-storage": "1Gi"},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            file("datasources.yaml", "datasources"),
            file("providers.yaml", "dashboards"),
            {"name": "dashboards", "mountPath": _DASHBOARDS, "readOnly": True},
            {"name": "data", "mountPath": "/var/lib/grafana"},
            {"name": "temporary", "mountPath": "/tmp"},  # noqa: S108 - a folder of the container
        ],
    }
    return {
        "serviceAccountName": _NAME,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": "provisioning", "configMap": {"name": _NAME}},
            {"name": "dashboards", "configMap": {"name": f"{_NAME}-dashboards"}},
            {"name": "data", "emptyDir": {"sizeLimit": "512Mi"}},
            {"name": "temporary", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
    }
