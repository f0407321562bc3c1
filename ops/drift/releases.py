"""Find Helm releases that somebody else changed after the stack installed them.

Helm keeps each revision as a Secret. A revision that is newer than the end of the stack's last operation on the release
was made by another hand. Only the Secrets' metadata is read: their data holds whole manifests.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import kubernetes

from ops.clients import metadata
from ops.drift.finding import Drift

RESOURCE_TYPE: Final = "Custom::AWSCDK-EKS-HelmChart"


@dataclass(frozen=True)
class InstalledRelease:
    """A release as a stack installed it; `installed` is when the stack's last operation on it ended."""

    name: str
    namespace: str
    installed: datetime


def releases(template: Mapping[str, Any], resources: Sequence[Mapping[str, Any]]) -> Iterator[InstalledRelease]:
    """Yield the releases of a deployed template, with the times in its stack's resource summaries."""
    times = {each["LogicalResourceId"]: each["LastUpdatedTimestamp"] for each in resources}
    for logical_id, resource in template.get("Resources", {}).items():
        if resource["Type"] == RESOURCE_TYPE and logical_id in times:
            properties = resource["Properties"]
            yield InstalledRelease(properties["Release"], properties["Namespace"], times[logical_id])


def release_drifts(api: kubernetes.client.ApiClient, expected: Sequence[InstalledRelease]) -> Iterator[Drift]:
    """Yield each release that is gone, failed, or has a revision that its stack did not make."""
    for release in expected:
        if detail := _detail(release, _newest(api, release)):
            yield Drift("Helm release", f"{release.namespace}/{release.name}", detail)


def _newest(api: kubernetes.client.ApiClient, release: InstalledRelease) -> Mapping[str, Any] | None:
    """Return the metadata of the release's newest revision, or None."""
    secrets = kubernetes.client.CoreV1Api(api).list_namespaced_secret
    found = metadata(partial(secrets, release.namespace, label_selector=f"owner=helm,name={release.name}"))
    return max(found, key=lambda each: int(each["labels"]["version"]), default=None)


def _detail(release: InstalledRelease, newest: Mapping[str, Any] | None) -> str:
    """Return what is wrong with the release, or ""."""
    if newest is None:
        return "is uninstalled"
    revision, status = newest["labels"]["version"], newest["labels"]["status"]
    if status != "deployed":
        return f"revision {revision} is {status}"
    made = datetime.fromisoformat(newest["creationTimestamp"])
    if made > release.installed:
        return f"revision {revision} of {made:%Y-%m-%d %H:%M} UTC is newer than the stack's last deployment of it"
    return ""
