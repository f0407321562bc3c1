"""RayJobs, KubeRay's own objects for jobs: each runs on a RayCluster of its own, made like one of the environment's.

The submitter's pod is the ray stack's template (`k8s_charts/controllers/job_supervisor.py`), so no laptop decides its
image or code. The RayCluster is a copy of the live one: its pods have the same image, account, volumes, nodes and
security settings. The label on them lets them reach each other (`k8s_charts/shared/flows.py`).
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import kubernetes

from config.facts.tokens import AUTH_TOKEN
from k8s_charts.shared.names import RAYJOB_LABEL, RUN_CLUSTER_LABEL, RUN_LABEL
from ops.jobs.operators.objects import Objects
from ops.jobs.run import OwnCluster, RunError

LONGEST_NAME: Final = 46
"""KubeRay names the RayCluster `<RayJob>-raycluster-<5 characters>`, and labels of its pods have this name."""

# Kueue's label of a job: the LocalQueue that decides when it starts (Kueue docs: "Run A RayJob").
QUEUE: Final = "kueue.x-k8s.io/queue-name"
_GROUP: Final = "ray.io"
_PLURAL: Final = "rayjobs"
# How often KubeRay tries another submitter pod; one ends early only if its node is lost or Ray refuses the job.
_SUBMITTERS: Final = 6

_WAITS: Final = "waiting for its RayCluster"
_PHASES: Final = {
    "Initializing": _WAITS,
    "Suspending": "suspending",
    "Suspended": "suspended",
    "Retrying": "waiting to retry",
    "Failed": "failed",
}
_OVER: Final = {"Complete", "Failed"}
_EXIT_CODES: Final = {"SUCCEEDED": 0, "STOPPED": 130}


class NoWorkersError(Exception):
    """The RayCluster to copy has no workers."""


def ray_job(
    name: str,
    command: str,
    own: OwnCluster,
    *,
    attempts: int,
    cluster: Mapping[str, Any],
    submitter: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the RayJob that starts `command` on a copy of `cluster` with the pod template `submitter`.

    Raises NoWorkersError, and RunError if KubeRay could not ask the copy's head for the job's state.
    """
    _refuse_token(cluster)
    labels = {RUN_LABEL: name, RUN_CLUSTER_LABEL: cluster["metadata"]["name"]}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "labels": labels | ({QUEUE: own.queue} if own.queue else {})},
        "spec": {
            "entrypoint": command,
            "submissionMode": "K8sJobMode",
            "submitterPodTemplate": submitter,
            "submitterConfig": {"backoffLimit": _SUBMITTERS},
            "suspend": own.queue is not None,
            "backoffLimit": attempts - 1,
            # The nodes are free at once; the output stays in the submitter's log.
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 0,
            "rayClusterSpec": _copy(cluster, own.workers),
        },
    }


def _refuse_token(cluster: Mapping[str, Any]) -> None:
    """Raise RunError if heads want a token: KubeRay has it only where `authOptions` names it (kuberay: util.go)."""
    spec = cluster["spec"]
    containers = spec["headGroupSpec"]["template"]["spec"]["containers"]
    wanted = any(variable["name"] == AUTH_TOKEN for each in containers for variable in each.get("env", ()))
    if wanted and "authOptions" not in spec:
        name = cluster["metadata"]["name"]
        raise RunError(
            f"RayCluster {name} wants a token, which KubeRay sends to no RayJob. Fix: submit without `--as rayjob`"
        )


def _copy(cluster: Mapping[str, Any], workers: int | None) -> dict[str, Any]:
    """Return the RayCluster's spec without what only holds now: a pause, and pods that the autoscaler removes."""
    spec: dict[str, Any] = copy.deepcopy(dict(cluster["spec"]))
    spec.pop("suspend", None)
    for group in spec.get("workerGroupSpecs", []):
        group.pop("scaleStrategy", None)
        wanted = int(group.get("replicas", 0) if workers is None else workers)
        group |= {
            "replicas": wanted,
            "minReplicas": min(int(group.get("minReplicas", 0)), wanted),
            "maxReplicas": max(int(group.get("maxReplicas", 1)), wanted),
        }
    groups: Sequence[dict[str, Any]] = spec.get("workerGroupSpecs", [])
    if not spec.get("enableInTreeAutoscaling") and not any(group["replicas"] for group in groups):
        raise NoWorkersError
    for group in (spec["headGroupSpec"], *groups):
        metadata = group["template"].setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), RAYJOB_LABEL: "true"}
    return spec


def state(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return a RayJob's state in the words of a supervisor's; `exit_code` is in it once the RayJob is over."""
    status = made.get("status", {})
    deployment, job = status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")
    phase = _PHASES.get(deployment) or (job.lower() if job else "starting")
    found = {"phase": phase, "reason": _reason(made, phase)}
    over = is_over(made)
    if deployment:
        failed = int(status.get("failed", 0))
        found["attempt"] = failed if over and deployment == "Failed" else failed + 1
    if over:
        found["exit_code"] = _EXIT_CODES.get(job, 1)
    return found


def command_of(made: Mapping[str, Any]) -> str:
    """Return the command of a RayJob."""
    return str(made["spec"]["entrypoint"])


def is_over(made: Mapping[str, Any]) -> bool:
    """Return whether a RayJob has ended for good: one that KubeRay retries is `Retrying`."""
    return made.get("status", {}).get("jobDeploymentStatus") in _OVER


def _reason(made: Mapping[str, Any], phase: str) -> str:
    queue = made["metadata"].get("labels", {}).get(QUEUE)
    if phase == "suspended" and queue:
        return f"waits for queue {queue}"
    status = made.get("status", {})
    lines = str(status.get("message", "")).strip().splitlines() if phase == "failed" else []
    return lines[-1] if lines else ""


class SubmittedRayJobs(Objects):
    """The RayJobs of a namespace that `ops job submit` created; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        super().__init__(api, namespace, _GROUP, _PLURAL)

    def state(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Return a RayJob's state (see the function `state`), also with what the pods of its RayCluster wait for."""
        found = state(made)
        cluster = made.get("status", {}).get("rayClusterName")
        if found["phase"] == _WAITS and cluster:
            found["reason"] = self._pods_wait_for(f"ray.io/cluster={cluster}")
        return found
