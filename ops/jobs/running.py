"""Find the jobs on a RayCluster: RayJobs, PyTorchJobs like its workers, and the jobs that the head lists."""

from collections.abc import Callable
from typing import Any

import kubernetes

from k8s_charts.shared.names import RUN_CLUSTER_LABEL
from ops.clients import REQUEST_TIMEOUT
from ops.jobs.head_api import ENDED, Head, HeadUnreachableError, RayApiError, heads
from ops.jobs.operators.pytorchjob import PyTorchJobs, is_over

Jobs = Callable[[str, str], list[str]]
"""Takes a RayCluster's namespace and name, returns its running jobs."""


def running(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[str]:
    """Return the running and waiting jobs of the RayCluster: operators' objects by name, others by submission id.

    A PyTorchJob counts for the RayCluster whose nodes it shares.

    Raises HeadUnreachableError if a head exists and does not answer.
    """
    found = [f"RayJob {job['metadata']['name']}" for job in ray_jobs(api, namespace, cluster)]
    like = PyTorchJobs(api, namespace).all(f"{RUN_CLUSTER_LABEL}={cluster}")
    found += [f"PyTorchJob {job['metadata']['name']}" for job in like if not is_over(job)]
    core = kubernetes.client.CoreV1Api(api)
    for pod in heads(core, namespace, cluster):
        found += [f"job {job}" for job in _submitted(Head(core, namespace, pod))]
    return found


def ray_clusters(api: kubernetes.client.ApiClient, namespace: str) -> set[tuple[str, str]]:
    """Return the (namespace, name) of all RayClusters of a namespace, those of RayJobs too."""
    custom = kubernetes.client.CustomObjectsApi(api)
    listed = custom.list_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayclusters", _request_timeout=REQUEST_TIMEOUT
    )
    return {(namespace, item["metadata"]["name"]) for item in listed["items"]}


def ray_jobs(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[dict[str, Any]]:
    """Return the RayJob objects that have not ended and use the RayCluster."""
    custom = kubernetes.client.CustomObjectsApi(api)
    listed = custom.list_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayjobs", _request_timeout=REQUEST_TIMEOUT
    )
    return [
        job
        for job in listed["items"]
        if (status := job.get("status", {})).get("rayClusterName") == cluster
        and status.get("jobStatus") not in ENDED
        and not status.get("endTime")
    ]


def _submitted(head: Head) -> list[str]:
    try:
        jobs = head.jobs()
    except RayApiError as error:
        raise HeadUnreachableError(str(error)) from error
    return [str(job.get("submission_id") or job.get("job_id")) for job in jobs if job["status"] not in ENDED]
