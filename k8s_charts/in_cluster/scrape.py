"""The configuration of Prometheus: what it scrapes, and which labels the series get."""

from typing import Any, Final

from config.labels import INSTANCE_GROUP_LABEL
from k8s_charts.shared.names import (
    ALERTMANAGER,
    ALERTMANAGER_PORT,
    DCGM_EXPORTER,
    DCGM_PORT,
    EFA_EXPORTER,
    EFA_METRICS_NAMESPACE,
    GPU_METRICS_NAMESPACE,
    JOB_SUPERVISOR,
    METRICS_PORT,
    REAPER,
    SLEEPER,
)

EVERY_SECONDS: Final = 30
RULES_FILE: Final = "rules.yaml"
CLUSTER_LABEL: Final = "ray_io_cluster"
"""The label with the RayCluster's name, as KubeRay's own sample names it (config/prometheus/podMonitor.yaml)."""

DCGM_JOB: Final = "dcgm"
EFA_JOB: Final = "efa"

_META: Final = "__meta_kubernetes_pod"
_GROUP_OF_NODE: Final = "__meta_kubernetes_node_label_" + INSTANCE_GROUP_LABEL.translate(str.maketrans("./-", "___"))


def configuration(
    *, ray_namespace: str, operator_namespace: str, alertmanager: bool, gpus: bool, efa: bool, sleep: bool
) -> dict[str, Any]:
    """Return prometheus.yml.

    With `gpus` it scrapes the exporters on nodes with GPUs, with `efa` those of EFA, and with `sleep` the sleeper.
    """
    ray = _Pods(ray_namespace)
    own = _Pods(operator_namespace)
    return {
        "global": {
            "scrape_interval": f"{EVERY_SECONDS}s",
            "scrape_timeout": "10s",
            "evaluation_interval": f"{EVERY_SECONDS}s",
        },
        "rule_files": [RULES_FILE],
        **({"alerting": _alerting()} if alertmanager else {}),
        "scrape_configs": [
            ray.job(
                "ray",
                ("ray_io_is_ray_node", "yes"),
                {CLUSTER_LABEL: "ray_io_cluster", "node_type": "ray_io_node_type", "group": "ray_io_group"},
            ),
            ray.job(JOB_SUPERVISOR, ("app_kubernetes_io_name", JOB_SUPERVISOR), {}),
            own.job("reaper", ("app_kubernetes_io_name", REAPER), {}),
            *([own.job(SLEEPER, ("app_kubernetes_io_name", SLEEPER), {})] if sleep else []),
            own.job("kuberay", ("app_kubernetes_io_name", "kuberay-operator"), {}),
            *([_of_nodes(DCGM_JOB, GPU_METRICS_NAMESPACE, DCGM_EXPORTER, DCGM_PORT)] if gpus else []),
            *([_of_nodes(EFA_JOB, EFA_METRICS_NAMESPACE, EFA_EXPORTER, METRICS_PORT)] if efa else []),
            {"job_name": "exporter", "honor_labels": True, "static_configs": [_target(METRICS_PORT)]},
            {"job_name": "prometheus", "static_configs": [_target(9090)]},
        ],
    }


def _alerting() -> dict[str, Any]:
    return {"alertmanagers": [{"static_configs": [{"targets": [f"{ALERTMANAGER}:{ALERTMANAGER_PORT}"]}]}]}


class _Pods:
    """The jobs that scrape pods of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def job(self, name: str, chosen: tuple[str, str], labels: dict[str, str]) -> dict[str, Any]:
        """Return the job that scrapes the running pods with a label; `labels` maps new labels to those of the pod."""
        label, value = chosen
        return {
            "job_name": name,
            "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [self._namespace]}}],
            "relabel_configs": [
                *_running(label, value, METRICS_PORT),
                _copy(f"{_META}_name", "pod"),
                _copy(f"{_META}_node_name", "node"),
                *(_copy(f"{_META}_label_{source}", target) for target, source in labels.items()),
            ],
        }


def _of_nodes(job: str, namespace: str, exporter: str, port: int) -> dict[str, Any]:
    """Return the job of an exporter that runs on nodes; its series get the labels of the node.

    The label `pod` of a GPU's series is the pod that uses the GPU, so the exporter's own name must not replace it.
    """
    found = {"role": "pod", "namespaces": {"names": [namespace]}, "attach_metadata": {"node": True}}
    return {
        "job_name": job,
        "kubernetes_sd_configs": [found],
        "relabel_configs": [
            *_running("app_kubernetes_io_name", exporter, port),
            _copy(f"{_META}_node_name", "node"),
            _copy(_GROUP_OF_NODE, "instance_group"),
        ],
    }


def _running(label: str, value: str, port: int) -> list[dict[str, Any]]:
    """Return the rules that keep the running pods with a label, and scrape them at `port`."""
    return [
        _keep(f"{_META}_label_{label}", value),
        _keep(f"{_META}_phase", "Running"),
        # One target for a pod, however many ports its containers declare.
        {
            "source_labels": [f"{_META}_ip"],
            "regex": "(.+)",
            "target_label": "__address__",
            "replacement": f"$1:{port}",
        },
    ]


def _keep(source: str, value: str) -> dict[str, Any]:
    return {"action": "keep", "source_labels": [source], "regex": value}


def _copy(source: str, target: str) -> dict[str, Any]:
    return {"source_labels": [source], "target_label": target}


def _target(port: int) -> dict[str, list[str]]:
    return {"targets": [f"localhost:{port}"]}
