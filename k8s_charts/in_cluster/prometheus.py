"""The objects of Prometheus: what it may read, its configuration, its pod and its Service.

The pod also runs the exporter (`controllers/in_cluster/exporter.py`), whose code is in a ConfigMap.
"""

import json
from typing import Any, Final

from k8s_charts.controllers.code import CONTAINER_SECURITY, SERVICE_ACCOUNT, code_of, code_volume, digest, python
from k8s_charts.in_cluster.parts import ObservabilityObject, Settings, config_map, deployment, role, service
from k8s_charts.in_cluster.scrape import RULES_FILE, configuration
from k8s_charts.shared.flows import PROMETHEUS_PODS
from k8s_charts.shared.names import (
    EFA_METRICS_NAMESPACE,
    EXPORTER,
    EXPORTER_CODE,
    GPU_METRICS_NAMESPACE,
    METRICS_PORT,
    PROMETHEUS_PORT,
    PROMETHEUS_SERVICE,
)

_NAME: Final = "prometheus"
_READ: Final = ["get", "list", "watch"]
_PODS: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": _READ}
_NODES: Final = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
_LEASES: Final = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "watch"]}
_BUILDS: Final = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]}
_CONFIG: Final = "/etc/prometheus"
_DATA: Final = "/prometheus"
# The write-ahead log and the block that is being compacted come on top of what the retention counts.
_RETAINED_SHARE: Final = 0.8


def prometheus(settings: Settings) -> list[ObservabilityObject]:
    """Return the objects of Prometheus."""
    read = (
        (settings.ray_namespace, [_PODS, _LEASES]),
        (settings.operator_namespace, [_PODS]),
        *([(settings.build_namespace, [_BUILDS])] if settings.build_namespace else []),
        (None, [_NODES]),
        *([(GPU_METRICS_NAMESPACE, [_PODS])] if settings.gpus else []),
        *([(EFA_METRICS_NAMESPACE, [_PODS])] if settings.efa else []),
    )
    code, config = code_of(EXPORTER), _config(settings)
    return [
        ObservabilityObject("v1", "ServiceAccount", _NAME, {"automountServiceAccountToken": False}),
        *(part for namespace, rules in read for part in role(_NAME, namespace, rules)),
        config_map(EXPORTER_CODE, code),
        config_map(_NAME, config),
        deployment(_NAME, PROMETHEUS_PODS, _pod(settings), digest({**config, **code})),
        service(PROMETHEUS_SERVICE, PROMETHEUS_PODS, PROMETHEUS_PORT, PROMETHEUS_PORT),
    ]


def _config(settings: Settings) -> dict[str, str]:
    scraped = configuration(
        ray_namespace=settings.ray_namespace,
        operator_namespace=settings.operator_namespace,
        alertmanager=settings.alertmanager,
        gpus=settings.gpus is not None,
        efa=settings.efa is not None,
        sleep=settings.sleep,
    )
    # JSON is YAML, too.
    return {
        f"{_NAME}.yaml": json.dumps(scraped, indent=1),
        RULES_FILE: json.dumps({"groups": list(settings.rule_groups)}, indent=1),
    }


def _pod(settings: Settings) -> dict[str, Any]:
    return {
        "serviceAccountName": _NAME,
        "automountServiceAccountToken": True,
        # Time for the last samples.
        "terminationGracePeriodSeconds": 60,
        "containers": [_server(settings), _exporter(settings)],
        "volumes": [
            {"name": "config", "configMap": {"name": _NAME}},
            {"name": "data", "emptyDir": {"sizeLimit": f"{settings.storage_gib}Gi"}},
            code_volume(EXPORTER_CODE),
        ],
    }


def _server(settings: Settings) -> dict[str, Any]:
    disk = f"{settings.storage_gib}Gi"
    probe = {"port": PROMETHEUS_PORT}
    return {
        "name": _NAME,
        "image": settings.prometheus_image,
        "args": [
            f"--config.file={_CONFIG}/{_NAME}.yaml",
            f"--storage.tsdb.path={_DATA}",
            f"--storage.tsdb.retention.size={int(settings.storage_gib * 1024 * _RETAINED_SHARE)}MB",
            "--storage.tsdb.retention.time=90d",
        ],
        "ports": [{"name": "http", "containerPort": PROMETHEUS_PORT}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", **probe}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/-/healthy", **probe}, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {
            "requests": {"cpu": "250m", "memory": "1Gi", "ephemeral-storage": disk},
            "limits": {"memory": "3Gi", "ephemeral-storage": disk},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
    }


def _exporter(settings: Settings) -> dict[str, Any]:
    return {
        "name": EXPORTER,
        "image": settings.python_image,
        **python(EXPORTER),
        "args": [
            f"--namespace={settings.ray_namespace}",
            *([f"--builds={settings.build_namespace}"] if settings.build_namespace else []),
            f"--prices={json.dumps(settings.prices)}",
            f"--service-account={SERVICE_ACCOUNT}",
            f"--listen=:{METRICS_PORT}",
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": METRICS_PORT}, "periodSeconds": 10},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": METRICS_PORT}, "periodSeconds": 20},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
    }
