"""The custom objects of a namespace that `ops job submit` created: of one kind, which an operator brings."""

from collections.abc import Mapping
from typing import Any

import kubernetes
from kubernetes.client import ApiException

from k8s_charts.shared.names import RUN_LABEL
from ops.clients import REQUEST_TIMEOUT
from ops.readiness.workloads import blocking_reason

Object = dict[str, Any]


def literal(text: str) -> str:
    """Return a text that the kubelet gives a container unchanged: it replaces $(NAME)."""
    return text.replace("$(", "$$(")


class Objects:
    """The objects of one kind; every method raises ApiException."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str, group: str, plural: str) -> None:
        """Describe the kind by its API group (its version is v1) and its plural."""
        self._core = kubernetes.client.CoreV1Api(api)
        self._namespace = namespace
        self._custom = kubernetes.client.CustomObjectsApi(api)
        self._place = {"group": group, "version": "v1", "namespace": namespace, "plural": plural}

    def create(self, body: Mapping[str, Any], *, dry_run: bool) -> Object:
        """Create an object; return it. With `dry_run`, the API server only checks it."""
        further = {"dry_run": "All"} if dry_run else {}
        made: Object = self._custom.create_namespaced_custom_object(
            **self._place, body=body, _request_timeout=REQUEST_TIMEOUT, **further
        )
        return made

    def get(self, name: str) -> Object | None:
        """Return an object; None if there is none of this name, or if the kind is not installed."""
        try:
            found: Object = self._custom.get_namespaced_custom_object(
                **self._place, name=name, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return found

    def all(self, selector: str = RUN_LABEL) -> list[Object]:
        """Return the objects with these labels; none where the kind is not installed."""
        try:
            listed = self._custom.list_namespaced_custom_object(
                **self._place, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status == 404:
                return []
            raise
        found: list[Object] = listed["items"]
        return found

    def delete(self, name: str) -> None:
        """Delete an object; it is gone after all that it owns, so that its name is free."""
        self._custom.delete_namespaced_custom_object(
            **self._place, name=name, propagation_policy="Foreground", _request_timeout=REQUEST_TIMEOUT
        )

    def _pods(self, selector: str) -> list[Any]:
        """Return the pods with these labels."""
        pods: list[Any] = self._core.list_namespaced_pod(
            self._namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        return pods

    def _pods_wait_for(self, selector: str) -> str:
        """Return how many of these pods wait, and why the first one does; empty if none does."""
        pods = self._pods(selector)
        pending = [pod for pod in pods if pod.status.phase == "Pending"]
        reasons = [reason for pod in pending if (reason := blocking_reason(pod))]
        return f"{len(pending)} of {len(pods)} pods wait: {reasons[0]}" if reasons else ""
