"""The job supervisor (`controllers/job_supervisor.py`) and the submitters' Role in Ray's namespace.

The supervisor of a run is a Kubernetes Job. Its template is in the cluster as a suspended CronJob that never runs:
`ops job submit` creates the Job from it, with the image and the code that the environment was deployed with.
"""

from dataclasses import dataclass
from typing import Any, Final

import cdk8s
from constructs import Construct

from k8s_charts.controllers.code import POD_SECURITY, SERVICE_ACCOUNT, code_of, code_volume, digest, python
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.ray.pods import LOST_NODE_SECONDS
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.names import JOB_SUPERVISOR, JOB_SUPERVISOR_CODE, SUBMITTER_LABEL, submitters_group

_PORT: Final = 8080
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]
# `STARTS_ANOTHER` of `controllers.job_supervisor`: EX_TEMPFAIL requests another supervisor, 137 is a killed one's code.
_TRY_AGAIN: Final = [75, 137]
_WEEK: Final = 7 * 24 * 3600
_EXCEPTIONS: Final = {**TAG_UNTIL_SETTLED, **PULL_IF_ABSENT, **NEEDS_THE_API}

SUPERVISOR_RULES: Final = (
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, "create", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
)
# AWS documents the purpose of the submitters' EKS access policy, not its rules, so these rules do not depend on it.
SUBMITTER_RULES: Final = (
    {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs"], "verbs": _READ},
    {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*_READ, "create", "patch", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "services", "events"], "verbs": _READ},
    # A WebSocket begins with a GET; from Kubernetes 1.35 on the API server also requires `create`.
    {"apiGroups": [""], "resources": ["pods/portforward", "pods/exec"], "verbs": ["get", "create"]},
)


@dataclass(frozen=True)
class JobSupervisor:
    """The supervisors in `namespace`; `image` is a plain Python image."""

    namespace: str
    image: str


class JobSupervisorChart(ProjectChart):
    """The supervisors' service account, Role and Job template, and the submitters' Role."""

    def __init__(self, scope: Construct, id: str, *, supervisor: JobSupervisor) -> None:
        super().__init__(scope, id)
        self._namespace = supervisor.namespace
        self._add("v1", "ServiceAccount", JOB_SUPERVISOR, {"automountServiceAccountToken": False})
        self._grant(
            JOB_SUPERVISOR,
            SUPERVISOR_RULES,
            {"kind": "ServiceAccount", "name": JOB_SUPERVISOR, "namespace": supervisor.namespace},
        )
        group = submitters_group(supervisor.namespace)
        self._grant("submitters", SUBMITTER_RULES, {"apiGroup": _RBAC, "kind": "Group", "name": group})
        explain(self._add("batch/v1", "CronJob", JOB_SUPERVISOR, {"spec": _template(supervisor)}), _EXCEPTIONS)

    def _grant(self, name: str, rules: tuple[dict[str, Any], ...], subject: dict[str, str]) -> None:
        reference = {"apiGroup": _RBAC, "kind": "Role", "name": name}
        self._add(f"{_RBAC}/v1", "Role", name, {"rules": list(rules)})
        self._add(f"{_RBAC}/v1", "RoleBinding", name, {"roleRef": reference, "subjects": [subject]})

    def _add(self, api_version: str, kind: str, name: str, body: dict[str, Any]) -> cdk8s.ApiObject:
        metadata = cdk8s.ApiObjectMetadata(name=name, namespace=self._namespace)
        made = cdk8s.ApiObject(self, f"{kind}-{name}", api_version=api_version, kind=kind, metadata=metadata)
        for key, value in body.items():
            made.add_json_patch(cdk8s.JsonPatch.add(f"/{key}", value))
        return made


def _template(supervisor: JobSupervisor) -> dict[str, Any]:
    return {
        # February 31 does not exist, and the CronJob is suspended: it serves as a template only.
        "schedule": "0 0 31 2 *",
        "suspend": True,
        "jobTemplate": {"spec": _job(supervisor)},
    }


def _job(supervisor: JobSupervisor) -> dict[str, Any]:
    """Return the Job to which `ops job submit` adds the run's name, arguments and package."""
    return {
        "backoffLimit": 20,
        "ttlSecondsAfterFinished": _WEEK,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                # The supervisor ended by itself: the run is over.
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": _TRY_AGAIN}},
            ]
        },
        "template": {
            "metadata": {
                "labels": {"app.kubernetes.io/name": JOB_SUPERVISOR, SUBMITTER_LABEL: "true"},
                "annotations": {"ray-on-hyperpod/code": digest(code_of("job_supervisor"))},
            },
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": JOB_SUPERVISOR,
                "automountServiceAccountToken": True,
                "nodeSelector": on_system_nodes(),
                "tolerations": [
                    {
                        "key": f"node.kubernetes.io/{condition}",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": LOST_NODE_SECONDS,
                    }
                    for condition in ("not-ready", "unreachable")
                ],
                "securityContext": POD_SECURITY,
                "terminationGracePeriodSeconds": 20,
                "containers": [_container(supervisor)],
                "volumes": [code_volume(JOB_SUPERVISOR_CODE)],
            },
        },
    }


def _container(supervisor: JobSupervisor) -> dict[str, Any]:
    return {
        "name": JOB_SUPERVISOR,
        "image": supervisor.image,
        **python("job_supervisor"),
        "args": [
            f"--namespace={supervisor.namespace}",
            f"--service-account={SERVICE_ACCOUNT}",
            f"--listen=:{_PORT}",
        ],
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 20},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
    }
