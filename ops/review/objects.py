"""Read the Kubernetes objects in an assembly's manifests."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.assembly import Assembly
from ops.review.checkouts.cdk import ReviewError

KUBERNETES: Final = "Custom::AWSCDK-EKS-KubernetesResource"


def objects(assembly: Assembly) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of all stacks; a value that is known only at the deployment is an empty text in them.

    Raises ReviewError if a manifest cannot be read.
    """
    for stack in assembly.stacks.values():
        for name, resource in stack.resources.items():
            if resource.get("Type") == KUBERNETES:
                manifest = resource.get("Properties", {}).get("Manifest")
                try:
                    found = json.loads(_text(manifest))
                except ValueError as error:
                    where = f"{stack.name}: the manifest of {name}"
                    raise ReviewError(f"{where} cannot be read: {error}. Fix: synthesise the checkout again") from error
                yield from (each for each in found if isinstance(each, Mapping))


def _text(manifest: Any) -> str:
    match manifest:
        case str():
            return manifest
        case {"Fn::Join": ["", [*parts]]}:
            return "".join(part if isinstance(part, str) else "" for part in parts)
    raise ValueError("it is neither a text nor a joined text")
