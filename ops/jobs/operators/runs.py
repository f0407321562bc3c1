"""Create, find and delete the runs that operators carry out."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from k8s_charts.shared.names import RUN_CLUSTER_LABEL, RUN_LABEL
from ops.clients import REQUEST_TIMEOUT
from ops.jobs.kind import JobKind
from ops.jobs.operators import pytorchjob, rayjob
from ops.jobs.operators.pytorchjob import NotResumedError, PyTorchJobs, Script
from ops.jobs.operators.rayjob import NoWorkersError, SubmittedRayJobs
from ops.jobs.run import ExistingRun, OwnCluster, RunError, RunRequest

_MODULES: Final = {JobKind.RAYJOB: rayjob, JobKind.PYTORCHJOB: pytorchjob}
OPERATED: Final = frozenset(_MODULES)
"""The kinds of runs that an operator carries out."""
_GONE_SECONDS: Final = 30


def unfinished_like_workers(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[str]:
    """Return kind and name of the unfinished objects whose pods are like the workers of the RayCluster."""
    found = PyTorchJobs(api, namespace).all(f"{RUN_CLUSTER_LABEL}={cluster}")
    return [f"PyTorchJob {each['metadata']['name']}" for each in found if not pytorchjob.is_over(each)]


class Operators:
    """The RayJobs and PyTorchJobs of a namespace; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._pytorch_jobs = PyTorchJobs(api, namespace)
        self._of: Mapping[JobKind, SubmittedRayJobs | PyTorchJobs] = {
            JobKind.RAYJOB: SubmittedRayJobs(api, namespace),
            JobKind.PYTORCHJOB: self._pytorch_jobs,
        }

    def body(
        self, request: RunRequest, package: tuple[str, str] | None, submitter: Callable[[RunRequest], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the object of a run.

        `package` is the path of its package and its ConfigMap; `submitter` returns a RayJob's. Raises RunError.
        """
        cluster = self._ray_cluster(request.cluster)
        try:
            if request.own_pods:
                pytorchjob.require_resumed(self._namespace, request.max_attempts)
                script = Script(request.command, request.storage, package, request.fetch, request.variables)
                return pytorchjob.pytorch_job(
                    request.name, script, request.own_pods, attempts=request.max_attempts, cluster=cluster
                )
            return rayjob.ray_job(
                request.name,
                request.command,
                request.own_cluster or OwnCluster(),
                attempts=request.max_attempts,
                cluster=cluster,
                submitter=submitter(request),
            )
        except NoWorkersError as error:
            raise RunError(f"RayCluster {request.cluster} has no workers to copy. Fix: --workers N") from error
        except NotResumedError as error:
            raise RunError(str(error)) from error

    def create(self, kind: JobKind, body: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
        """Create an object; return it. With `dry_run`, the API server only checks it. Raises RunError."""
        try:
            return {**body, **self._of[kind].create(body, dry_run=dry_run)}
        except ApiException as error:
            if error.status == 404:
                raise RunError(f"the cluster has no {body['kind']}s. Fix: deploy the platform stack") from error
            raise

    def find(self, name: str) -> ExistingRun | None:
        """Return a run; None if no run has this name."""
        for kind, objects in self._of.items():
            found = objects.get(name)
            if found and found["metadata"].get("labels", {}).get(RUN_LABEL) == name:
                return self._run(kind, found)
        return None

    def all(self) -> list[ExistingRun]:
        """Return the runs."""
        return [self._run(kind, made) for kind, objects in self._of.items() for made in objects.all()]

    def delete(self, kind: JobKind, name: str) -> None:
        """Delete a run's object and the objects that it owns."""
        self._of[kind].delete(name)

    def wait_until_gone(self, run: ExistingRun) -> None:
        """Wait for the operator, which may have a finalizer, and for the garbage collector. Raises RunError."""
        deadline = time.monotonic() + _GONE_SECONDS
        while self._of[run.kind].get(run.name):
            if time.monotonic() > deadline:
                raise RunError(f"the earlier {run.kind} {run.name} is still being deleted. Fix: rerun this command")
            time.sleep(0.5)

    def first_worker(self, name: str) -> Any | None:
        """Return the pod of a PyTorchJob that prints its output; None while there is none."""
        return self._pytorch_jobs.first_worker(name)

    def worker(self, name: str, index: int) -> tuple[int, Any | None]:
        """Return the number of a PyTorchJob's workers, and the pod of one; None while there is none."""
        made = self._pytorch_jobs.get(name) or {}
        workers = made.get("spec", {}).get("pytorchReplicaSpecs", {}).get("Worker", {}).get("replicas", 0)
        return int(workers), self._pytorch_jobs.worker(name, index)

    def _ray_cluster(self, name: str) -> dict[str, Any]:
        custom = kubernetes.client.CustomObjectsApi(self._api)
        found: dict[str, Any] = custom.get_namespaced_custom_object(
            "ray.io", "v1", self._namespace, "rayclusters", name, _request_timeout=REQUEST_TIMEOUT
        )
        return found

    def _run(self, kind: JobKind, made: Mapping[str, Any]) -> ExistingRun:
        metadata, module = made["metadata"], _MODULES[kind]
        return ExistingRun(
            name=metadata["name"],
            cluster=metadata["labels"].get(RUN_CLUSTER_LABEL, ""),
            command=module.command_of(made),
            created=datetime.fromisoformat(metadata["creationTimestamp"]),
            finished=module.is_over(made),
            state=self._of[kind].state(made),
            kind=kind,
        )
