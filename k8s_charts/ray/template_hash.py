"""Which template a Ray pod was made from: a hash on the RayCluster's groups, which their pods inherit.

KubeRay 1.2.0 makes new pods from a changed template and leaves the old ones running (raycluster_controller.go,
reconcilePods compares numbers only): `ops status` tells them apart by this label, `ops rollout` replaces them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from config.labels import TEMPLATE_LABEL

_LENGTH: Final = 12


def labelled(group: Mapping[str, Any], **beside: Any) -> dict[str, Any]:
    """Return the head or worker group with its hash as a label of its pods.

    The hash is of what only new pods take up: template, start parameters, and `beside`, what the operator puts into
    the pods from elsewhere. The number of replicas is none of it.
    """
    template = group["template"]
    digest = _digest({"template": template, "start": group["rayStartParams"], **beside})
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), TEMPLATE_LABEL: digest}
    return {**group, "template": {**template, "metadata": {**metadata, "labels": labels}}}


def template_of(group: Mapping[str, Any]) -> str | None:
    """Return the hash that new pods of a group get; None where the group was made without."""
    found: str | None = group["template"].get("metadata", {}).get("labels", {}).get(TEMPLATE_LABEL)
    return found


def templates_of(groups: Iterable[Mapping[str, Any]]) -> str:
    """Return one hash of all groups' templates, which do not count replicas either."""
    return _digest([template_of(group) for group in groups])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_LENGTH]
