"""What a pod's spec refers to: ConfigMaps, Secrets and the pod's own fields."""

import base64
import re

from embedded_account.kubernetes.api import Api, ApiError, Object


class ContainerConfigError(Exception):
    """The container cannot be started as its pod describes it; kubelet would say CreateContainerConfigError."""


def content(api: Api, pod: Object, kind: str, name: str, *, optional: bool = False) -> dict[str, bytes] | None:
    """Data of a `configMap` or `secret` of the pod's namespace; None if it is missing and optional.

    Raises ContainerConfigError.
    """
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}"
    try:
        found = api.get(path)
    except ApiError as error:
        if error.status == 404 and optional:
            return None
        raise ContainerConfigError(str(error)) from error
    encoded = "data" if kind == "secret" else "binaryData"
    values = {key: base64.b64decode(value) for key, value in (found.get(encoded) or {}).items()}
    if kind == "configMap":
        values |= {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return values


def field(pod: Object, path: str) -> str:
    """A `fieldRef`. Raises ContainerConfigError for one that a simulated node cannot answer."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"):
        part, name = path.split(".")
        return str(pod[part].get(name, ""))
    raise ContainerConfigError(f"the rehearsal does not know the field {path}")
