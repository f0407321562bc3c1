"""Read the Kubernetes objects of the environment's namespaces: specifications and status, never Secrets.

ConfigMaps are left out, too: whoever writes them may keep credentials there.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import kubernetes

from config import EksEnvironment
from k8s_charts.shared.names import HYPERPOD_NAMESPACE, IMAGE_BUILD_NAMESPACE
from ops.clients import REQUEST_TIMEOUT
from ops.support.bundle import CollectedFile
from ops.support.sources import Sources

_PATIENCE: Final[dict[str, Any]] = {"_request_timeout": REQUEST_TIMEOUT}
# Who wrote which field, and the same object once more as text.
_NOISE: Final = ("managedFields",)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_List = Callable[[kubernetes.client.ApiClient, str], Any]


def _core(method: str) -> _List:
    return lambda api, namespace: getattr(kubernetes.client.CoreV1Api(api), method)(namespace, **_PATIENCE)


def _apps(method: str) -> _List:
    return lambda api, namespace: getattr(kubernetes.client.AppsV1Api(api), method)(namespace, **_PATIENCE)


def _ray(plural: str) -> _List:
    return lambda api, namespace: kubernetes.client.CustomObjectsApi(api).list_namespaced_custom_object(
        "ray.io", "v1", namespace, plural, **_PATIENCE
    )


_NAMESPACED: Final[Mapping[str, _List]] = {
    "pods": _core("list_namespaced_pod"),
    "services": _core("list_namespaced_service"),
    "persistentvolumeclaims": _core("list_namespaced_persistent_volume_claim"),
    "serviceaccounts": _core("list_namespaced_service_account"),
    "deployments": _apps("list_namespaced_deployment"),
    "daemonsets": _apps("list_namespaced_daemon_set"),
    "jobs": lambda api, namespace: kubernetes.client.BatchV1Api(api).list_namespaced_job(namespace, **_PATIENCE),
    "leases": lambda api, namespace: kubernetes.client.CoordinationV1Api(api).list_namespaced_lease(
        namespace, **_PATIENCE
    ),
    "networkpolicies": lambda api, namespace: kubernetes.client.NetworkingV1Api(api).list_namespaced_network_policy(
        namespace, **_PATIENCE
    ),
    "rayclusters": _ray("rayclusters"),
    "rayjobs": _ray("rayjobs"),
}
_OF_THE_CLUSTER: Final[Mapping[str, Callable[[kubernetes.client.ApiClient], Any]]] = {
    "nodes": lambda api: kubernetes.client.CoreV1Api(api).list_node(**_PATIENCE),
    "persistentvolumes": lambda api: kubernetes.client.CoreV1Api(api).list_persistent_volume(**_PATIENCE),
}
KINDS: Final = (*_OF_THE_CLUSTER, *_NAMESPACED)
"""What is read, by the plural names of Kubernetes."""


def namespaces(environment: EksEnvironment) -> list[str]:
    """Return the namespaces that the project and HyperPod use, each once."""
    names = (environment.ray.namespace, environment.kuberay.namespace, IMAGE_BUILD_NAMESPACE, HYPERPOD_NAMESPACE)
    return list(dict.fromkeys(names))


def read(sources: Sources, kind: str) -> Iterator[CollectedFile]:
    """Yield a file for each namespace with objects of the kind.

    Raises the errors of the Kubernetes client; a namespace that cannot be read hides no other one.
    """
    api = sources.clients.kubernetes
    if kind in _OF_THE_CLUSTER:
        yield CollectedFile(f"kubernetes/{kind}.json", _objects(api, _OF_THE_CLUSTER[kind](api)))
        return
    refusals = []
    for namespace in namespaces(sources.environment):
        try:
            found = _objects(api, _NAMESPACED[kind](api, namespace))
        except kubernetes.client.ApiException as error:
            refusals.append(error)
            continue
        if found:
            yield CollectedFile(f"kubernetes/{namespace}/{kind}.json", found)
    if refusals:
        raise refusals[0]


def _objects(api: kubernetes.client.ApiClient, listed: Any) -> list[dict[str, Any]]:
    return [_without_noise(item) for item in api.sanitize_for_serialization(listed)["items"]]


def _without_noise(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _NOISE}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    return {**item, "metadata": metadata}
