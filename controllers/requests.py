"""Requests that several controllers make: a review of their own rights, and events."""

import secrets
from datetime import UTC, datetime
from typing import Final, Literal

from controllers.kubernetes_api import KubernetesApi, Object, read

# The `note` of events.k8s.io/v1 takes no more, and is the same field (kubernetes, pkg/apis/core/validation/events.go).
_MESSAGE_CHARACTERS: Final = 1024


def is_allowed(
    api: KubernetesApi, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = ""
) -> bool:
    """Return whether this service account may do `verb` on a resource, such as `pods` or `pods/status`.

    The core group's name is empty, `namespace` of all namespaces and `name` of all objects, too. Raises ApiError.
    """
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource, "name": name}
    if namespace:
        attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return read(lambda each: bool(each["status"]["allowed"]), answer)


def create_event(
    api: KubernetesApi,
    namespace: str,
    target: Object,
    *,
    kind: Literal["Normal", "Warning"],
    reason: str,
    message: str,
    component: str,
) -> None:
    """Create an event of an object: its `apiVersion`, `kind`, `name` and `uid`. Raises ApiError."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": f"{target['name']}.{secrets.token_hex(8)}"},
        "involvedObject": {"namespace": namespace, **target},
        "type": kind,
        "reason": reason,
        "message": message[:_MESSAGE_CHARACTERS],
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    api.create(f"/api/v1/namespaces/{namespace}/events", event)
