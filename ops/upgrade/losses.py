"""Find what objects of KubeRay would lose to other definitions (CRDs): nothing brings it back."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

import kubernetes

from ops.change.kuberay_crds import CrdOwner, CustomResourceDefinition, outermost
from ops.clients import REQUEST_TIMEOUT
from ops.errors import RefusedError

_LONGEST: Final = 5
Object = Mapping[str, Any]


def refuse_unusable(kinds: Sequence[CustomResourceDefinition], version: str, environment: str) -> None:
    """Raise RefusedError if a deployment would fail on a definition of KubeRay `version`."""
    if found := [kind.summary(version) for kind in kinds if kind.is_in_the_way]:
        raise RefusedError(
            f"the CRDs of KubeRay {version} cannot be deployed: {'; '.join(found)}. "
            f"Fix: `ops kuberay crds --env {environment}` says how (docs/operate/kuberay.md)"
        )


def refuse_losses(
    api: kubernetes.client.ApiClient,
    kinds: Sequence[CustomResourceDefinition],
    version: str,
    rewritten: Set[tuple[str, str]],
) -> None:
    """Raise RefusedError if objects would be deleted, or lose values, with the definitions of KubeRay `version`.

    `rewritten` are the RayClusters (namespace, name) whose values the same upgrade deploys.
    """
    if deleted := [
        f"{_name(item)} ({kind.name})"
        for kind in kinds
        if kind.wanted is None and kind.owner is CrdOwner.OURS
        for item in _objects(api, kind)
    ]:
        raise RefusedError(
            f"KubeRay {version} lacks the kind of {_listed(deleted)}, and the deployment would delete them. "
            "Fix: keep a copy (`kubectl get … -o yaml`), delete them, then rerun the command"
        )
    if lost := [
        f"{_name(item)}: {_listed(fields)}"
        for kind in kinds
        if (gone := kind.removed_fields())
        for item in _objects(api, kind)
        if not (kind.name.startswith("rayclusters.") and _place(item) in rewritten)
        and (fields := outermost(set(_given(item.get("spec"), f"{_stored(kind)}.spec")) & gone))
    ]:
        raise RefusedError(
            f"KubeRay {version} lacks fields that objects use, which would lose their values: {'; '.join(lost)}. "
            "Fix: remove these fields from the objects, or delete the objects, then rerun the command"
        )


def _objects(api: kubernetes.client.ApiClient, kind: CustomResourceDefinition) -> list[Object]:
    spec = (kind.installed or {})["spec"]
    answer = kubernetes.client.CustomObjectsApi(api).list_cluster_custom_object(
        spec["group"], _stored(kind), spec["names"]["plural"], _request_timeout=REQUEST_TIMEOUT
    )
    found: list[Object] = answer["items"]
    return found


def _stored(kind: CustomResourceDefinition) -> str:
    """Return the version in which the API server stores the kind's objects."""
    versions = (kind.installed or {})["spec"]["versions"]
    return next(str(each["name"]) for each in versions if each.get("storage"))


def _given(value: Any, path: str) -> Iterator[str]:
    """Yield the fields that have a value, in the form of `removed_fields`."""
    yield path
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield from _given(child, f"{path}.{name}")
    elif isinstance(value, list):
        for child in value:
            yield from _given(child, f"{path}[]")


def _place(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _name(item: Object) -> str:
    return f"{item.get('kind', 'object')} {'/'.join(_place(item))}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LONGEST} more" if len(names) > _LONGEST else ""
    return ", ".join(names[:_LONGEST]) + more
