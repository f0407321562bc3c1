"""Build the stand-ins for the objects of EKS's add-ons.

They have the fields that scheduling uses: names, labels, requests and tolerations. The requests are those of the
add-ons' published manifests (amazon-vpc-cni-k8s, EKS's kube-proxy and CoreDNS).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from embedded_account.kubernetes.api import Object
from embedded_account.services.eks.access.policies import STAND_IN

_NAMESPACE: Final = "kube-system"
_EVERYWHERE: Final = [{"operator": "Exists"}]
_DNS_ADDRESS: Final = "10.100.0.10"
"""The address of kube-dns: as on EKS, the tenth address of the service range."""


def _vpc_cni(configuration: Mapping[str, Any]) -> list[Object]:
    """Return the CNI with its agent, which runs with enforcement and without (aws/amazon-vpc-cni-k8s v1.22.4)."""
    cpu = {"cpu": "25m"}
    made = _daemon_set("aws-node", {"k8s-app": "aws-node"}, {"aws-node": cpu, "aws-eks-nodeagent": cpu})
    [_, agent] = made[1]["spec"]["template"]["spec"]["containers"]
    enforces = str(configuration.get("enableNetworkPolicy", "false")).lower()
    agent["args"] = [f"--enable-network-policy={enforces}"]
    return made


def _kube_proxy(_configuration: Mapping[str, Any]) -> list[Object]:
    return _daemon_set("kube-proxy", {"k8s-app": "kube-proxy"}, {"kube-proxy": {"cpu": "100m"}})


def _pod_identity_agent(_configuration: Mapping[str, Any]) -> list[Object]:
    name = "eks-pod-identity-agent"
    return _daemon_set(name, {"app.kubernetes.io/name": name}, {name: {}})


def _coredns(configuration: Mapping[str, Any]) -> list[Object]:
    labels = {"k8s-app": "kube-dns", "eks.amazonaws.com/component": "coredns"}
    tolerations = [
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
    ]
    template = _template("coredns", labels, {"coredns": {"cpu": "100m", "memory": "70Mi"}}, tolerations)
    template["spec"]["nodeSelector"] = configuration.get("nodeSelector", {})
    deployment = _object("apps/v1", "Deployment", "coredns", labels)
    deployment["spec"] = {
        "replicas": int(configuration.get("replicaCount", 2)),
        "selector": {"matchLabels": labels},
        "template": template,
    }
    service = _object("v1", "Service", "kube-dns", labels)
    service["spec"] = {
        "clusterIP": _DNS_ADDRESS,
        "selector": {"k8s-app": "kube-dns"},
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ],
    }
    return [_object("v1", "ServiceAccount", "coredns", labels), deployment, service]


def _metrics_server(_configuration: Mapping[str, Any]) -> list[Object]:
    labels = {"app.kubernetes.io/name": "metrics-server"}
    deployment = _object("apps/v1", "Deployment", "metrics-server", labels)
    requests = {"metrics-server": {"cpu": "100m", "memory": "200Mi"}}
    deployment["spec"] = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": _template("metrics-server", labels, requests, []),
    }
    return [_object("v1", "ServiceAccount", "metrics-server", labels), deployment]


def _node_monitoring_agent(_configuration: Mapping[str, Any]) -> list[Object]:
    name = "eks-node-monitoring-agent"
    return _daemon_set(name, {"app.kubernetes.io/name": name}, {name: {"cpu": "10m", "memory": "30Mi"}})


def _cloudwatch_observability(_configuration: Mapping[str, Any]) -> list[Object]:
    """Return the agents of every node and the operator, in a namespace of their own; those of accelerators are not."""
    operator = "amazon-cloudwatch-observability-controller-manager"
    agents = _daemon_set("cloudwatch-agent", {"app": "cloudwatch-agent"}, {"agent": {"cpu": "250m", "memory": "128Mi"}})
    [_, logs] = _daemon_set("fluent-bit", {"k8s-app": "fluent-bit"}, {"logs": {"cpu": "400m", "memory": "250Mi"}})
    logs["spec"]["template"]["spec"]["serviceAccountName"] = "cloudwatch-agent"
    made = [*agents, logs, *_deployment(operator, {"control-plane": operator}, {"cpu": "100m", "memory": "64Mi"})]
    return _in_own_namespace("amazon-cloudwatch", made)


def _hyperpod_observability(_configuration: Mapping[str, Any]) -> list[Object]:
    """Return the add-on's operator, which makes the collectors; without their own pods."""
    operator = "hyperpod-observability-controller-manager"
    collector = "hyperpod-observability-operator-otel-collector"
    made = [
        _object("v1", "ServiceAccount", collector, {"app": collector}),
        *_deployment(operator, {"control-plane": operator}, {"cpu": "100m", "memory": "128Mi"}),
    ]
    return _in_own_namespace("hyperpod-observability", made)


STAND_INS: Final[dict[str, Callable[[Mapping[str, Any]], list[Object]]]] = {
    "vpc-cni": _vpc_cni,
    "kube-proxy": _kube_proxy,
    "coredns": _coredns,
    "eks-pod-identity-agent": _pod_identity_agent,
    "eks-node-monitoring-agent": _node_monitoring_agent,
    "metrics-server": _metrics_server,
    "amazon-cloudwatch-observability": _cloudwatch_observability,
    "amazon-sagemaker-hyperpod-observability": _hyperpod_observability,
}
"""The function that builds an add-on's objects from its configuration values, by add-on."""


SERVICE_ACCOUNTS: Final[dict[str, str]] = {
    "amazon-cloudwatch-observability": "system:serviceaccount:amazon-cloudwatch:cloudwatch-agent",
    "amazon-sagemaker-hyperpod-observability": "system:serviceaccount:hyperpod-observability:"
    "hyperpod-observability-operator-otel-collector",
}
"""Who assumes an add-on's role, by add-on.

Sources: CloudWatch user guide, install-CloudWatch-Observability-EKS-addon; SageMaker AI developer guide,
hyperpod-observability-addon-troubleshooting.
"""


def _deployment(name: str, labels: Mapping[str, str], requests: Mapping[str, str]) -> list[Object]:
    deployment = _object("apps/v1", "Deployment", name, labels)
    template = _template(name, labels, {name: requests}, [])
    deployment["spec"] = {"replicas": 1, "selector": {"matchLabels": dict(labels)}, "template": template}
    return [_object("v1", "ServiceAccount", name, labels), deployment]


def _in_own_namespace(namespace: str, made: list[Object]) -> list[Object]:
    for item in made:
        item["metadata"]["namespace"] = namespace
    metadata = {"name": namespace, "labels": dict(STAND_IN)}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, *made]


def _daemon_set(name: str, labels: Mapping[str, str], containers: Mapping[str, Mapping[str, str]]) -> list[Object]:
    daemon_set = _object("apps/v1", "DaemonSet", name, labels)
    template = _template(name, labels, containers, _EVERYWHERE)
    template["spec"]["hostNetwork"] = True
    daemon_set["spec"] = {"selector": {"matchLabels": dict(labels)}, "template": template}
    return [_object("v1", "ServiceAccount", name, labels), daemon_set]


def _template(
    account: str,
    labels: Mapping[str, str],
    containers: Mapping[str, Mapping[str, str]],
    tolerations: list[dict[str, str]],
) -> Object:
    return {
        "metadata": {"labels": STAND_IN | dict(labels)},
        "spec": {
            "serviceAccountName": account,
            "priorityClassName": "system-node-critical",
            "tolerations": tolerations,
            "containers": [
                {
                    "name": name,
                    "image": f"rehearsal.invalid/stand-in/{name}",
                    "resources": {"requests": dict(requests)},
                }
                for name, requests in containers.items()
            ],
        },
    }


def _object(api_version: str, kind: str, name: str, labels: Mapping[str, str]) -> Object:
    metadata = {"name": name, "namespace": _NAMESPACE, "labels": STAND_IN | dict(labels)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
