"""Read the Kubernetes objects that a stack's manifests apply."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from config.labels import INSTANCE_GROUP_LABEL
from ops.review.assembly import Assembly, stable
from ops.review.checkouts.cdk import ReviewError
from ops.review.model import Address

MANIFEST: Final = "Custom::AWSCDK-EKS-KubernetesResource"
RELEASE: Final = "Custom::AWSCDK-EKS-HelmChart"

Body = Mapping[str, Any]
Key = tuple[str, str, str, str]
"""API group, kind, namespace and name: what identifies an object in a cluster."""

# CDK labels each object with its manifest's address, for `kubectl apply --prune`.
_PRUNE_LABEL: Final = "aws.cdk.eks/prune-"


@dataclass(frozen=True)
class ApplyingResource:
    """The CloudFormation resource that applies an object."""

    stack: str
    """The stack's part: `ray`."""
    logical_id: str
    resource: Mapping[str, Any]

    @cached_property
    def address(self) -> Address:
        """Return what identifies the resource on both sides."""
        return self.stack, self.logical_id

    @cached_property
    def is_release(self) -> bool:
        """Return whether Helm installs the object, instead of kubectl."""
        return bool(self.resource.get("Type") == RELEASE)

    @cached_property
    def properties(self) -> Mapping[str, Any]:
        """Return the resource's properties."""
        found: Mapping[str, Any] = self.resource.get("Properties", {})
        return found

    @cached_property
    def name(self) -> str:
        """Return the resource's stable name."""
        if self.is_release:
            namespace = literal(self.properties.get("Namespace", "default"))
            return f"HelmRelease {namespace}/{literal(self.properties.get('Release', ''))}"
        return f"KubernetesManifest {stable(self.logical_id)}"


@dataclass(frozen=True)
class KubernetesObject:
    """An object as it is rendered, without CDK's prune label; intrinsic functions are `<Ref FileSystem>`."""

    source: ApplyingResource
    body: Body

    @cached_property
    def kind(self) -> str:
        """Return the object's kind."""
        return str(self.body["kind"])

    @cached_property
    def namespace(self) -> str:
        """Return the namespace; empty for an object of the whole cluster."""
        return str(self.body["metadata"].get("namespace", ""))

    @cached_property
    def name(self) -> str:
        """Return the object's name."""
        return str(self.body["metadata"]["name"])

    @cached_property
    def key(self) -> Key:
        """Return what identifies the object. A version of its API is no part of it."""
        group, slash, _ = str(self.body["apiVersion"]).rpartition("/")
        return group if slash else "", self.kind, self.namespace, self.name

    @cached_property
    def resource(self) -> str:
        """Return the stable name: `RayCluster ray/rayml`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def sources(assembly: Assembly | None) -> list[ApplyingResource]:
    """Return the manifests and releases of all stacks."""
    return [
        ApplyingResource(stack.part, logical_id, resource)
        for stack in (assembly.stacks.values() if assembly else ())
        for logical_id, resource in stack.resources.items()
        if resource.get("Type") in {MANIFEST, RELEASE}
    ]


@lru_cache(maxsize=4)
def manifests(assembly: Assembly | None) -> Mapping[Address, tuple[KubernetesObject, ...]]:
    """Return the objects of each manifest by the manifest's address.

    Raises ReviewError if a manifest is no JSON text of Kubernetes objects.
    """
    return {source.address: tuple(_applied(source)) for source in sources(assembly) if not source.is_release}


def applied(assembly: Assembly | None, kind: str) -> list[KubernetesObject]:
    """Return the objects of a kind of all manifests. Raises ReviewError like `manifests`."""
    return [each for objects in manifests(assembly).values() for each in objects if each.kind == kind]


def _applied(source: ApplyingResource) -> Iterator[KubernetesObject]:
    where = f"Manifest of {source.logical_id} in stack {source.stack}"
    content = document(source.properties.get("Manifest"), where)
    yield from objects_of(content if isinstance(content, list) else [content], source, where)


def objects_of(documents: list[Any], source: ApplyingResource, where: str) -> Iterator[KubernetesObject]:
    """Yield the objects of `documents`, those inside a `List` too.

    Raises ReviewError if a document has no kind or name; `where` names its place.
    """
    for body in documents:
        if isinstance(body, Mapping) and body.get("kind") == "List" and isinstance(body.get("items"), list):
            yield from objects_of(body["items"], source, where)
            continue
        if not _is_object(body):
            raise ReviewError(f"{where} holds a document that is no Kubernetes object. Fix: synthesise it again")
        yield KubernetesObject(source, _without_prune_label(body))


def document(value: Any, where: str) -> Any:
    """Return the JSON document of a property; `where` names it.

    Raises ReviewError if it is not JSON after intrinsic functions became placeholders.
    """
    try:
        return json.loads(literal(value))
    except ValueError as error:
        raise ReviewError(f"{where} is not JSON: {error}. Fix: synthesise the checkout again") from error


def literal(value: Any) -> str:
    """Return a property's text, with a placeholder for each intrinsic function that only CloudFormation resolves."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        (function, argument), *_ = value.items()
        if function == "Fn::Join" and isinstance(argument, list) and len(argument) == 2 and argument[0] == "":
            return "".join(part if isinstance(part, str) else _placeholder(part) for part in argument[1])
        return _placeholder(value)
    return json.dumps(value)


def is_placeholder(value: Any) -> bool:
    """Return whether a value holds a placeholder: what it resolves to is unknown."""
    return isinstance(value, str) and bool(re.search(r"<(Ref|GetAtt|ImportValue|Sub|Fn::|Join)[^>]*>", value))


def _placeholder(value: Any) -> str:
    if not isinstance(value, Mapping) or len(value) != 1:
        return f"<Fn::{json.dumps(value)[1:-1]}>"
    ((function, argument),) = value.items()
    inside = argument
    if function == "Fn::GetAtt" and isinstance(argument, list):
        inside = ".".join(map(str, argument))
    text = inside if isinstance(inside, str) else json.dumps(inside, sort_keys=True)
    short = function.removeprefix("Fn::") if function != "Fn::Join" else "Join"
    # Escaped: a manifest is JSON around the placeholder.
    return json.dumps(f"<{short} {text}>")[1:-1]


def _is_object(body: Any) -> bool:
    if not isinstance(body, Mapping) or not isinstance(body.get("metadata"), Mapping):
        return False
    return all(
        isinstance(field, str) for field in (body.get("apiVersion"), body.get("kind"), body["metadata"].get("name"))
    )


def _without_prune_label(body: Body) -> Body:
    metadata = dict(body["metadata"])
    labels = {
        key: value for key, value in (metadata.pop("labels", None) or {}).items() if not key.startswith(_PRUNE_LABEL)
    }
    return {**body, "metadata": {**metadata, **({"labels": labels} if labels else {})}}


def groups_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the instance groups on which the pods of a template run: one, or also those that stand in for it."""
    if group := (pod.get("nodeSelector") or {}).get(INSTANCE_GROUP_LABEL):
        return [group]
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    expressions = [each for term in required.get("nodeSelectorTerms", []) for each in term.get("matchExpressions", [])]
    return [name for each in expressions if each["key"] == INSTANCE_GROUP_LABEL for name in each.get("values", [])]
