"""Read the state of Jobs that a deployment does not wait for: the Ray image's build, and its directory's owner."""

from collections.abc import Mapping
from typing import Any, Final

import kubernetes
from botocore.exceptions import ClientError

from config import EksEnvironment, Environment
from config.estimates import creation
from config.naming import STAND_IN_IMAGE, volume_namespace
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE, RAY_DIRECTORY, RAY_DIRECTORY_JOB
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.readiness.expected_end import after
from ops.readiness.item import ReadinessItem, ReadinessState, clock, spoken
from ops.readiness.workloads import blocking_reason

LOG_LINES: Final = 20


def image(environment: EksEnvironment, clients: Clients) -> ReadinessItem:
    """Return the state of the newest build of the Ray image (each image has its own Job); an image.uri is ready."""
    name = environment.image.repository
    if name is None:
        return ReadinessItem(
            "Ray image", str(environment.image.uri), ReadinessState.READY, "image.uri is set: there is nothing to build"
        )
    job = newest(clients.kubernetes, IMAGE_BUILD_NAMESPACE)
    if job is None:
        return ReadinessItem("Ray image", name, ReadinessState.WAITING, "no build Job: deploy the ray stack")
    state, details = progress(clients.kubernetes, job, running="building")
    if state is ReadinessState.READY:
        ended = job.status.completion_time
        tag = variables(job)["TAG"]
        if found := pushed(name, tag, clients.ecr):
            return ReadinessItem("Ray image", name, ReadinessState.READY, found, after(ended) if ended else None)
        gone = f"built, but the registry has no tag {tag}"
        return ReadinessItem("Ray image", name, ReadinessState.FAILED, f"{gone}; {_again(environment)}")
    if state is ReadinessState.FAILED:
        details += [_again(environment), end_of_log(variables(job), clients.s3)]
    began = job.status.start_time if job.status.active else None
    expected = after(began, creation.later(ray=True)[creation.IMAGE_BUILD]) if began else None
    return ReadinessItem("Ray image", name, state, "; ".join(details), expected)


def _again(environment: Environment) -> str:
    return f"`ops image build --env {environment.name}` builds it again"


def directory(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> ReadinessItem:
    """Return the state of Ray's directory on the file system, which must belong to Ray's user."""
    path = f"{environment.fsx.mount_path}/{RAY_DIRECTORY}"
    job = newest(api, volume_namespace(environment), RAY_DIRECTORY_JOB)
    if job is None:
        return ReadinessItem("directory", path, ReadinessState.WAITING, "no Job: deploy the ray stack")
    state, details = progress(api, job, running="its Job is running")
    return ReadinessItem("directory", path, state, "; ".join(details) if details else "belongs to Ray's user")


def newest(api: kubernetes.client.ApiClient, namespace: str, prefix: str = "") -> Any:
    """Return the namespace's newest Job whose name starts with the prefix, or None."""
    listed = kubernetes.client.BatchV1Api(api).list_namespaced_job(namespace, _request_timeout=REQUEST_TIMEOUT).items
    jobs = [job for job in listed if job.metadata.name.startswith(prefix)]
    return max(jobs, key=lambda job: job.metadata.creation_timestamp, default=None)


def progress(api: kubernetes.client.ApiClient, job: Any, *, running: str) -> tuple[ReadinessState, list[str]]:
    """Return a Job's state and the reasons for it; a complete Job has no reasons."""
    conditions = {c.type: c for c in job.status.conditions or [] if c.status == "True"}
    if "Complete" in conditions:
        return ReadinessState.READY, []
    name, namespace = job.metadata.name, job.metadata.namespace
    logs = f"see `kubectl logs -n {namespace} job/{name} --all-containers`"
    if failed := conditions.get("Failed"):
        return ReadinessState.FAILED, [failed.message or failed.reason, logs]
    details = [running if job.status.active else "not started"]
    if job.status.failed:
        details.append(f"failed attempts: {job.status.failed}, {logs}")
    core, selector = kubernetes.client.CoreV1Api(api), f"batch.kubernetes.io/job-name={name}"
    pods = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    details += spoken({pod.metadata.name: blocking_reason(pod) for pod in pods if pod.status.phase == "Pending"})
    return ReadinessState.WAITING, details


def pushed(repository: str, tag: str, ecr: Any) -> str | None:
    """Describe the registry's image of this tag; None if the registry has none."""
    try:
        [found] = ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])["imageDetails"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ImageNotFoundException":
            raise
        return None
    what = "the rehearsal's stand-in of" if found.get("imageManifestMediaType") == STAND_IN_IMAGE else "built:"
    return f"{what} {tag}"


def end_of_log(build: Mapping[str, str], s3: Any) -> str:
    """Return the last log lines of a failed build, which its container `report` has uploaded to S3."""
    address = build["LOG"]
    bucket, _, key = address.removeprefix("s3://").partition("/")
    try:
        found = s3.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        return f"no log at {address} ({error.response['Error']['Code']})"
    lines = found["Body"].read().decode(errors="replace").splitlines()[-LOG_LINES:]
    return "\n| ".join([f"the end of {address}, of {clock(found['LastModified'])}:", *lines])


def variables(job: Any) -> dict[str, str]:
    """Return the environment variables of all containers of a Job."""
    spec = job.spec.template.spec
    containers = (*(spec.init_containers or ()), *spec.containers)
    return {entry.name: entry.value for each in containers for entry in each.env or ()}
