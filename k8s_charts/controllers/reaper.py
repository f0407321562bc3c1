"""The controller that force-deletes Ray pods which are stuck on lost nodes (`controllers/reaper.py`).

It runs in the operator's namespace, so that users of Ray's namespace can neither change its code nor use its account.
Its code is in a ConfigMap (code.py) and its image is plain Python, so that recovery never waits for the Ray image.
"""

from dataclasses import dataclass
from typing import Any, Final

import cdk8s
from constructs import Construct

from k8s_charts.controllers.code import SERVICE_ACCOUNT
from k8s_charts.controllers.replicas import deployment
from k8s_charts.ray.pods import LOST_NODE_SECONDS, UNWELL_SECONDS
from k8s_charts.shared.chart import ProjectChart, add_object
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.flows import REAPER_FLOW
from k8s_charts.shared.names import REAPER, REAPER_CODE

_LABELS: Final = dict(REAPER_FLOW.pods)
_EXCEPTIONS: Final = {
    "CKV_K8S_11": "a CPU limit would slow down the one that has seconds when many nodes are lost",
    **PULL_IF_ABSENT,
    **NEEDS_THE_API,
    **TAG_UNTIL_SETTLED,
}


@dataclass(frozen=True)
class ReaperObjects:
    """A reaper in `namespace` for the Ray pods in `ray_namespace`; `image` is a plain Python image."""

    namespace: str
    ray_namespace: str
    image: str


class ReaperChart(ProjectChart):
    """The reaper: service account, roles, network policy, disruption budget and two replicas."""

    def __init__(self, scope: Construct, id: str, *, reaper: ReaperObjects) -> None:
        super().__init__(scope, id)
        self._reaper = reaper
        own = reaper.namespace
        self._add("v1", "ServiceAccount", own, {"automountServiceAccountToken": False})
        self._add_roles()
        self._add("networking.k8s.io/v1", "NetworkPolicy", own, {"spec": REAPER_FLOW.specification()})
        disruption = {"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}}
        self._add("policy/v1", "PodDisruptionBudget", own, {"spec": disruption})
        explain(self._add("apps/v1", "Deployment", own, {"spec": _deployment(reaper)}), _EXCEPTIONS)

    def _add_roles(self) -> None:
        """Grant exactly `controllers.reaper.PERMISSIONS`."""
        name, ray = self._reaper.namespace, self._reaper.ray_namespace
        nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
        pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]}
        statuses = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update"]}
        events = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}
        runs = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}
        rbac = "rbac.authorization.k8s.io/v1"
        subjects = [{"kind": "ServiceAccount", "name": REAPER, "namespace": name}]
        for kind, namespace, rules in (("ClusterRole", None, [nodes]), ("Role", ray, [pods, statuses, events, runs])):
            self._add(rbac, kind, namespace, {"rules": rules})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": self._name(namespace)}
            self._add(rbac, f"{kind}Binding", namespace, {"roleRef": reference, "subjects": subjects})

    def _name(self, namespace: str | None) -> str:
        # Two environments can share a cluster, but not an operator's namespace.
        return REAPER if namespace else f"{self._reaper.namespace}-{REAPER}"

    def _add(self, api_version: str, kind: str, namespace: str | None, body: dict[str, Any]) -> cdk8s.ApiObject:
        metadata = cdk8s.ApiObjectMetadata(name=self._name(namespace), namespace=namespace)
        return add_object(self, kind, api_version=api_version, kind=kind, metadata=metadata, fields=body)


def _deployment(reaper: ReaperObjects) -> dict[str, Any]:
    return deployment(
        "reaper",
        name=REAPER,
        code=REAPER_CODE,
        image=reaper.image,
        labels=REAPER_FLOW.pods,
        arguments=[
            f"--namespace={reaper.ray_namespace}",
            f"--unready-seconds={LOST_NODE_SECONDS}",
            f"--unwell-seconds={UNWELL_SECONDS}",
            f"--service-account={SERVICE_ACCOUNT}",
        ],
        # Measured with 1,000 nodes: 36 MiB.
        resources={"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        grace_seconds=5,
    )
