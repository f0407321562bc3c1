"""Find the unfinished jobs of a RayCluster: runs, RayJobs, PyTorchJobs like its workers, and what the head lists."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import kubernetes

from k8s_charts.shared.names import RUN_CLUSTER_LABEL
from ops.clients import REQUEST_TIMEOUT
from ops.jobs.head_api import ENDED, HeadApi, HeadUnreachableError, RayApiError, heads
from ops.jobs.operators.runs import unfinished_like_workers
from ops.jobs.run import ExistingRun
from ops.jobs.runs import Runs

Jobs = Callable[[str, str], list[str]]
"""Takes a RayCluster's namespace and name, returns its unfinished jobs."""


def running(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[str]:
    """Return the running and waiting jobs of the RayCluster: supervised runs, and what `unsupervised` returns.

    A run counts from its submission to its end: it has no job on a head while it waits, and after a head was lost.

    Raises HeadUnreachableError if a head exists and does not answer.
    """
    runs = [run for run in Runs(api, namespace).supervised() if run.cluster == cluster and not run.finished]
    return [*(f"run {run.name} ({run.phase})" for run in runs), *unsupervised(api, namespace, cluster, runs)]


def unsupervised(
    api: kubernetes.client.ApiClient, namespace: str, cluster: str, runs: Sequence[ExistingRun]
) -> list[str]:
    """Return the unfinished jobs of the RayCluster but for its supervised `runs`: by name of their object, or by id.

    A PyTorchJob counts for the RayCluster whose nodes it shares.

    Raises HeadUnreachableError if a head exists and does not answer.
    """
    # An attempt's id is the run's name and a number; a question to it has a word more.
    attempts = re.compile(f"({'|'.join(re.escape(run.name) for run in runs)})-[0-9]")
    found = [f"RayJob {job['metadata']['name']}" for job in ray_jobs(api, namespace, cluster)]
    found += unfinished_like_workers(api, namespace, cluster)
    core = kubernetes.client.CoreV1Api(api)
    for pod in heads(core, namespace, cluster):
        found += [f"job {job}" for job in _submitted(HeadApi(core, namespace, pod)) if not attempts.match(job)]
    return found


def ray_clusters(api: kubernetes.client.ApiClient, namespace: str) -> set[tuple[str, str]]:
    """Return the (namespace, name) of all RayClusters of a namespace, and of those that an unfinished run is for."""
    custom = kubernetes.client.CustomObjectsApi(api)
    listed = custom.list_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayclusters", _request_timeout=REQUEST_TIMEOUT
    )
    of_runs = {run.cluster for run in Runs(api, namespace).all() if not run.finished}
    return {(namespace, name) for name in of_runs | {item["metadata"]["name"] for item in listed["items"]}}


def ray_jobs(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[dict[str, Any]]:
    """Return the RayJob objects that have not ended and use the RayCluster, or will share its nodes.

    KubeRay names the RayCluster of a RayJob in its status, except while the RayJob is suspended.
    """
    custom = kubernetes.client.CustomObjectsApi(api)
    listed = custom.list_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayjobs", _request_timeout=REQUEST_TIMEOUT
    )
    return [
        job
        for job in listed["items"]
        if ((status := job.get("status", {})).get("rayClusterName") or _label(job)) == cluster
        and status.get("jobStatus") not in ENDED
        and not status.get("endTime")
    ]


def _label(job: dict[str, Any]) -> str:
    return str(job["metadata"].get("labels", {}).get(RUN_CLUSTER_LABEL, ""))


def _submitted(head: HeadApi) -> list[str]:
    try:
        jobs = head.jobs()
    except RayApiError as error:
        raise HeadUnreachableError(str(error)) from error
    return [str(job.get("submission_id") or job.get("job_id")) for job in jobs if job["status"] not in ENDED]
