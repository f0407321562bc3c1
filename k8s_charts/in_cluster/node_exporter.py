"""An exporter on each node that has a kind of device: the objects that all such exporters have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.labels import INSTANCE_GROUP_LABEL
from k8s_charts.controllers.code import digest
from k8s_charts.in_cluster.parts import SERVES, ObservabilityObject, WatchedNodes


@dataclass(frozen=True)
class NodeExporter:
    """An exporter in its own namespace: its name, the labels of its pods, and the port of its metrics."""

    name: str
    namespace: str
    pods: Mapping[str, str]
    port: int

    def objects(
        self, nodes: WatchedNodes, files: Mapping[str, str], pod: Mapping[str, Any]
    ) -> list[ObservabilityObject]:
        """Return the objects on these nodes: `files` are the ConfigMap's, `pod` completes the pods' specification."""
        labels = {**self.pods, **SERVES}
        # Without an address: Prometheus discovers the pods, and `ops isolation-check` looks one up by name.
        ports = [{"name": "metrics", "port": self.port, "targetPort": self.port}]
        metadata = {"labels": labels, "annotations": {"ray-on-hyperpod/configuration": digest(files)}}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": {**self._pod(nodes), **pod}},
            # The exporters of a large cluster must not wait for each other: no job needs them.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
        }
        return [
            self._part("v1", "ServiceAccount", {"automountServiceAccountToken": False}),
            self._part("v1", "ConfigMap", {"data": files}),
            self._part("v1", "Service", {"spec": {"clusterIP": "None", "selector": labels, "ports": ports}}),
            self._part("apps/v1", "DaemonSet", {"spec": spec}),
        ]

    def _part(self, api_version: str, kind: str, body: Mapping[str, Any]) -> ObservabilityObject:
        return ObservabilityObject(api_version, kind, self.name, body, self.namespace)

    def _pod(self, nodes: WatchedNodes) -> dict[str, Any]:
        in_groups = {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": list(nodes.groups)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [in_groups]}]}
        return {
            "serviceAccountName": self.name,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "tolerations": list(nodes.tolerations),
        }
