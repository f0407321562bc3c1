"""Create, list and stop supervised runs: each is a Kubernetes Job made from the ray stack's template."""

import base64
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from k8s_charts.shared.names import JOB_SUPERVISOR, RUN_CLUSTER_LABEL, RUN_LABEL, RUN_STATE, RUN_STOP
from ops.clients import REQUEST_TIMEOUT
from ops.errors import in_plain_words
from ops.jobs.package import Package

_PACKAGE_MOUNT: Final = "/opt/ray-on-hyperpod-package"
_ENTRY: Final = "ray-on-hyperpod/entrypoint"
_JOB_LABEL: Final = "batch.kubernetes.io/job-name"
_CONFLICT_SECONDS: Final = 30
# Seconds to connect, and seconds without output after which the log is requested again: a kubelet that has rotated it
# may send nothing more.
_SILENCE: Final = (REQUEST_TIMEOUT[0], 300)
_DONE: Final = {"Complete", "Failed"}

as_submitter: Final = partial(in_plain_words, "access.submitters")
"""`in_plain_words` for requests that `access.submitters` allows."""


class RunError(Exception):
    """The request is refused; the message says why. Nothing was submitted."""


@dataclass(frozen=True)
class Request:
    """A run to create; `storage` is the job's RUN_STORAGE, `give_up_after` is in seconds."""

    name: str
    cluster: str
    command: str
    storage: str
    package: Package | None
    max_attempts: int
    max_stalled: int
    give_up_after: float


@dataclass(frozen=True)
class Run:
    """An existing run; `state` is what its supervisor recorded last, empty before the supervisor starts."""

    name: str
    cluster: str
    command: str
    created: Any
    finished: bool
    state: Mapping[str, Any]

    @property
    def phase(self) -> str:
        """The run's state in a word or two."""
        return str(self.state.get("phase") or ("failed" if self.finished else "starting"))


class Runs:
    """The runs of a namespace; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        self._api = api
        self.namespace = self._namespace = namespace
        self._batch = kubernetes.client.BatchV1Api(api)
        self.core = kubernetes.client.CoreV1Api(api)
        self._leases = kubernetes.client.CoordinationV1Api(api)

    def cluster(self, wanted: str | None) -> str:
        """Return the RayCluster `wanted`, or the only one if it is None.

        Raises RunError if `wanted` does not exist, or if it is None and there is not exactly one RayCluster.
        """
        custom = kubernetes.client.CustomObjectsApi(self._api)
        listed = custom.list_namespaced_custom_object(
            "ray.io", "v1", self._namespace, "rayclusters", _request_timeout=REQUEST_TIMEOUT
        )
        names = sorted(item["metadata"]["name"] for item in listed["items"])
        if not names:
            raise RunError(f"there is no RayCluster in namespace {self._namespace}. Fix: deploy the ray stack")
        if wanted is None and len(names) > 1:
            raise RunError(f"there are several RayClusters. Allowed: {', '.join(names)}. Fix: --cluster NAME")
        if wanted is not None and wanted not in names:
            allowed = ", ".join(names)
            raise RunError(f"there is no RayCluster {wanted} in namespace {self._namespace}. Allowed: {allowed}")
        return wanted or names[0]

    def create(self, request: Request, *, again: bool) -> None:
        """Create the run's Job; `again` resumes an ended run of the same name. Raises RunError."""
        first = self._make_room(request.name, again=again)
        job = self._job(request, first)
        try:
            made = self._batch.create_namespaced_job(self._namespace, job, _request_timeout=REQUEST_TIMEOUT)
        except ApiException as error:
            if error.status == 409:
                raise RunError(f"the run name {request.name} is in use. Fix: choose another with --name") from error
            raise
        if request.package:
            try:
                self._bring(request.name, request.package, made.metadata.uid)
            except BaseException:
                self.delete(request.name)
                raise

    def get(self, name: str) -> Run:
        """Return a run. Raises RunError if no run has this name."""
        try:
            job = self._batch.read_namespaced_job(name, self._namespace, _request_timeout=REQUEST_TIMEOUT)
        except ApiException as error:
            if error.status != 404:
                raise
            job = None
        if job is None or (job.metadata.labels or {}).get(RUN_LABEL) != name:
            raise RunError(f"there is no run {name} in namespace {self._namespace}. Fix: see `ops job list`")
        return _run(job, self._state(name))

    def all(self) -> list[Run]:
        """Return the runs, oldest first."""
        jobs = self._batch.list_namespaced_job(
            self._namespace, label_selector=RUN_LABEL, _request_timeout=REQUEST_TIMEOUT
        ).items
        leases = self._leases.list_namespaced_lease(self._namespace, _request_timeout=REQUEST_TIMEOUT).items
        states = {lease.metadata.name: _state_of(lease) for lease in leases}
        jobs.sort(key=lambda job: job.metadata.creation_timestamp)
        return [_run(job, states.get(job.metadata.name, {})) for job in jobs]

    def pending(self) -> dict[str, str]:
        """Map each run whose supervisor's pod has no place or has not started to the reason."""
        pods = self.core.list_namespaced_pod(
            self._namespace,
            label_selector=f"app.kubernetes.io/name={JOB_SUPERVISOR}",
            field_selector="status.phase=Pending",
            _request_timeout=REQUEST_TIMEOUT,
        ).items
        return {pod.metadata.labels.get(_JOB_LABEL, ""): pending_reason(pod) for pod in pods}

    def running(self, name: str) -> Run:
        """Return a run that has not ended. Raises RunError."""
        run = self.get(name)
        if run.finished:
            raise RunError(f"the run {name} has ended. Allowed: runs that have not ended")
        return run

    def stop(self, name: str) -> None:
        """Request the stop of a run; its supervisor stops the job on Ray. Raises RunError."""
        self.running(name)
        body = {"metadata": {"annotations": {RUN_STOP: "requested"}}}
        self._batch.patch_namespaced_job(name, self._namespace, body, _request_timeout=REQUEST_TIMEOUT)

    def delete(self, name: str) -> None:
        """Delete a run's Job and the objects that it owns."""
        self._batch.delete_namespaced_job(
            name, self._namespace, propagation_policy="Background", _request_timeout=REQUEST_TIMEOUT
        )

    def pods(self, name: str) -> list[Any]:
        """Return a run's supervisor pods, oldest first."""
        selector = f"{_JOB_LABEL}={name}"
        pods: list[Any] = self.core.list_namespaced_pod(
            self._namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        return sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)

    def log(self, pod: str) -> Iterable[bytes]:
        """Stream a supervisor's log in pieces until its end."""
        response = self.core.read_namespaced_pod_log(
            pod, self._namespace, follow=True, _preload_content=False, _request_timeout=_SILENCE
        )
        pieces: Iterable[bytes] = response.stream()
        return pieces

    def _make_room(self, name: str, *, again: bool) -> int:
        """Delete an ended run of this name if `again`; return the number of the new run's first attempt."""
        try:
            run = self.get(name)
        except RunError:
            return 1
        if not run.finished:
            raise RunError(
                f"the run {name} is in use ({run.phase}). "
                f"Fix: choose another --name, or follow it with `ops job logs {name}`"
            )
        if not again:
            raise RunError(f"the run {name} has ended ({run.phase}). Fix: --again resumes it, or choose another --name")
        self.delete(name)
        return int(run.state.get("attempt", 0)) + 1

    def _job(self, request: Request, first_attempt: int) -> dict[str, Any]:
        try:
            template = self._batch.read_namespaced_cron_job(
                JOB_SUPERVISOR, self._namespace, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status == 404:
                raise RunError(
                    "the environment has no job supervisor. Fix: deploy the ray stack, or use --direct"
                ) from error
            raise
        spec: dict[str, Any] = self._api.sanitize_for_serialization(template.spec.job_template.spec)
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        container["args"] += [
            f"--run={request.name}",
            f"--cluster={request.cluster}",
            f"--entrypoint={request.command.replace('$(', '$$(')}",
            f"--storage={request.storage}",
            f"--first-attempt={first_attempt}",
            f"--max-attempts={request.max_attempts}",
            f"--max-stalled={request.max_stalled}",
            f"--give-up-after={request.give_up_after:g}",
        ]
        if request.package:
            container["args"].append(f"--package={_PACKAGE_MOUNT}/{request.package.name}")
            container["volumeMounts"].append({"name": "package", "mountPath": _PACKAGE_MOUNT, "readOnly": True})
            pod["volumes"].append({"name": "package", "configMap": {"name": _config_map(request.name)}})
        labels = {RUN_LABEL: request.name, RUN_CLUSTER_LABEL: request.cluster}
        metadata = {"name": request.name, "labels": labels, "annotations": {_ENTRY: request.command}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def _bring(self, name: str, package: Package, uid: str) -> None:
        """Create the ConfigMap with the package that the supervisor's pod waits for; the Job owns it."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        body = {
            "metadata": {"name": _config_map(name), "ownerReferences": [owner]},
            "binaryData": {package.name: base64.b64encode(package.content).decode()},
            "immutable": True,
        }
        deadline = time.monotonic() + _CONFLICT_SECONDS
        while True:
            try:
                self.core.create_namespaced_config_map(self._namespace, body, _request_timeout=REQUEST_TIMEOUT)
                return
            except ApiException as error:
                # The ConfigMap of a run deleted just now exists until Kubernetes has collected it.
                if error.status != 409 or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _state(self, name: str) -> Mapping[str, Any]:
        try:
            return _state_of(
                self._leases.read_namespaced_lease(name, self._namespace, _request_timeout=REQUEST_TIMEOUT)
            )
        except ApiException as error:
            if error.status == 404:
                return {}
            raise


def pending_reason(pod: Any) -> str:
    """Return why a supervisor's pod is pending, in the scheduler's or the kubelet's words."""
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return str(condition.message or condition.reason)
    for container in pod.status.container_statuses or []:
        if waiting := container.state.waiting:
            return str(waiting.message or waiting.reason)
    return "its pod is starting"


def _run(job: Any, state: Mapping[str, Any]) -> Run:
    conditions = {c.type for c in job.status.conditions or [] if c.status == "True"}
    return Run(
        name=job.metadata.name,
        cluster=job.metadata.labels.get(RUN_CLUSTER_LABEL, ""),
        command=(job.metadata.annotations or {}).get(_ENTRY, ""),
        created=job.metadata.creation_timestamp,
        finished=bool(conditions & _DONE),
        state=state,
    )


def _state_of(lease: Any) -> Mapping[str, Any]:
    text = (lease.metadata.annotations or {}).get(RUN_STATE)
    state: Mapping[str, Any] = json.loads(text) if text else {}
    return state


def _config_map(run: str) -> str:
    return f"run-{run}"
