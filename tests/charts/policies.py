"""Evaluates NetworkPolicies for single connections, as Kubernetes documents them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    namespace: str
    labels: dict[str, str] = field(default_factory=dict)


# An address outside of the cluster.
INTERNET = None


def connects(
    policies: Iterable[Object], source: Pod | None, target: Pod | None, port: int, protocol: str = "TCP"
) -> bool:
    """Whether `source` may open a connection to `target`: both ends must allow it."""
    known = list(policies)
    wanted = {"port": port, "protocol": protocol}
    return (source is None or _allows(known, "Egress", source, target, wanted)) and (
        target is None or _allows(known, "Ingress", target, source, wanted)
    )


def _allows(policies: list[Object], direction: str, pod: Pod, peer: Pod | None, wanted: Object) -> bool:
    chosen = [policy for policy in policies if _concerns(policy, pod, direction)]
    rules = [rule for policy in chosen for rule in policy["spec"].get(direction.lower(), [])]
    side = "to" if direction == "Egress" else "from"
    return not chosen or any(
        _admits(rule.get(side, []), peer, pod.namespace) and wanted in rule.get("ports", [wanted]) for rule in rules
    )


def _concerns(policy: Object, pod: Pod, direction: str) -> bool:
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and direction in policy["spec"]["policyTypes"]
        and _matches(policy["spec"]["podSelector"], pod.labels)
    )


def _admits(peers: list[Object], peer: Pod | None, namespace: str) -> bool:
    return not peers or any(_is_peer(allowed, peer, namespace) for allowed in peers)


def _is_peer(allowed: Object, peer: Pod | None, namespace: str) -> bool:
    if "ipBlock" in allowed:
        # Pods' addresses lie in the block as well.
        return bool(allowed["ipBlock"]["cidr"] == "0.0.0.0/0")
    if peer is None:
        return False
    namespaces = allowed.get("namespaceSelector")
    if namespaces is None:
        in_namespace = peer.namespace == namespace
    else:
        in_namespace = _matches(namespaces, {"kubernetes.io/metadata.name": peer.namespace})
    return in_namespace and _matches(allowed.get("podSelector", {}), peer.labels)


def _matches(selector: Object, labels: dict[str, str]) -> bool:
    assert not selector.get("matchExpressions"), "not evaluated here"
    return bool(selector.get("matchLabels", {}).items() <= labels.items())
