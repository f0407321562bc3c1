"""Review NetworkPolicies by the flows that all policies of a namespace allow together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers
from ops.review.kubernetes.deltas import at, fields, summary
from ops.review.kubernetes.objects import Body, KubernetesObject
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.model import Danger, Effect

_DIRECTIONS: Final = (("Ingress", "ingress", "from"), ("Egress", "egress", "to"))


@dataclass(frozen=True)
class AllowedFlow:
    """What a rule allows; a peer or port of None stands for all."""

    policy: str
    namespace: str
    direction: str
    pods: Any
    peer: Any
    port: Any

    def __str__(self) -> str:
        """Return the flow in words."""
        verb, towards = ("receive", "from") if self.direction == "Ingress" else ("send", "to")
        return f"{_pods(self.pods)} in {self.namespace} may {verb} {_port(self.port)} {towards} {_peer(self.peer)}"


def review_network_policy(before: Body | None, after: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a policy newly allows, and which pods it no longer isolates."""
    name, namespace = str(after["metadata"]["name"]), str(after["metadata"].get("namespace", ""))
    opened = [str(flow) for flow in new_flows(context) if (flow.policy, flow.namespace) == (name, namespace)]
    if opened:
        yield endangers(Danger.LOOSER_ISOLATION, summary(opened), "It joins what the namespace's other policies allow.")
    for direction in lost_denials(before, after):
        what = f"it no longer denies the {direction.lower()} of {_pods(at(before, 'spec', 'podSelector'))}"
        yield endangers(Danger.LOOSER_ISOLATION, what, "What other policies leave open is open then.")
    yield from no_longer_isolates(before, context, Effect.IN_PLACE)
    if before is not None and (changed := fields(before, after, "spec")):
        same = _unordered(before.get("spec")) == _unordered(after.get("spec"))
        yield ReviewFinding(summary(changed), Effect.NOTHING if same else Effect.IN_PLACE)


def no_longer_isolates(before: Body | None, context: RuleContext, effect: Effect) -> Iterator[ReviewFinding]:
    """Yield which pods a policy, changed or removed, isolated and no policy does now."""
    for direction, pods in lost_isolation(before, context):
        verb = "receive" if direction == "Ingress" else "send"
        what = f"no policy restricts what {_pods(pods)} in {(before or {})['metadata'].get('namespace', '')} may {verb}"
        yield endangers(Danger.LOOSER_ISOLATION, what, effect=effect)


def new_flows(context: RuleContext) -> Iterator[AllowedFlow]:
    """Yield each flow that no policy allowed before, although the pods were isolated then."""
    old, new = (context.of_kind("NetworkPolicy", after=after) for after in (False, True))
    known = {policy.key: policy.body for policy in old}
    # What an equal policy allows, it allowed before.
    changed = [policy for policy in new if known.get(policy.key) != policy.body]
    if not changed:
        return
    before = [flow for policy in old for flow in flows(policy)]
    isolated = {(policy.namespace, direction) for policy in old for direction in directions(policy.body)}
    for policy in changed:
        for flow in flows(policy):
            if (flow.namespace, flow.direction) not in isolated or any(_covers(old, flow) for old in before):
                continue
            if not _inside_new(flow, context):
                yield flow


def lost_isolation(before: Body | None, context: RuleContext) -> Iterator[tuple[str, Any]]:
    """Yield each direction and pod selector in which a policy isolated pods and no policy does now."""
    if before is None:
        return
    namespace, pods = str(before["metadata"].get("namespace", "")), at(before, "spec", "podSelector") or {}
    now = [each for each in context.of_kind("NetworkPolicy", after=True) if each.namespace == namespace]
    for direction in directions(before):
        still = any(
            direction in directions(each.body) and selects(at(each.body, "spec", "podSelector"), pods) for each in now
        )
        if not still and not context.only_gone(namespace, pods):
            yield direction, pods


def lost_denials(before: Body | None, after: Body) -> Iterator[str]:
    """Yield each direction in which a policy that allowed nothing denied, and no longer denies the same pods.

    Other policies may isolate the pods as well; but this one was there so that nobody has to rely on them.
    """
    fields = {direction: field for direction, field, _ in _DIRECTIONS}
    for direction in directions(before) if before is not None else ():
        if at(before, "spec", fields[direction]):
            continue
        pods = [at(each, "spec", "podSelector") for each in (after, before)]
        if direction not in directions(after) or not selects(*pods):
            yield direction


def _unordered(value: Any) -> Any:
    """Return a value in which the order of lists no longer counts; no list of a policy's spec has an order."""
    if isinstance(value, Mapping):
        return {key: _unordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(each) for each in value), key=repr)
    return value


def flows(policy: KubernetesObject) -> Iterator[AllowedFlow]:
    """Yield each combination of peer and port that a policy allows."""
    spec = policy.body.get("spec") or {}
    for direction, field, peers in _DIRECTIONS:
        for rule in (spec.get(field) or []) if direction in directions(policy.body) else ():
            for peer in rule.get(peers) or [None]:
                for port in rule.get("ports") or [None]:
                    yield AllowedFlow(
                        policy.name, policy.namespace, direction, spec.get("podSelector") or {}, peer, port
                    )


def directions(body: Body) -> list[str]:
    """Return the directions in which a policy isolates its pods."""
    spec = body.get("spec") or {}
    return list(spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def selects(wide: Any, narrow: Any) -> bool:
    """Return whether a label selector selects all that another one selects."""
    (wanted, conditions), (labels, expressions) = map(_requirements, (wide, narrow))
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        each in expressions for each in conditions
    )


def _requirements(selector: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Return a selector's labels, also those that an expression asks for, and its other expressions."""
    labels, others = dict(at(selector, "matchLabels") or {}), []
    for each in at(selector, "matchExpressions") or []:
        key, values = at(each, "key"), at(each, "values")
        one = at(each, "operator") == "In" and isinstance(values, list) and len(values) == 1
        if one and isinstance(key, str) and key not in labels:
            labels[key] = values[0]
        else:
            others.append(each)
    return labels, others


def _covers(old: AllowedFlow, new: AllowedFlow) -> bool:
    same = (old.namespace, old.direction) == (new.namespace, new.direction)
    return same and selects(old.pods, new.pods) and _peers(old.peer, new.peer) and _ports(old.port, new.port)


def _peers(wide: Any, narrow: Any) -> bool:
    if not wide or wide == narrow:
        return True
    if not narrow or ("ipBlock" in wide) != ("ipBlock" in narrow):
        return False
    if "ipBlock" in wide:
        return _blocks(wide["ipBlock"], narrow["ipBlock"])
    if "namespaceSelector" in wide:
        spaces = selects(wide["namespaceSelector"], narrow.get("namespaceSelector")) and (
            "namespaceSelector" in narrow or not wide["namespaceSelector"]
        )
    else:
        spaces = "namespaceSelector" not in narrow
    return spaces and selects(wide.get("podSelector"), narrow.get("podSelector"))


def _blocks(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return whether an ipBlock covers another; an address that CloudFormation resolves covers only itself."""
    try:
        outer, inner = (ip_network(str(block.get("cidr")), strict=False) for block in (wide, narrow))
        left = [ip_network(str(each), strict=False) for each in wide.get("except") or []]
        excluded = [ip_network(str(each), strict=False) for each in narrow.get("except") or []]
    except ValueError:
        return False
    return _within(inner, outer) and all(
        not hole.overlaps(inner) or any(_within(hole, each) for each in excluded) for hole in left
    )


def _within(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _ports(wide: Any, narrow: Any) -> bool:
    if not wide:
        return True
    if not narrow or wide.get("protocol", "TCP") != narrow.get("protocol", "TCP"):
        return False
    if "port" not in wide:
        return True
    if not isinstance(wide["port"], int) or not isinstance(narrow.get("port"), int):
        return bool(wide == narrow)
    low, high = wide["port"], wide.get("endPort", wide["port"])
    return bool(low <= narrow["port"] and narrow.get("endPort", narrow["port"]) <= high)


def _inside_new(flow: AllowedFlow, context: RuleContext) -> bool:
    """Return whether a flow only connects pods of a RayCluster that is created."""
    if not context.only_new(flow.namespace, flow.pods):
        return False
    peer = flow.peer or {}
    inside = "podSelector" in peer and "namespaceSelector" not in peer
    return context.has("Namespace", "", flow.namespace, after=False) is False or (
        inside and selects(flow.pods, peer["podSelector"])
    )


def _pods(selector: Any) -> str:
    text = _selector(selector)
    return f"pods with {text}" if text else "all pods"


def _peer(peer: Any) -> str:
    if not peer:
        return "anywhere"
    if block := peer.get("ipBlock"):
        holes = f" except {', '.join(map(str, block['except']))}" if block.get("except") else ""
        return f"{block.get('cidr')}{holes}"
    where = ""
    if "namespaceSelector" in peer:
        text = _selector(peer["namespaceSelector"])
        where = f" of namespaces with {text}" if text else " of all namespaces"
    return f"{_pods(peer.get('podSelector'))}{where}"


def _port(port: Any) -> str:
    if not port:
        return "everything"
    end = f"-{port['endPort']}" if "endPort" in port else ""
    return f"{port.get('protocol', 'TCP')} {port.get('port', 'on all ports')}{end}"


def _selector(selector: Any) -> str:
    labels = [f"{key}={value}" for key, value in sorted((at(selector, "matchLabels") or {}).items())]
    expressions = [
        f"{each.get('key')} {each.get('operator')} {', '.join(map(str, each.get('values') or []))}".strip()
        for each in at(selector, "matchExpressions") or []
    ]
    return ", ".join([*labels, *expressions])
