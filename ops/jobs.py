"""Which jobs run on a RayCluster: RayJob objects, and what the head itself says."""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException
from kubernetes.stream import portforward

from ops.clients import REQUEST_TIMEOUT

_DASHBOARD: Final = 8265
_ENDED: Final = {"SUCCEEDED", "FAILED", "STOPPED"}
"""Ray's JobStatus of a job that is over; RayJob's jobStatus uses the same words."""

Jobs = Callable[[str, str], list[str]]
"""Takes a RayCluster's namespace and name, returns the jobs that run there."""


class NotTold(Exception):
    """The head of a RayCluster does not say which jobs run on it; the message says why."""


def running(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[str]:
    """Jobs that run or wait on the RayCluster: RayJobs by name, others by what they were submitted as.

    Ray 2.42.1's jobs are asked of the head's dashboard through a port-forward, as a person would: no other way in is
    open. Raises NotTold when there is a head and it does not answer.
    """
    found = [f"RayJob {name}" for name in _ray_jobs(api, namespace, cluster)]
    selector = f"ray.io/cluster={cluster},ray.io/node-type=head"
    core = kubernetes.client.CoreV1Api(api)
    heads = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    for head in heads:
        if head.status.phase == "Running" and not head.metadata.deletion_timestamp:
            found += [f"job {job}" for job in _submitted(core, namespace, head.metadata.name)]
    return found


def _ray_jobs(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[str]:
    custom = kubernetes.client.CustomObjectsApi(api)
    listed = custom.list_namespaced_custom_object(
        "ray.io", "v1", namespace, "rayjobs", _request_timeout=REQUEST_TIMEOUT
    )
    return [
        job["metadata"]["name"]
        for job in listed["items"]
        if (status := job.get("status", {})).get("rayClusterName") == cluster
        and status.get("jobStatus") not in _ENDED
        and not status.get("endTime")
    ]


def _submitted(core: kubernetes.client.CoreV1Api, namespace: str, head: str) -> list[str]:
    try:
        forward = portforward(core.connect_get_namespaced_pod_portforward, head, namespace, ports=str(_DASHBOARD))
        connection = HTTPConnection("localhost", timeout=REQUEST_TIMEOUT[1])
        connection.sock = forward.socket(_DASHBOARD)
        connection.sock.settimeout(REQUEST_TIMEOUT[1])
        connection.request("GET", "/api/jobs/")
        jobs: list[Mapping[str, Any]] = json.load(connection.getresponse())
    except (ApiException, HTTPException, OSError, ValueError) as error:
        told = str((error.reason if isinstance(error, ApiException) else error) or "no answer")
        # The web socket's own text goes on with the answer's headers.
        reason = told.partition(" -+-+- ")[0]
        raise NotTold(f"the head {namespace}/{head} does not say which jobs run: {reason}") from error
    return [str(job.get("submission_id") or job.get("job_id")) for job in jobs if job["status"] not in _ENDED]
