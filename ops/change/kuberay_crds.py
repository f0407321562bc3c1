"""`ops kuberay crds`: KubeRay's kinds in the cluster, against those of the environment's version.

The platform stack brings, upgrades and removes them as a Helm release of their own (docs/adr/0020). Here is what that
leaves to a person: to see before a deployment what it will change and whether the API server takes it, and to adopt
kinds that a plain `helm install` of KubeRay left behind, which the release would refuse.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import kubernetes
import yaml
from kubernetes.client import ApiException

from config.facts import charts_lock
from k8s_charts.helm.kuberay import CHART, CRDS_NAMESPACE, CRDS_RELEASE
from ops.clients import REQUEST_TIMEOUT

GROUP: Final = "ray.io"
_MANAGER: Final = "ops-kuberay"
_LONGEST: Final = 5

# Helm 3.2 and later take over an object that carries these (helm/helm#7649).
_LABELS: Final = {"app.kubernetes.io/managed-by": "Helm"}
_ANNOTATIONS: Final = {"meta.helm.sh/release-name": CRDS_RELEASE, "meta.helm.sh/release-namespace": CRDS_NAMESPACE}

Json = Mapping[str, Any]


class Owner(Enum):
    """Whose a definition in the cluster is."""

    OURS = "the platform stack's"
    NOBODY = "nobody's, as a plain `helm install` of KubeRay leaves them"
    OTHERS = "another Helm release's"


@dataclass(frozen=True)
class Kind:
    """A custom resource definition.

    `installed` is the cluster's, `wanted` what the API server would make of the chart's; `refusal` is what it says
    against that.
    """

    name: str
    installed: Json | None = None
    wanted: Json | None = None
    refusal: str = ""

    @property
    def owner(self) -> Owner:
        metadata = (self.installed or {}).get("metadata", {})
        annotations = metadata.get("annotations", {})
        if not {"meta.helm.sh/release-name"} & annotations.keys():
            return Owner.NOBODY
        return Owner.OURS if annotations.items() >= _ANNOTATIONS.items() else Owner.OTHERS

    @property
    def is_in_the_way(self) -> bool:
        """Whether a deployment of the platform stack would fail on it."""
        if self.refusal:
            return True
        return None not in (self.installed, self.wanted) and self.owner is not Owner.OURS

    def said(self, version: str) -> str:
        """What a person reads of it; `version` is the environment's of KubeRay."""
        if self.refusal:
            return f"{self.name}: the API server refuses KubeRay {version}'s: {self.refusal}"
        if self.installed is None:
            return f"{self.name}: not there yet, a deployment of the platform stack brings it"
        if self.wanted is None:
            return f"{self.name}: KubeRay {version} has no such kind; it stays as it is"
        whose = f"{self.owner.value}{self._release()}; objects are stored as {', '.join(self._stored())}"
        return f"{self.name}: {self._difference(version)}; {whose}"

    def _release(self) -> str:
        if self.owner is not Owner.OTHERS:
            return ""
        annotations = (self.installed or {})["metadata"]["annotations"]
        names = (annotations.get(f"meta.helm.sh/release-{part}", "?") for part in ("namespace", "name"))
        return f" ({'/'.join(names)})"

    def _stored(self) -> Sequence[str]:
        stored: Sequence[str] = (self.installed or {}).get("status", {}).get("storedVersions", [])
        return stored

    def _difference(self, version: str) -> str:
        before, after = self.installed or {}, self.wanted or {}
        if before["spec"] == after["spec"]:
            return f"as in KubeRay {version}"
        have, get = set(_fields(before)), set(_fields(after))
        come, gone = _outermost(get - have), _outermost(have - get)
        told = f"KubeRay {version}'s differs: {len(come)} fields come, {len(gone)} go"
        more = ", …" if len(gone) > _LONGEST else ""
        return f"{told} ({', '.join(gone[:_LONGEST])}{more})" if gone else told


def definitions(version: str) -> list[Json]:
    """Return the definitions of KubeRay's chart. Raises ChartError where it is not in the cache."""
    with tempfile.TemporaryDirectory() as directory:
        return read(charts_lock.unpack(CHART, Path(directory), version) / "crds")


def read(directory: Path) -> list[Json]:
    """Return the definitions of a folder, one in each file."""
    # Three megabytes: libyaml takes two seconds, all else a minute.
    return [yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in sorted(directory.glob("*.yaml"))]


def look(api: kubernetes.client.ApiClient, wanted: Sequence[Json]) -> list[Kind]:
    """Compare the cluster's kinds with the definitions that are `wanted`; nothing is changed."""
    extensions = kubernetes.client.ApiextensionsV1Api(api)
    # As JSON: the client's models of three such schemas would take seconds and refuse what they do not know.
    answer = extensions.list_custom_resource_definition(_preload_content=False, _request_timeout=REQUEST_TIMEOUT)
    listed = {item["metadata"]["name"]: item for item in json.loads(answer.data)["items"]}
    installed = {name: item for name, item in listed.items() if item["spec"]["group"] == GROUP}
    kinds = [_tried(extensions, each, installed.pop(each["metadata"]["name"], None)) for each in wanted]
    return kinds + [Kind(name, item) for name, item in installed.items()]


def _tried(extensions: kubernetes.client.ApiextensionsV1Api, wanted: Json, installed: Json | None) -> Kind:
    """Let the API server say what it would store, and refuse what would make stored objects unreadable."""
    name = wanted["metadata"]["name"]
    try:
        answer = extensions.patch_custom_resource_definition(
            name,
            wanted,
            dry_run="All",
            field_manager=_MANAGER,
            force=True,
            _content_type="application/apply-patch+yaml",
            _preload_content=False,
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status != 422:
            raise
        return Kind(name, installed, refusal=str(json.loads(error.body)["message"]))
    return Kind(name, installed, json.loads(answer.data))


def adopt(api: kubernetes.client.ApiClient, kinds: Sequence[Kind]) -> Iterator[str]:
    """Give the kinds that are nobody's to the platform stack's release; yield a line for each."""
    extensions = kubernetes.client.ApiextensionsV1Api(api)
    for kind in kinds:
        extensions.patch_custom_resource_definition(
            kind.name,
            {"metadata": {"labels": _LABELS, "annotations": _ANNOTATIONS}},
            _content_type="application/merge-patch+json",
            _preload_content=False,
            _request_timeout=REQUEST_TIMEOUT,
        )
        yield f"{kind.name}: adopted"


def _outermost(fields: Set[str]) -> list[str]:
    """Leave out what lies below another of them."""
    return sorted(field for field in fields if field.rpartition(".")[0].rstrip("[]") not in fields)


def _fields(definition: Json) -> Iterator[str]:
    for version in definition["spec"]["versions"]:
        yield from _below(version["schema"]["openAPIV3Schema"], version["name"])


def _below(schema: Json, path: str) -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _below(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _below(schema[key], f"{path}[]")
