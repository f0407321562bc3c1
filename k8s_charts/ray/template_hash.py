"""A hash that shows from which template a Ray pod was created: a label on the RayCluster's groups and their pods.

KubeRay 1.2.0 creates new pods from a changed template, but leaves the old ones running (raycluster_controller.go,
reconcilePods compares numbers only). `ops status` distinguishes them by this label, and `ops rollout` replaces them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from config.labels import TEMPLATE_LABEL

_LENGTH: Final = 12


def labelled(group: Mapping[str, Any], **beside: Any) -> dict[str, Any]:
    """Return the head or worker group with its hash as a label of its pods.

    The hash covers what only new pods get: the template, the start parameters, and `beside`, which the operator adds
    to the pods from other fields. It does not cover the number of replicas.
    """
    template = group["template"]
    digest = _digest({"template": template, "start": group["rayStartParams"], **beside})
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), TEMPLATE_LABEL: digest}
    return {**group, "template": {**template, "metadata": {**metadata, "labels": labels}}}


def template_of(group: Mapping[str, Any]) -> str | None:
    """Return the hash that new pods of a group get, or None if the group has none."""
    found: str | None = group["template"].get("metadata", {}).get("labels", {}).get(TEMPLATE_LABEL)
    return found


def templates_of(groups: Iterable[Mapping[str, Any]]) -> str:
    """Return one hash of all groups' templates; it does not cover the number of replicas either."""
    return _digest([template_of(group) for group in groups])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_LENGTH]
