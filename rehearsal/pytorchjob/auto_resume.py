"""A stand-in for HyperPod's auto-resume of PyTorchJobs; AWS does not publish its program.

It does what AWS documents: a faulty node is replaced, and the jobs on it restart, each as often as its annotation says.
The order is a guess (docs/unverified-on-aws.md): the node's label, the jobs' pods, the node.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from config.labels import NODE_HEALTH_LABEL
from embedded_account.kubernetes.api import KubernetesClient, Object
from embedded_account.kubernetes.nodes import Nodes

# Written from AWS's documentation, not taken from the product: a wrong name there must not be wrong here, too.
_AUTO_RESUME: Final = "sagemaker.amazonaws.com/enable-job-auto-resume"
_MAX_RETRIES: Final = "sagemaker.amazonaws.com/job-max-retry-count"
_JOBS: Final = "/apis/kubeflow.org/v1/pytorchjobs"
_JOB_LABEL: Final = "training.kubeflow.org/job-name"
_REPLACE: Final = "UnschedulablePendingReplacement"
_AT_ONCE: Final[Mapping[str, Any]] = {"gracePeriodSeconds": 0}


class AutoResume:
    """Replaces lost nodes and resumes the PyTorchJobs on them."""

    def __init__(self, api: KubernetesClient, replace: Callable[[str], str]) -> None:
        """Take a connection as administrator; `replace` replaces the machine of a node and returns the new name."""
        self._api = api
        self._nodes = Nodes(api)
        self._replace = replace
        self._retries: Counter[str] = Counter()

    def act(self, node: str) -> list[str]:
        """Replace a lost node; return what was done, each line marked as simulated."""
        self._nodes.set_label(node, NODE_HEALTH_LABEL, _REPLACE)
        lines = [line for job in self._jobs_on(node) for line in self._resume(job)]
        return [*lines, f"simulated HyperPod: node {node} is replaced by {self._replace(node)}"]

    def _resume(self, job: Object) -> list[str]:
        metadata = job["metadata"]
        notes, name = metadata.get("annotations", {}), metadata["name"]
        if notes.get(_AUTO_RESUME) != "true":
            return []
        if self._retries[metadata["uid"]] >= int(notes[_MAX_RETRIES]):
            return [f"simulated HyperPod: PyTorchJob {name} has no retry left"]
        self._retries[metadata["uid"]] += 1
        pods = [pod for pod in self._pods() if _job_of(pod) == name]
        for pod in pods:
            place = pod["metadata"]
            self._api.delete(f"/api/v1/namespaces/{place['namespace']}/pods/{place['name']}", dict(_AT_ONCE))
        retry = f"retry {self._retries[metadata['uid']]} of {notes[_MAX_RETRIES]}"
        return [f"simulated HyperPod: PyTorchJob {name} restarts, {retry}: {len(pods)} pods are ended"]

    def _jobs_on(self, node: str) -> list[Object]:
        here = {_job_of(pod) for pod in self._pods() if pod["spec"].get("nodeName") == node}
        return [job for job in self._api.get(_JOBS)["items"] if _is_resumed_in(job) and job["metadata"]["name"] in here]

    def _pods(self) -> list[Object]:
        return list(self._api.get("/api/v1/pods", labelSelector=_JOB_LABEL)["items"])


def _job_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"][_JOB_LABEL])


def _is_resumed_in(job: Object) -> bool:
    namespace = str(job["metadata"]["namespace"])
    return namespace == "kubeflow" or namespace.startswith("hyperpod")
