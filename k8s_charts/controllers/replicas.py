"""The Deployment of a controller in the operator's namespace: two replicas, of which a Lease lets one act."""

from collections.abc import Mapping
from typing import Any, Final

from k8s_charts.controllers.code import POD_SECURITY, code_of, code_volume, digest, python
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.shared.names import METRICS_PORT

REPLICAS: Final = 2


def deployment(
    module: str,
    *,
    name: str,
    code: str,
    image: str,
    labels: Mapping[str, str],
    arguments: list[str],
    resources: Mapping[str, Any],
    grace_seconds: int,
) -> dict[str, Any]:
    """Return the specification of a Deployment that runs `controllers.<module>` from ConfigMap `code`.

    It listens on `METRICS_PORT`. `name` is also that of the service account; `grace_seconds` is how long its end takes.
    """
    apart = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    annotations = {
        "ray-on-hyperpod/code": digest(code_of(module)),
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(METRICS_PORT),
    }
    container = {
        "name": name,
        "image": image,
        **python(module),
        "args": [*arguments, f"--listen=:{METRICS_PORT}"],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 20},
        "resources": resources,
    }
    pod = {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
        "nodeSelector": on_system_nodes(),
        # Only preferred: if one system node is left, two replicas on it are better than one that stays pending.
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
            }
        },
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": grace_seconds,
        "containers": [container],
        "volumes": [code_volume(code)],
    }
    return {
        "replicas": REPLICAS,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels), "annotations": annotations}, "spec": pod},
    }
