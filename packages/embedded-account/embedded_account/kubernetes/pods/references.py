"""Read what a pod's spec refers to: ConfigMaps, Secrets and the pod's own fields."""

import base64
import re

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object


class ContainerConfigError(Exception):
    """The container cannot be started as its pod describes it (kubelet's CreateContainerConfigError)."""


def content(
    api: KubernetesClient, pod: Object, kind: str, name: str, *, optional: bool = False
) -> dict[str, bytes] | None:
    """Return the data of a `configMap` or `secret` in the pod's namespace, or None if it is missing and optional.

    Raises ContainerConfigError.
    """
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}"
    try:
        found = api.get(path)
    except KubernetesClientError as error:
        if error.status == 404 and optional:
            return None
        raise ContainerConfigError(str(error)) from error
    encoded = "data" if kind == "secret" else "binaryData"
    values = {key: base64.b64decode(value) for key, value in (found.get(encoded) or {}).items()}
    if kind == "configMap":
        values |= {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return values


def field(pod: Object, path: str) -> str:
    """Return the value of a `fieldRef`. Raises ContainerConfigError for a field that a simulated node does not have."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"):
        part, name = path.split(".")
        return str(pod[part].get(name, ""))
    raise ContainerConfigError(f"the rehearsal does not support the field {path}")


def node_address(api: KubernetesClient, pod: Object) -> str:
    """Return the internal address of the pod's node. Raises ContainerConfigError if the node has none."""
    node = api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    addresses = node.get("status", {}).get("addresses", ())
    if found := next((each["address"] for each in addresses if each["type"] == "InternalIP"), None):
        return str(found)
    raise ContainerConfigError(f"the node {pod['spec']['nodeName']} has no internal address yet")
