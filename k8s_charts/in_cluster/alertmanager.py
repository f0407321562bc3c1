"""The objects of Alertmanager, which sends Prometheus' alerts to the environment's topic, and its configuration.

The stack applies them without Helm: a release's chart is an asset, which cannot hold the ARNs of a deployment.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from constructs import Construct

from k8s_charts.controllers.code import CONTAINER_SECURITY, digest
from k8s_charts.in_cluster.parts import ObservabilityObject, add_parts, config_map, deployment, service
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import explain
from k8s_charts.shared.flows import ALERTMANAGER_PODS
from k8s_charts.shared.names import ALERTMANAGER, ALERTMANAGER_PORT
from k8s_charts.shared.service_account import ROLE_ANNOTATION

_CONFIG: Final = "/etc/alertmanager"
_FILE: Final = "alertmanager.yaml"
_DATA: Final = "/alertmanager"
_EXCEPTIONS: Final = {"CKV_K8S_11": "a burst of alerts may take what is idle; memory and disk are limited"}
# SNS API reference, Publish: ASCII, less than 100 characters. `alertname` has one value, because alerts are grouped by
# it.
_SUBJECT: Final = "{{ .Status | toUpper }}: {{ .GroupLabels.alertname }} in %s"
_MESSAGE: Final = """{{ range .Alerts -}}
{{ .Status | toUpper }}: {{ .Labels.alertname }} ({{ .Labels.severity }})
{{ .Annotations.summary }}
Since: {{ .StartsAt.Format "2006-01-02 15:04:05 MST" }}
Runbook: {{ .Annotations.runbook }}

{{ end }}Cluster: %s
"""


@dataclass(frozen=True)
class AlertFacts:
    """What the stack knows only at deployment: the topic, and the role that may publish to it."""

    topic_arn: str
    role_arn: str


@dataclass(frozen=True)
class Alertmanager:
    """What differs between environments. The messages name `environment` and `cluster`."""

    environment: str
    cluster: str
    region: str
    image: str
    facts: AlertFacts


class AlertmanagerChart(ProjectChart):
    """Alertmanager with its service account, configuration and Service."""

    def __init__(self, scope: Construct, id: str, *, alertmanager: Alertmanager) -> None:
        super().__init__(scope, id)
        for part, made in add_parts(self, _parts(alertmanager)):
            if part.kind == "Deployment":
                explain(made, _EXCEPTIONS)
            if part.kind == "ServiceAccount":
                made.metadata.add_annotation(ROLE_ANNOTATION, alertmanager.facts.role_arn)


def configuration(alertmanager: Alertmanager) -> dict[str, Any]:
    """Return alertmanager.yaml: a message for each kind of alert, repeated twice a day, and one when it is over.

    Nothing is inhibited: no alert here is the consequence of another one.
    """
    published = {
        "topic_arn": alertmanager.facts.topic_arn,
        # Without keys of its own it takes the service account's role.
        "sigv4": {"region": alertmanager.region},
        "subject": _SUBJECT % alertmanager.environment,
        "message": _MESSAGE % alertmanager.cluster,
        "send_resolved": True,
    }
    return {
        "route": {
            "receiver": "topic",
            "group_by": ["alertname"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
        },
        "receivers": [{"name": "topic", "sns_configs": [published]}],
    }


def _parts(alertmanager: Alertmanager) -> list[ObservabilityObject]:
    text = json.dumps(configuration(alertmanager), indent=1)
    # A reference to the topic has another text in each synthesis.
    stable = text.replace(alertmanager.facts.topic_arn, "")
    read = f"{digest({_FILE: stable})} {alertmanager.facts.topic_arn}"
    return [
        ObservabilityObject("v1", "ServiceAccount", ALERTMANAGER, {"automountServiceAccountToken": False}),
        config_map(ALERTMANAGER, {_FILE: text}),
        deployment(ALERTMANAGER, ALERTMANAGER_PODS, _pod(alertmanager.image), read),
        service(ALERTMANAGER, ALERTMANAGER_PODS, ALERTMANAGER_PORT, ALERTMANAGER_PORT),
    ]


def _pod(image: str) -> dict[str, Any]:
    probe = {"port": ALERTMANAGER_PORT}
    container = {
        "name": ALERTMANAGER,
        "image": image,
        "args": [
            f"--config.file={_CONFIG}/{_FILE}",
            f"--storage.path={_DATA}",
            # Alone, without gossip.
            "--cluster.listen-address=",
        ],
        # A closed network has no way to the global endpoint, which this program's SDK prefers.
        "env": [{"name": "AWS_STS_REGIONAL_ENDPOINTS", "value": "regional"}],
        "ports": [{"name": "http", "containerPort": ALERTMANAGER_PORT}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", **probe}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/-/healthy", **probe}, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi", "ephemeral-storage": "128Mi"},
            "limits": {"memory": "256Mi", "ephemeral-storage": "128Mi"},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
    }
    return {
        "serviceAccountName": ALERTMANAGER,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": ALERTMANAGER}},
            {"name": "data", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
