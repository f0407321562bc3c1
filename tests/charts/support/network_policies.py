"""Evaluate NetworkPolicies for single connections, as Kubernetes documents them.

Source: Kubernetes' concept page "Network Policies" and the API reference of networking.k8s.io/v1. A field that the
evaluation does not cover raises an AssertionError.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any

Object = dict[str, Any]

_POLICY_FIELDS = {"podSelector", "policyTypes", "ingress", "egress"}
_PORT_FIELDS = {"port", "endPort", "protocol"}
_PEER_FIELDS = {"podSelector", "namespaceSelector", "ipBlock"}
_SIDES = {"Ingress": "from", "Egress": "to"}


@dataclass(frozen=True)
class Pod:
    """A pod, or with `namespace` None an address outside the cluster.

    `ports` maps the names of container ports to numbers. Policies and selectors never match a pod on the node's
    network: it counts as an address. `namespace_labels` are those in addition to the label that every namespace has.
    """

    namespace: str | None
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "10.192.64.10"
    ports: Mapping[str, int] = field(default_factory=dict)
    host_network: bool = False
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_selectable(self) -> bool:
        """Return whether selectors can match the pod."""
        return self.namespace is not None and not self.host_network


INTERNET = Pod(None, address="198.51.100.7")


class Policies:
    """Policies that are asked about many connections.

    What does not depend on the port is evaluated once for each pair of pods.
    """

    def __init__(self, policies: Iterable[Object]) -> None:
        self._policies = list(policies)
        self._rules: dict[tuple[str, int], list[Object] | None] = {}
        self._ports: dict[tuple[str, int, int], list[list[Object]] | None] = {}
        # Pods cannot be hashed. A pod that is kept keeps its id.
        self._known: dict[int, Pod] = {}

    def connect(self, source: Pod, target: Pod, port: int, protocol: str = "TCP") -> bool:
        """Return whether `source` may open a connection to `target`: both ends must allow it.

        Kubernetes always admits traffic from the target's own node. This is not evaluated: no two pods share a node
        here.
        """
        for direction, pod, peer in (("Egress", source, target), ("Ingress", target, source)):
            admitted = self._ports_to(direction, pod, peer)
            if admitted is not None and not any(
                not ports or any(_is_port(each, target, port, protocol) for each in ports) for ports in admitted
            ):
                return False
        return True

    def _ports_to(self, direction: str, pod: Pod, peer: Pod) -> list[list[Object]] | None:
        """Return the ports of each rule that admits the peer, none for all ports; None if no policy chooses the pod."""
        key = (direction, id(pod), id(peer))
        if key not in self._ports:
            self._known |= {id(pod): pod, id(peer): peer}
            rules, side = self._rules_of(direction, pod), _SIDES[direction]
            self._ports[key] = (
                None
                if rules is None
                else [rule.get("ports") or [] for rule in rules if _admits(rule, side, str(pod.namespace), peer)]
            )
        return self._ports[key]

    def _rules_of(self, direction: str, pod: Pod) -> list[Object] | None:
        """Return the rules of the policies that choose the pod; None if there is no such policy."""
        key = (direction, id(pod))
        if key not in self._rules:
            chosen = [policy for policy in self._policies if _concerns(policy, pod, direction)]
            rules = [rule for policy in chosen for rule in policy["spec"].get(direction.lower(), [])]
            self._rules[key] = rules if chosen else None
        return self._rules[key]


def connects(policies: Iterable[Object], source: Pod, target: Pod, port: int, protocol: str = "TCP") -> bool:
    """Return whether these policies let `source` open a connection to `target`."""
    return Policies(policies).connect(source, target, port, protocol)


def _admits(rule: Object, side: str, namespace: str, peer: Pod) -> bool:
    """Return whether a rule admits the peer on any port; without peers, it admits all."""
    _only(rule, {side, "ports"})
    peers = rule.get(side)
    return not peers or any(_is_peer(each, peer, namespace) for each in peers)


def _concerns(policy: Object, pod: Pod, direction: str) -> bool:
    spec = policy["spec"]
    _only(spec, _POLICY_FIELDS)
    # Kubernetes' default: Ingress always, Egress only if the policy has egress rules.
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return (
        pod.is_selectable
        and policy["metadata"]["namespace"] == pod.namespace
        and direction in types
        and _matches(spec["podSelector"], pod.labels)
    )


def _is_peer(allowed: Object, peer: Pod, namespace: str) -> bool:
    _only(allowed, _PEER_FIELDS)
    if block := allowed.get("ipBlock"):
        assert len(allowed) == 1, "a peer with an ipBlock has no selectors"
        # A block may include pod addresses. The safe assumption is that the CNI admits them.
        return _lies_in(peer.address, block["cidr"]) and not any(
            _lies_in(peer.address, left_out) for left_out in block.get("except", [])
        )
    if not peer.is_selectable:
        return False
    namespaces = allowed.get("namespaceSelector")
    if namespaces is None:
        is_there = peer.namespace == namespace
    else:
        own = {"kubernetes.io/metadata.name": str(peer.namespace), **peer.namespace_labels}
        is_there = _matches(namespaces, own)
    return is_there and _matches(allowed.get("podSelector", {}), peer.labels)


@cache
def _lies_in(address: str, cidr: str) -> bool:
    return ip_address(address) in ip_network(cidr)


def _is_port(allowed: Object, target: Pod, port: int, protocol: str) -> bool:
    _only(allowed, _PORT_FIELDS)
    if allowed.get("protocol", "TCP") != protocol:
        return False
    first = allowed.get("port")
    if isinstance(first, str):
        # A port name always refers to the target's container, in both directions.
        return target.ports.get(first) == port
    return first is None or int(first) <= port <= int(allowed.get("endPort") or first)


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
    _only(selector, {"matchLabels", "matchExpressions"})
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions", [])
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(f"operator {expression['operator']} is not evaluated")


def _only(given: Object, known: set[str]) -> None:
    assert given.keys() <= known, f"not evaluated: {sorted(given.keys() - known)}"
