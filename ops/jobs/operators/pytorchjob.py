"""PyTorchJobs, objects of Kubeflow's training operator, which HyperPod's chart brings: each is one torchrun.

Its pods are made like the workers of the live RayCluster: image, account, volumes, nodes and security settings are the
same. The label on them lets them reach each other (`k8s_charts/shared/flows.py`).

All pods are Workers, as in the walkthrough. Beside a Master, the operator would give each worker an init container
with the image `alpine:3.10`, which neither Pod Security's `restricted` level nor a closed network admits.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import kubernetes

from config import labels
from config.facts.instance_types import GPU_RESOURCE
from k8s_charts.shared.names import RAYJOB_LABEL, RUN_CLUSTER_LABEL, RUN_LABEL
from ops.jobs.operators.objects import Objects, literal
from ops.jobs.operators.rayjob import QUEUE, NoWorkersError
from ops.jobs.run import OwnPods

GROUP: Final = "kubeflow.org"
PLURAL: Final = "pytorchjobs"
LONGEST_NAME: Final = 46
"""The operator names pods and Services `<PyTorchJob>-worker-<index>`; a Service's name has at most 63 characters."""

# HyperPod reads them from a PyTorchJob (AWS docs: sagemaker-hyperpod-eks-run-jobs-kubectl).
AUTO_RESUME: Final = "sagemaker.amazonaws.com/enable-job-auto-resume"
MAX_RETRIES: Final = "sagemaker.amazonaws.com/job-max-retry-count"
# "The job must be running under the kubeflow namespace or a namespace prefixed with hyperpod" (AWS docs:
# sagemaker-hyperpod-eks-run-jobs-hyperpod-cli). HyperPod's chart creates the first one, so it is nobody's here.
_RESUMED_NAMESPACES: Final = "hyperpod"

# The operator's labels of each pod.
JOB_LABEL: Final = "training.kubeflow.org/job-name"
INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
# The operator requires this name of the container, and its Services have this port.
_CONTAINER: Final = "pytorch"
_PORT: Final = 23456

COMMAND: Final = "ray-on-hyperpod/entrypoint"
"""Annotation with the run's command."""
_WORK: Final = "/opt/ray-on-hyperpod-work"
# The words after it: the package, or nothing, and the command.
_START: Final = (
    f"set -eu; cd {_WORK}; "
    'if [ -n "$1" ]; then python -m zipfile -e "$1" .; fi; '
    'export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"; exec /bin/bash -c "$2"'
)
# A worker of a RayCluster has them for Ray.
_RAYS_VOLUME: Final = "ray-logs"
_RAYS_FIELDS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "ports")

_OVER: Final = {"Succeeded": 0, "Failed": 1}
# The operator's conditions, the most telling first.
_PHASES: Final = {
    "Failed": "failed",
    "Succeeded": "succeeded",
    "Suspended": "suspended",
    "Restarting": "restarting",
    "Running": "running",
}


class NotResumedError(Exception):
    """HyperPod resumes no PyTorchJob of this namespace."""


@dataclass(frozen=True)
class Script:
    """What each pod starts: a shell command, RUN_STORAGE, and the mount path of the package and its ConfigMap.

    `fetch` is the shell command before it, if it needs one; `variables` are the job's own.
    """

    command: str
    storage: str
    package: tuple[str, str] | None = None
    fetch: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


def require_resumed(namespace: str, attempts: int) -> None:
    """Raise NotResumedError if more than one attempt is wanted where HyperPod resumes no PyTorchJob."""
    if attempts > 1 and not namespace.startswith(_RESUMED_NAMESPACES):
        raise NotResumedError(
            f"ray.namespace: {namespace!r} is invalid for a PyTorchJob that HyperPod resumes. Allowed: a name that "
            f"begins with {_RESUMED_NAMESPACES}. Fix: change ray.namespace, or give --max-attempts 1: it is not resumed"
        )


def pytorch_job(
    name: str, script: Script, own: OwnPods, *, attempts: int, cluster: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the PyTorchJob that runs `script` in pods like the first worker group's of `cluster`.

    HyperPod resumes it `attempts - 1` times. Raises NoWorkersError.
    """
    groups = cluster["spec"].get("workerGroupSpecs", [])
    workers = int(groups[0].get("replicas", 0) if own.workers is None else own.workers) if groups else 0
    if not workers:
        raise NoWorkersError
    queue = {QUEUE: own.queue} if own.queue else {}
    resumed = {AUTO_RESUME: "true", MAX_RETRIES: str(attempts - 1)} if attempts > 1 else {}
    pod = _pod(name, script, groups[0]["template"]["spec"])
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": name,
            "labels": {RUN_LABEL: name, RUN_CLUSTER_LABEL: cluster["metadata"]["name"], **queue},
            "annotations": {COMMAND: script.command, **resumed},
        },
        "spec": {
            "runPolicy": {
                # Ended pods stay, with their output.
                "cleanPodPolicy": "Running",
                # A container that ends with an error is restarted in its pod: each attempt counts once for each pod.
                "backoffLimit": attempts * workers,
                "suspend": own.queue is not None,
            },
            "pytorchReplicaSpecs": {
                # HyperPod requires this restart policy.
                "Worker": {
                    "replicas": workers,
                    "restartPolicy": "OnFailure",
                    "template": {"metadata": {"labels": {RAYJOB_LABEL: "true"}}, "spec": pod},
                }
            },
        },
    }


def _pod(name: str, script: Script, worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod like a RayCluster's worker, without what is Ray's."""
    pod: dict[str, Any] = copy.deepcopy(dict(worker))
    pod.pop("restartPolicy", None)
    pod["nodeSelector"] = {**pod.get("nodeSelector", {}), labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE}
    apart = {"labelSelector": {"matchLabels": {JOB_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    spread = pod.setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    # Beside the template's own term, which keeps them off nodes with a Ray worker.
    spread.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(apart)
    container = pod["containers"][0]
    for key in _RAYS_FIELDS:
        container.pop(key, None)
    path, config_map = script.package or ("", "")
    words = (_START, "run", path, f"{script.fetch} {script.command}".strip())
    container |= {"name": _CONTAINER, "command": ["/bin/bash", "-c", *map(literal, words)]}
    container.pop("args", None)
    container["env"] = [*container.get("env", []), *_variables(name, script, container)]
    mounts, volumes = container.get("volumeMounts", []), pod.get("volumes", [])
    container["volumeMounts"] = [each for each in mounts if each["name"] != _RAYS_VOLUME]
    pod["volumes"] = [each for each in volumes if each["name"] != _RAYS_VOLUME]
    _add_volume(pod, {"name": "work", "emptyDir": {}}, {"mountPath": _WORK})
    if script.package:
        folder = path.rpartition("/")[0]
        _add_volume(
            pod, {"name": "package", "configMap": {"name": config_map}}, {"mountPath": folder, "readOnly": True}
        )
    return pod


def _add_volume(pod: dict[str, Any], volume: dict[str, Any], mount: dict[str, Any]) -> None:
    pod["volumes"].append(volume)
    pod["containers"][0]["volumeMounts"].append({"name": volume["name"], **mount})


def _variables(name: str, script: Script, container: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the job's own variables, the library's, and those that torchrun reads instead of options.

    The operator adds PET_NNODES. The group meets at the first worker, and each worker has its own rank: a replaced pod
    gets the lost one's.
    """
    gpus = container.get("resources", {}).get("limits", {}).get(GPU_RESOURCE, "1")
    plain = {
        **{key: literal(value) for key, value in script.variables.items()},
        "RUN_NAME": name,
        "RUN_STORAGE": script.storage,
        "PET_NPROC_PER_NODE": str(gpus),
        "PET_MASTER_ADDR": f"{name}-worker-0",
        "PET_MASTER_PORT": str(_PORT),
    }
    index = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}}
    return [
        *({"name": key, "value": value} for key, value in plain.items()),
        {"name": "PET_NODE_RANK", "valueFrom": index},
    ]


def command_of(made: Mapping[str, Any]) -> str:
    """Return the command of a PyTorchJob."""
    return str(made["metadata"].get("annotations", {}).get(COMMAND, ""))


def is_over(made: Mapping[str, Any]) -> bool:
    """Return whether a PyTorchJob has ended for good."""
    return any(kind in _OVER for kind in _conditions(made))


def state(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PyTorchJob's state in the words of a supervisor's; `exit_code` is in it once the PyTorchJob is over."""
    conditions = _conditions(made)
    kind = next((kind for kind in _PHASES if kind in conditions), "")
    found: dict[str, Any] = {"phase": _PHASES.get(kind, "starting"), "reason": _reason(made, kind, conditions)}
    if kind in _OVER:
        found["exit_code"] = _OVER[kind]
    return found


def _conditions(made: Mapping[str, Any]) -> dict[str, str]:
    """Map each condition that holds to its message."""
    conditions = made.get("status", {}).get("conditions") or []
    return {each["type"]: str(each.get("message", "")) for each in conditions if each["status"] == "True"}


def _reason(made: Mapping[str, Any], kind: str, conditions: Mapping[str, str]) -> str:
    queue = made["metadata"].get("labels", {}).get(QUEUE)
    if kind == "Suspended" and queue:
        return f"waits for queue {queue}"
    return conditions[kind].strip() if kind in ("Failed", "Restarting") else ""


class PyTorchJobs(Objects):
    """The PyTorchJobs of a namespace that `ops job submit` created; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        super().__init__(api, namespace, GROUP, PLURAL)

    def state(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Return a PyTorchJob's state (see the function `state`), also with what its pods wait for."""
        found = state(made)
        if not is_over(made) and found["phase"] != "suspended":
            found["reason"] = self._pods_wait_for(f"{JOB_LABEL}={made['metadata']['name']}") or found["reason"]
        return found

    def first_worker(self, name: str) -> Any | None:
        """Return the pod with rank 0, which prints a training's output; None while there is none."""
        return self.worker(name, 0)

    def worker(self, name: str, index: int) -> Any | None:
        """Return a worker's pod; None while there is none."""
        pods = self._pods(f"{JOB_LABEL}={name},{INDEX_LABEL}={index}")
        return pods[0] if pods else None
