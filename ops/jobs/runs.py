"""Create, list and stop runs: each is a supervisor's Job, made from the ray stack's template, or an operator's."""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from k8s_charts.shared.names import (
    JOB_SUPERVISOR,
    RAYJOB_SUBMITTER,
    RUN_CLUSTER_LABEL,
    RUN_LABEL,
    RUN_STATE,
    RUN_STOP,
)
from ops.clients import REQUEST_TIMEOUT
from ops.errors import in_plain_words
from ops.jobs.kind import JobKind
from ops.jobs.operators.objects import literal
from ops.jobs.operators.runs import OPERATED, Operators
from ops.jobs.packing import Package
from ops.jobs.run import ExistingRun, RunError, RunRequest

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


class Runs:
    """The runs of a namespace; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        self._api = api
        self.namespace = self._namespace = namespace
        self._batch = kubernetes.client.BatchV1Api(api)
        self.core = kubernetes.client.CoreV1Api(api)
        self._leases = kubernetes.client.CoordinationV1Api(api)
        self._operators = Operators(api, namespace)

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

    def create(self, request: RunRequest, *, again: bool) -> None:
        """Create the run's object; `again` resumes an ended run of the same name. Raises RunError."""
        first = self._make_room(request.name, again=again)
        made = self._send(request.kind, self._body(request, first))
        if request.package:
            owner = {key: made[key] for key in ("apiVersion", "kind")}
            owner |= {"name": request.name, "uid": made["metadata"]["uid"]}
            try:
                self._bring(request.name, request.package, owner)
            except BaseException:
                self.delete(request.name, request.kind)
                raise

    def preview(self, request: RunRequest) -> dict[str, Any]:
        """Return the object that `create` would create, once the API server has checked it. Raises RunError."""
        body = self._body(request, first_attempt=1)
        self._send(request.kind, body, dry_run=True)
        return body

    def _body(self, request: RunRequest, first_attempt: int) -> dict[str, Any]:
        """Return the object of a run. Raises RunError."""
        if request.kind is JobKind.SUPERVISED:
            return self._job(request, first_attempt)
        package = (_package_path(request.package), _config_map(request.name)) if request.package else None
        return self._operators.body(request, package, self._submitter)

    def _submitter(self, request: RunRequest) -> dict[str, Any]:
        """Return the template of the pod that submits a RayJob's job. Raises RunError."""
        template: dict[str, Any] = self._template(RAYJOB_SUBMITTER, "template for RayJobs' submitters")["template"]
        _complete(template["spec"], request)
        return template

    def _send(self, kind: JobKind, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; return it. With `dry_run`, the API server only checks it. Raises RunError."""
        try:
            if kind in OPERATED:
                return self._operators.create(kind, body, dry_run=dry_run)
            further = {"dry_run": "All"} if dry_run else {}
            job = self._batch.create_namespaced_job(self._namespace, body, _request_timeout=REQUEST_TIMEOUT, **further)
            return {**body, "metadata": {"uid": job.metadata.uid}}
        except ApiException as error:
            if error.status == 409:
                name = body["metadata"]["name"]
                raise RunError(f"the run name {name} is in use. Fix: choose another with --name") from error
            raise

    def get(self, name: str) -> ExistingRun:
        """Return a run. Raises RunError if no run has this name."""
        found = self.find(name)
        if found is None:
            raise RunError(f"there is no run {name} in namespace {self._namespace}. Fix: see `ops job list`")
        return found

    def find(self, name: str) -> ExistingRun | None:
        """Return a run; None if no run has this name."""
        try:
            job = self._batch.read_namespaced_job(name, self._namespace, _request_timeout=REQUEST_TIMEOUT)
        except ApiException as error:
            if error.status != 404:
                raise
            job = None
        if job is not None and (job.metadata.labels or {}).get(RUN_LABEL) == name:
            return _run(job, self._state(name))
        return self._operators.find(name)

    def all(self) -> list[ExistingRun]:
        """Return the runs, oldest first."""
        return sorted([*self.supervised(), *self._operators.all()], key=lambda run: run.created)

    def supervised(self) -> list[ExistingRun]:
        """Return the runs that have a supervisor."""
        jobs = self._batch.list_namespaced_job(
            self._namespace, label_selector=RUN_LABEL, _request_timeout=REQUEST_TIMEOUT
        ).items
        leases = self._leases.list_namespaced_lease(self._namespace, _request_timeout=REQUEST_TIMEOUT).items
        states = {lease.metadata.name: _state_of(lease) for lease in leases}
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

    def first_worker(self, name: str) -> Any | None:
        """Return the pod of a PyTorchJob that prints its output; None while there is none."""
        return self._operators.first_worker(name)

    def worker(self, name: str, index: int) -> tuple[int, Any | None]:
        """Return the number of a PyTorchJob's workers, and the pod of one; None while there is none."""
        return self._operators.worker(name, index)

    def on_ray(self, name: str) -> ExistingRun:
        """Return a run that has not ended, and whose head can be asked. Raises RunError."""
        run = self.running(name)
        if not run.kind.on_ray:
            raise RunError(f"the run {name} is a PyTorchJob, which has no Ray head to ask. Allowed: runs on Ray")
        return run

    def running(self, name: str) -> ExistingRun:
        """Return a run that has not ended. Raises RunError."""
        run = self.get(name)
        if run.finished:
            raise RunError(f"the run {name} has ended. Allowed: runs that have not ended. Fix: see `ops job list`")
        return run

    def stop(self, name: str) -> None:
        """Request the stop of a run; its supervisor stops the job on Ray. Delete an operator's. Raises RunError."""
        run = self.running(name)
        if run.kind in OPERATED:
            self._operators.delete(run.kind, name)
            return
        body = {"metadata": {"annotations": {RUN_STOP: "requested"}}}
        self._batch.patch_namespaced_job(name, self._namespace, body, _request_timeout=REQUEST_TIMEOUT)

    def delete(self, name: str, kind: JobKind = JobKind.SUPERVISED) -> None:
        """Delete a run's object and the objects that it owns."""
        if kind in OPERATED:
            self._operators.delete(kind, name)
            return
        self._batch.delete_namespaced_job(
            name, self._namespace, propagation_policy="Background", _request_timeout=REQUEST_TIMEOUT
        )

    def may_reach_heads(self) -> bool:
        """Return whether the caller may use a port-forward, as submitters may and viewers may not."""
        return self.may_reach_pods("portforward")

    def may_reach_pods(self, way: str) -> bool:
        """Return whether the caller may use this subresource of pods: portforward or exec."""
        wanted = {"verb": "get", "resource": "pods", "subresource": way, "namespace": self._namespace}
        review = kubernetes.client.AuthorizationV1Api(self._api).create_self_subject_access_review(
            {"spec": {"resourceAttributes": wanted}}, _request_timeout=REQUEST_TIMEOUT
        )
        return bool(review.status.allowed)

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

    def require_name(self, name: str, *, again: bool) -> ExistingRun | None:
        """Return the ended run of this name if `again`. Raises RunError if a new run cannot have this name."""
        run = self.find(name)
        if run is None:
            return None
        if not run.finished:
            raise RunError(
                f"the run {name} is in use ({run.phase}). "
                f"Fix: choose another --name, or follow it with `ops job logs {name}`"
            )
        if not again:
            raise RunError(f"the run {name} has ended ({run.phase}). Fix: --again resumes it, or choose another --name")
        return run

    def _make_room(self, name: str, *, again: bool) -> int:
        """Delete an ended run of this name if `again`; return the number of the new run's first attempt."""
        run = self.require_name(name, again=again)
        if run is None:
            return 1
        self.delete(name, run.kind)
        if run.kind in OPERATED:
            self._operators.wait_until_gone(run)
        return int(run.state.get("attempt", 0)) + 1

    def _template(self, name: str, what: str) -> dict[str, Any]:
        """Return the spec of the Job of a suspended CronJob. Raises RunError if there is no such CronJob."""
        try:
            template = self._batch.read_namespaced_cron_job(name, self._namespace, _request_timeout=REQUEST_TIMEOUT)
        except ApiException as error:
            if error.status == 404:
                raise RunError(f"the environment has no {what}. Fix: deploy the ray stack, or use --direct") from error
            raise
        spec: dict[str, Any] = self._api.sanitize_for_serialization(template.spec.job_template.spec)
        return spec

    def _job(self, request: RunRequest, first_attempt: int) -> dict[str, Any]:
        spec = self._template(JOB_SUPERVISOR, "job supervisor")
        further = (
            f"--cluster={request.cluster}",
            f"--first-attempt={first_attempt}",
            f"--max-attempts={request.max_attempts}",
            f"--max-stalled={request.max_stalled}",
            f"--give-up-after={request.give_up_after:g}",
        )
        _complete(spec["template"]["spec"], request, *further)
        labels = {RUN_LABEL: request.name, RUN_CLUSTER_LABEL: request.cluster}
        metadata = {"name": request.name, "labels": labels, "annotations": {_ENTRY: request.command}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def _bring(self, name: str, package: Package, owner: Mapping[str, str]) -> None:
        """Create the ConfigMap with the package that the run's pod waits for; the Job or RayJob owns it."""
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

    def packages(self, name: str) -> list[bytes]:
        """Return the zip files of a run's working directory that `create` brought; none if it has none."""
        try:
            found = self.core.read_namespaced_config_map(
                _config_map(name), self._namespace, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status == 404:
                return []
            raise
        return [base64.b64decode(each) for each in (found.binary_data or {}).values()]

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


def _complete(pod: dict[str, Any], request: RunRequest, *further: str) -> None:
    """Add the run's arguments, `further` ones and the package to the template of its pod."""
    [container] = pod["containers"]
    container["args"] = [
        *container.get("args", []),
        f"--run={request.name}",
        f"--entrypoint={literal(request.started)}",
        f"--storage={request.storage}",
        *(f"--variable={name}={literal(value)}" for name, value in request.variables.items()),
        *(f"--pip={literal(line)}" for line in request.pip),
        *further,
    ]
    if request.package:
        container["args"].append(f"--package={_package_path(request.package)}")
        container["volumeMounts"].append({"name": "package", "mountPath": _PACKAGE_MOUNT, "readOnly": True})
        pod["volumes"].append({"name": "package", "configMap": {"name": _config_map(request.name)}})


def _run(job: Any, state: Mapping[str, Any]) -> ExistingRun:
    conditions = {c.type for c in job.status.conditions or [] if c.status == "True"}
    args = job.spec.template.spec.containers[0].args or []
    annotations = job.metadata.annotations or {}
    finished = bool(conditions & _DONE)
    if RUN_STOP in annotations and not finished:
        state = {**state, "reason": "stop requested: it saves, then ends"}
    return ExistingRun(
        name=job.metadata.name,
        cluster=job.metadata.labels.get(RUN_CLUSTER_LABEL, ""),
        command=annotations.get(_ENTRY, ""),
        created=job.metadata.creation_timestamp,
        finished=finished,
        state=state,
        series=job.metadata.uid,
        storage=_argument(args, "storage"),
        first_attempt=int(_argument(args, "first-attempt") or 1),
    )


def _argument(args: Sequence[str], name: str) -> str:
    """Return the value of an argument of a run's pod; empty if it has none."""
    return next((word.partition("=")[2] for word in args if word.startswith(f"--{name}=")), "")


def _state_of(lease: Any) -> Mapping[str, Any]:
    """Return the state in a run's Lease; empty if it has none, or no supervisor wrote it."""
    try:
        state = json.loads((lease.metadata.annotations or {}).get(RUN_STATE, ""))
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _package_path(package: Package) -> str:
    return f"{_PACKAGE_MOUNT}/{package.name}"


def _config_map(run: str) -> str:
    return f"run-{run}"
