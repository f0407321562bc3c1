"""Search every part of an environment for drift."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from config import EksEnvironment, Environment, naming
from ops import stacks
from ops.clients import Clients, connect
from ops.drift.cluster import cluster_drifts
from ops.drift.finding import Drift, Drifts
from ops.drift.pods import pod_drifts
from ops.drift.releases import InstalledRelease, release_drifts, releases
from ops.drift.resources import COMPARABLE, resource_drifts
from ops.errors import UnreachableError, in_plain_words

Connect = Callable[[EksEnvironment], AbstractContextManager[Clients]]


def search(environment: Environment, client: Callable[[str], Any], connected: Connect = connect) -> Drifts:
    """Return the drift of the environment's stacks, cluster, releases and pods.

    Raises UnreachableError if AWS or the cluster refuses to show a part, or no stack can be compared: no answer is not
    "no drift".
    """
    with in_plain_words():
        cloudformation = client("cloudformation")
        existing = stacks.existing(cloudformation, environment)
        usable = [stack for stack in existing if stack.status in COMPARABLE]
        skipped = [f"stack {stack.name} is {stack.status}" for stack in existing if stack not in usable]
        if not usable:
            reason = "; ".join(skipped) or "none is deployed"
            raise UnreachableError(f"no stack of {environment.name} can be compared: {reason}. Fix: deploy it")
        skipped += [
            f"stack {naming.stack(environment, part)} does not exist"
            for part in reversed(environment.stacks)
            if part not in {s.part for s in existing}
        ]
        found = list(resource_drifts(cloudformation, usable))
        expected: list[InstalledRelease] = []
        for stack in usable:
            template = stacks.template(cloudformation, stack)
            expected += releases(template, stacks.resources(cloudformation, stack))
            if stack.part == "hyperpod":
                found += cluster_drifts(client("sagemaker"), template)
        found += _in_kubernetes(environment, expected, connected, with_ray="ray" in {s.part for s in usable})
    return Drifts(tuple(found), tuple(skipped))


def _in_kubernetes(
    environment: Environment, expected: list[InstalledRelease], connected: Connect, *, with_ray: bool
) -> list[Drift]:
    if not isinstance(environment, EksEnvironment) or not (expected or with_ray):
        return []
    with connected(environment) as clients:
        found = list(release_drifts(clients.kubernetes, expected))
        return found + (list(pod_drifts(environment, clients.kubernetes)) if with_ray else [])
