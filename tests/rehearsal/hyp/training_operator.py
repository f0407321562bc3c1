"""A stand-in for HyperPod's training operator, which AWS does not publish: it accepts jobs and starts no pod.

The kind states only the fields that the client sends for the tests' jobs and reads of them. Source: the models of the
PyPI package sagemaker-hyperpod 3.12.0 (Apache-2.0), `sagemaker.hyperpod.training.config`. AWS's own schema, and what
AWS's operator writes into the status, are unverified.
"""

from datetime import UTC, datetime
from typing import Any, Final

from embedded_account.kubernetes.api import KubernetesClient, Object

GROUP: Final = "sagemaker.amazonaws.com"
PLURAL: Final = "hyperpodpytorchjobs"
SAYS: Final = "simulated HyperPod training operator: no pod is started"


def _object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


_TEXT: Final = {"type": "string"}
_POD: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REPLICA: Final = _object(name=_TEXT, replicas={"type": "integer"}, template=_object(metadata=_POD, spec=_POD))
_CONDITION: Final = _object(
    type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime={"type": "string", "format": "date-time"}
)


def definition() -> Object:
    """Return the CustomResourceDefinition of HyperPodPyTorchJobs."""
    schema = _object(
        spec=_object(nprocPerNode=_TEXT, replicaSpecs={"type": "array", "items": _REPLICA}),
        status=_object(conditions={"type": "array", "items": _CONDITION}),
    )
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "HyperPodPyTorchJob", "plural": PLURAL, "singular": "hyperpodpytorchjob"},
            "versions": [version],
        },
    }


def jobs(api: KubernetesClient) -> list[Object]:
    """Return the jobs of all namespaces."""
    return list(api.get(f"/apis/{GROUP}/v1/{PLURAL}")["items"])


def accept(api: KubernetesClient) -> None:
    """Give each job the condition from which the client takes its state and age; its message says who wrote it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Created", "status": "True", "reason": "Simulated", "message": SAYS, "lastTransitionTime": now}
    for job in jobs(api):
        place = job["metadata"]
        path = f"/apis/{GROUP}/v1/namespaces/{place['namespace']}/{PLURAL}/{place['name']}/status"
        api.patch(path, {"status": {"conditions": [condition]}})
