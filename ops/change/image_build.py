"""`ops image build`: repeat the deployed build of the Ray image.

The new Job has the deployed Job's manifest and another name. The deployed Job owns it: Kubernetes removes both when the
ray stack is destroyed or starts another build. Nothing is deleted first, so an interruption loses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from k8s_charts.image_build.context import build_arguments, context_files, context_tag
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.errors import in_plain_words
from ops.readiness.item import ReadinessState, clock
from ops.readiness.one_off_jobs import newest, progress, pushed, variables

# Group, version, namespace and resource.
_JOBS: Final = ("batch", "v1", IMAGE_BUILD_NAMESPACE, "jobs")
# Labels and annotations that the API server, its controllers and kubectl add to a Job.
_SERVERS: Final = {
    *("controller-uid", "batch.kubernetes.io/controller-uid"),
    *("job-name", "batch.kubernetes.io/job-name"),
    *("batch.kubernetes.io/job-tracking", "kubectl.kubernetes.io/last-applied-configuration"),
}


class BuildError(Exception):
    """The image cannot be rebuilt; the message says why, and what to do."""


@dataclass(frozen=True)
class ImageBuildPlan:
    """The Job to create, or None if the registry has the image of `tag`; `said` describes the plan in a sentence."""

    tag: str
    job: Mapping[str, Any] | None
    summary: str


def plan(environment: EksEnvironment, clients: Clients) -> ImageBuildPlan:
    """Return the plan. Raises BuildError if a rebuild is not allowed, and UnreachableError."""
    repository = environment.image.repository
    if repository is None:
        raise BuildError(
            f"image.uri is set to {environment.image.uri}: nothing is built. Fix: remove image.uri to build an image"
        )
    with in_plain_words():
        last = newest(clients.kubernetes, IMAGE_BUILD_NAMESPACE)
        if last is None:
            raise BuildError("there is no build Job to repeat. Fix: deploy the ray stack, which starts one")
        name, tag = last.metadata.name, variables(last)["TAG"]
        _refuse_another_image(environment, tag)
        state, details = progress(clients.kubernetes, last, running="building")
        if state is ReadinessState.WAITING:
            raise BuildError(
                f"Job {IMAGE_BUILD_NAMESPACE}/{name}, created {clock(last.metadata.creation_timestamp)}, has not ended "
                f"({'; '.join(details)}). "
                f"Fix: `ops wait --env {environment.name}`"
            )
        if found := pushed(repository, tag, clients.ecr):
            return ImageBuildPlan(tag, None, f"the registry has the image: {found}")
        job = _repeated(_jobs(clients.kubernetes), name)
    ended = "complete, but the registry has no such tag" if state is ReadinessState.READY else details[0]
    return ImageBuildPlan(
        tag, job, f"Job {name} is {ended}; Job {job['metadata']['name']} builds {repository}:{tag} again"
    )


def create(clients: Clients, job: Mapping[str, Any], *, dry_run: bool) -> None:
    """Create the Job; with `dry_run`, only let the API server check it. Raises BuildError and UnreachableError."""
    options = {"dry_run": "All"} if dry_run else {}
    with in_plain_words():
        try:
            _untyped(clients.kubernetes).create_namespaced_custom_object(
                *_JOBS, job, field_validation="Strict", _request_timeout=REQUEST_TIMEOUT, **options
            )
        except ApiException as error:
            if error.status != 409:
                raise
            raise BuildError(
                f"Job {job['metadata']['name']} was just started by somebody else. Fix: `ops wait`"
            ) from error


def _untyped(api: kubernetes.client.ApiClient) -> kubernetes.client.CustomObjectsApi:
    """Return a client that leaves objects unchanged: typed clients drop or refuse fields of newer versions."""
    return kubernetes.client.CustomObjectsApi(api)


def _refuse_another_image(environment: EksEnvironment, deployed: str) -> None:
    files = context_files(environment.version_set, environment.image.pip)
    tag = context_tag(files, build_arguments(environment.version_set))
    if tag != deployed:
        raise BuildError(
            f"the deployed build makes tag {deployed}, and this checkout's files make {tag}. "
            "Fix: deploy the ray stack, which starts the build of that tag"
        )


def _jobs(api: kubernetes.client.ApiClient) -> list[dict[str, Any]]:
    listed = _untyped(api).list_namespaced_custom_object(*_JOBS, _request_timeout=REQUEST_TIMEOUT)
    jobs: list[dict[str, Any]] = listed["items"]
    return jobs


def _repeated(jobs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the manifest of a Job that repeats the Job `name` and is owned by the deployed Job."""
    by_name = {job["metadata"]["name"]: job for job in jobs}
    last = by_name[name]
    owners = last["metadata"].get("ownerReferences") or [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": last["metadata"]["uid"]}
    ]
    deployed = owners[0]["name"]
    number = 2
    while f"{deployed}-{number}" in by_name:
        number += 1
    spec = {key: value for key, value in last["spec"].items() if key != "selector"}
    template = spec["template"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{deployed}-{number}",
            "namespace": IMAGE_BUILD_NAMESPACE,
            **_own(last["metadata"]),
            "ownerReferences": owners,
        },
        "spec": {**spec, "template": {**template, "metadata": _own(template.get("metadata") or {})}},
    }


def _own(metadata: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return labels and annotations without those that Kubernetes added."""
    return {
        part: {key: value for key, value in (metadata.get(part) or {}).items() if key not in _SERVERS}
        for part in ("labels", "annotations")
    }
