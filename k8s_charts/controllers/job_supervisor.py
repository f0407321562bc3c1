"""The job supervisor (`controllers/job_supervisor.py`), RayJobs' submitter and the submitters' Role in Ray's namespace.

The supervisor of a run is a Kubernetes Job. Its template is in the cluster as a suspended CronJob that never runs:
`ops job submit` creates the Job from it, with the image and the code that the environment was deployed with. The pod
that submits the job of a RayJob (`controllers/rayjob_submitter.py`) has such a template, too.
"""

from dataclasses import dataclass
from typing import Any, Final

import cdk8s
from constructs import Construct

from k8s_charts.controllers.code import POD_SECURITY, SERVICE_ACCOUNT, code_of, code_volume, digest, python
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.ray.pods import LOST_NODE_SECONDS
from k8s_charts.shared.chart import ProjectChart, add_object
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.names import (
    JOB_SUPERVISOR,
    JOB_SUPERVISOR_CODE,
    RAYJOB_SUBMITTER,
    RAYJOB_SUBMITTER_CODE,
    SUBMITTER_LABEL,
    submitters_group,
)

_PORT: Final = 8080
_LISTEN: Final = f"--listen=:{_PORT}"
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]
# `STARTS_ANOTHER` of `controllers.job_supervisor`: EX_TEMPFAIL requests another supervisor, 137 is a killed one's code.
_TRY_AGAIN: Final = [75, 137]
_WEEK: Final = 7 * 24 * 3600
_EXCEPTIONS: Final = {**TAG_UNTIL_SETTLED, **PULL_IF_ABSENT}

SUPERVISOR_RULES: Final = (
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, "create", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
)
# AWS documents the purpose of the submitters' EKS access policy, not its rules, so these rules do not depend on it.
SUBMITTER_RULES: Final = (
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": _READ},
    # The pods of a RayJob or PyTorchJob are in this namespace, and meet its Pod Security level and quota, as a Job's.
    {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": [*_READ, "create", "delete"]},
    {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": [*_READ, "create", "delete"]},
    {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*_READ, "create", "patch", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "services", "events"], "verbs": _READ},
    # A WebSocket begins with a GET; from Kubernetes 1.35 on the API server also requires `create`.
    {"apiGroups": [""], "resources": ["pods/portforward", "pods/exec"], "verbs": ["get", "create"]},
)
# As for PyTorchJobs, where the add-on with their operator is (docs/adr/0077).
HYPERPOD_JOB_RULES: Final = (
    {
        "apiGroups": ["sagemaker.amazonaws.com"],
        "resources": ["hyperpodpytorchjobs"],
        "verbs": [*_READ, "create", "delete"],
    },
)


@dataclass(frozen=True)
class JobSupervisor:
    """The supervisors in `namespace`; `image` is a plain Python image."""

    namespace: str
    image: str
    hyperpod_jobs: bool = False
    """Whether submitters may create HyperPodPyTorchJobs, too."""
    tokens: tuple[str, ...] = ()
    """The Secrets with the tokens of heads."""


class JobSupervisorChart(ProjectChart):
    """The supervisors' service account, Role and Job template, and the submitters' Role."""

    def __init__(self, scope: Construct, id: str, *, supervisor: JobSupervisor) -> None:
        super().__init__(scope, id)
        self._namespace = supervisor.namespace
        self._add("v1", "ServiceAccount", JOB_SUPERVISOR, {"automountServiceAccountToken": False})
        self._grant(
            JOB_SUPERVISOR,
            (*SUPERVISOR_RULES, *_read_tokens(supervisor.tokens)),
            {"kind": "ServiceAccount", "name": JOB_SUPERVISOR, "namespace": supervisor.namespace},
        )
        group = submitters_group(supervisor.namespace)
        further = HYPERPOD_JOB_RULES if supervisor.hyperpod_jobs else ()
        rules = (*SUBMITTER_RULES, *further, *_read_tokens(supervisor.tokens))
        self._grant("submitters", rules, {"apiGroup": _RBAC, "kind": "Group", "name": group})
        for template_name, job, exceptions in (
            (JOB_SUPERVISOR, _job(supervisor), {**_EXCEPTIONS, **NEEDS_THE_API}),
            (RAYJOB_SUBMITTER, _rayjob_submitter(supervisor), _EXCEPTIONS),
        ):
            explain(self._add("batch/v1", "CronJob", template_name, {"spec": _template(job)}), exceptions)

    def _grant(self, name: str, rules: tuple[dict[str, Any], ...], subject: dict[str, str]) -> None:
        reference = {"apiGroup": _RBAC, "kind": "Role", "name": name}
        self._add(f"{_RBAC}/v1", "Role", name, {"rules": list(rules)})
        self._add(f"{_RBAC}/v1", "RoleBinding", name, {"roleRef": reference, "subjects": [subject]})

    def _add(self, api_version: str, kind: str, name: str, body: dict[str, Any]) -> cdk8s.ApiObject:
        metadata = cdk8s.ApiObjectMetadata(name=name, namespace=self._namespace)
        id = f"{kind}-{name}"
        return add_object(self, id, api_version=api_version, kind=kind, metadata=metadata, fields=body)


def _read_tokens(names: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """Return the right to read exactly these Secrets. Submitters gain nothing: they can run commands in Ray's pods.

    An empty list of names would permit every Secret.
    """
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(names), "verbs": ["get"]}
    return (rule,) if names else ()


def _template(job: dict[str, Any]) -> dict[str, Any]:
    return {
        # February 31 does not exist, and the CronJob is suspended: it serves as a template only.
        "schedule": "0 0 31 2 *",
        "suspend": True,
        "jobTemplate": {"spec": job},
    }


def _job(supervisor: JobSupervisor) -> dict[str, Any]:
    """Return the Job to which `ops job submit` adds the run's name, arguments and package."""
    return {
        # For a week, at Kubernetes' longest pause of ten minutes: only the run itself ends the run.
        "backoffLimit": 1000,
        "ttlSecondsAfterFinished": _WEEK,
        "podFailurePolicy": {
            "rules": [
                # The schema of Kubernetes before 1.35 requires `status`: validators refuse the object without it.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                # The supervisor ended by itself: the run is over.
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": _TRY_AGAIN}},
            ]
        },
        "template": _pod(
            "job_supervisor",
            JOB_SUPERVISOR_CODE,
            account={"serviceAccountName": JOB_SUPERVISOR, "automountServiceAccountToken": True},
            container={
                "name": JOB_SUPERVISOR,
                "image": supervisor.image,
                "args": [
                    f"--namespace={supervisor.namespace}",
                    f"--service-account={SERVICE_ACCOUNT}",
                    _LISTEN,
                ],
            },
        ),
    }


def _rayjob_submitter(supervisor: JobSupervisor) -> dict[str, Any]:
    """Return the Job of whose pod template `ops job submit --as rayjob` makes a RayJob's `submitterPodTemplate`."""
    return {
        "template": _pod(
            "rayjob_submitter",
            RAYJOB_SUBMITTER_CODE,
            account={"automountServiceAccountToken": False},
            container={"name": RAYJOB_SUBMITTER, "image": supervisor.image, "args": [_LISTEN]},
        )
    }


def _pod(module: str, code: str, *, account: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """Return the template of a pod that runs `controllers.<module>` and may reach heads."""
    checked = {
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 20},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
    }
    return {
        "metadata": {
            "labels": {"app.kubernetes.io/name": container["name"], SUBMITTER_LABEL: "true"},
            "annotations": {"ray-on-hyperpod/code": digest(code_of(module))},
        },
        "spec": {
            "restartPolicy": "Never",
            **account,
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
            "containers": [{**container, **python(module), **checked}],
            "volumes": [code_volume(code)],
        },
    }
