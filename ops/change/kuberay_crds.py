"""`ops kuberay crds`: compare KubeRay's CRDs in the cluster with those of the environment's KubeRay version.

The platform stack installs, upgrades and removes the CRDs as a separate Helm release (docs/adr/0020). Two things are
left to a person, and this module does them: see before a deployment what it changes and whether the API server accepts
it, and adopt CRDs that a plain `helm install` of KubeRay left behind, on which the release would fail.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final

import kubernetes
import yaml
from kubernetes.client import ApiException

from config.facts import charts_lock
from k8s_charts.helm.kuberay import CHART, CRDS_NAMESPACE, CRDS_RELEASE
from ops.clients import REQUEST_TIMEOUT, metadata

GROUP: Final = "ray.io"
_MANAGER: Final = "ops-kuberay"
_LONGEST: Final = 5

# Helm 3.2 and later adopt an object with these labels and annotations (helm/helm#7649).
_LABELS: Final = {"app.kubernetes.io/managed-by": "Helm"}
_ANNOTATIONS: Final = {"meta.helm.sh/release-name": CRDS_RELEASE, "meta.helm.sh/release-namespace": CRDS_NAMESPACE}

Json = Mapping[str, Any]


class CrdOwner(Enum):
    """The owner of a CRD in the cluster."""

    OURS = "owned by the platform stack"
    NOBODY = "without an owner (left by a plain `helm install` of KubeRay)"
    OTHERS = "owned by another Helm release"


@dataclass(frozen=True)
class CustomResourceDefinition:
    """A custom resource definition (CRD).

    `installed` is the cluster's object, `wanted` the object that the API server would store for the chart's CRD, and
    `refusal` the reason why the API server refuses the chart's CRD.
    """

    name: str
    installed: Json | None = None
    wanted: Json | None = None
    refusal: str = ""
    released: bool = False
    """Whether the platform stack's release is installed, which then has the CRD although nothing on it says so."""

    @property
    def owner(self) -> CrdOwner:
        metadata = (self.installed or {}).get("metadata", {})
        annotations = metadata.get("annotations", {})
        if not {"meta.helm.sh/release-name"} & annotations.keys():
            return CrdOwner.OURS if self.released else CrdOwner.NOBODY
        return CrdOwner.OURS if annotations.items() >= _ANNOTATIONS.items() else CrdOwner.OTHERS

    @property
    def is_in_the_way(self) -> bool:
        """Whether a deployment of the platform stack would fail on this CRD."""
        if self.refusal:
            return True
        return None not in (self.installed, self.wanted) and self.owner is not CrdOwner.OURS

    def data(self) -> dict[str, str | bool]:
        """Return the CRD as data for programs."""
        return {
            "name": self.name,
            "installed": self.installed is not None,
            "wanted": self.wanted is not None,
            "owner": {CrdOwner.OURS: "stack", CrdOwner.OTHERS: "release", CrdOwner.NOBODY: "none"}[self.owner],
            "refusal": self.refusal,
            "accepted": not self.is_in_the_way,
        }

    def summary(self, version: str) -> str:
        """Return a line that describes the CRD; `version` is the environment's KubeRay version."""
        if self.refusal:
            return f"{self.name}: the API server refuses the CRD of KubeRay {version}: {self.refusal}"
        if self.installed is None:
            return f"{self.name}: not installed; a deployment of the platform stack installs it"
        if self.wanted is None:
            stays = (
                "a deployment removes it with all its objects" if self.owner is CrdOwner.OURS else "it stays unchanged"
            )
            return f"{self.name}: KubeRay {version} has no such CRD; {stays}"
        whose = f"{self.owner.value}{self._release()}; objects are stored as {', '.join(self._stored())}"
        return f"{self.name}: {self._difference(version)}; {whose}"

    def _release(self) -> str:
        if self.owner is not CrdOwner.OTHERS:
            return ""
        annotations = (self.installed or {})["metadata"]["annotations"]
        names = (annotations.get(f"meta.helm.sh/release-{part}", "?") for part in ("namespace", "name"))
        return f" ({'/'.join(names)})"

    def _stored(self) -> Sequence[str]:
        stored: Sequence[str] = (self.installed or {}).get("status", {}).get("storedVersions", [])
        return stored

    def removed_fields(self) -> set[str]:
        """Return the fields that the deployment removes, such as `v1.spec.headGroupSpec.labels`."""
        if self.installed is None or self.wanted is None:
            return set()
        return set(_fields(self.installed)) - set(_fields(self.wanted))

    def _difference(self, version: str) -> str:
        before, after = self.installed or {}, self.wanted or {}
        if before["spec"] == after["spec"]:
            return f"the same as in KubeRay {version}"
        come, gone = outermost(set(_fields(after)) - set(_fields(before))), outermost(self.removed_fields())
        summary = f"KubeRay {version} adds {len(come)} fields and removes {len(gone)}"
        more = ", …" if len(gone) > _LONGEST else ""
        return f"{summary} ({', '.join(gone[:_LONGEST])}{more})" if gone else summary


def definitions(version: str) -> list[Json]:
    """Return the CRDs of KubeRay's chart. Raises ChartError if the chart is not in the cache."""
    with tempfile.TemporaryDirectory() as directory:
        return read(charts_lock.unpack(CHART, Path(directory), version) / "crds")


def read(directory: Path) -> list[Json]:
    """Return the CRDs of a folder, one per file."""
    # The files have three megabytes: libyaml takes two seconds, the pure Python loader a minute.
    return [yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in sorted(directory.glob("*.yaml"))]


def read_definitions(api: kubernetes.client.ApiClient, wanted: Sequence[Json]) -> list[CustomResourceDefinition]:
    """Compare the cluster's CRDs with the `wanted` ones; change nothing."""
    extensions = kubernetes.client.ApiextensionsV1Api(api)
    # Raw JSON: the client's models would take seconds for three such schemas and refuse unknown fields.
    answer = extensions.list_custom_resource_definition(_preload_content=False, _request_timeout=REQUEST_TIMEOUT)
    listed = {item["metadata"]["name"]: item for item in json.loads(answer.data)["items"]}
    installed = {name: item for name, item in listed.items() if item["spec"]["group"] == GROUP}
    kinds = [_tried(extensions, each, installed.pop(each["metadata"]["name"], None)) for each in wanted]
    kinds += [CustomResourceDefinition(name, item) for name, item in installed.items()]
    if any(kind.installed and kind.owner is CrdOwner.NOBODY for kind in kinds) and _is_released(api):
        return [replace(kind, released=True) for kind in kinds]
    return kinds


def _is_released(api: kubernetes.client.ApiClient) -> bool:
    """Return whether Helm has a record of the platform stack's release of the CRDs.

    Seen with Helm 4.1.4: the release's labels and annotations are gone from the CRDs once the operator is installed,
    whose chart has them in `crds/`, too. Helm does not miss them at the release's next upgrade.
    """
    secrets = kubernetes.client.CoreV1Api(api).list_namespaced_secret
    return bool(metadata(partial(secrets, CRDS_NAMESPACE, label_selector=f"owner=helm,name={CRDS_RELEASE}")))


def _tried(
    extensions: kubernetes.client.ApiextensionsV1Api, wanted: Json, installed: Json | None
) -> CustomResourceDefinition:
    """Dry-run the CRD: the API server returns what it would store, and refuses a change that orphans stored objects."""
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
        return CustomResourceDefinition(name, installed, refusal=str(json.loads(error.body)["message"]))
    return CustomResourceDefinition(name, installed, json.loads(answer.data))


def adopt(api: kubernetes.client.ApiClient, kinds: Sequence[CustomResourceDefinition]) -> Iterator[str]:
    """Make the platform stack's release the owner of these CRDs; yield a line for each."""
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


def outermost(fields: Set[str]) -> list[str]:
    """Return the fields that are not below another field of the set, sorted."""
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
