"""Review Services and Ingresses: who can reach the pods behind them."""

from collections.abc import Iterator
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, refused
from ops.review.kubernetes.deltas import at, deltas, fields, others, summary
from ops.review.kubernetes.objects import Body, is_placeholder
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.model import Danger, Effect
from ops.review.steps import author

_TYPES: Final = ("ClusterIP", "ExternalName")
_BALANCER: Final = ("service.beta.kubernetes.io/", "alb.ingress.kubernetes.io/", "external-dns")


def review_service(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield how a Service becomes reachable from outside its cluster."""
    old, new = at(before, "spec") or {}, at(after, "spec") or {}
    kind = new.get("type", "ClusterIP")
    outside = kind not in _TYPES or is_placeholder(kind)
    if outside and (before is None or old.get("type", "ClusterIP") != kind):
        what = f"type {old.get('type', 'ClusterIP')} → {kind}"
        yield endangers(Danger.PUBLIC_ENDPOINT, what, "It opens the nodes' ports or a load balancer.")
    host = new.get("externalName")
    if before is not None and kind == "ExternalName" and host != old.get("externalName"):
        yield endangers(Danger.LOOSER_ISOLATION, f"externalName {host}", "Its clients are sent to another host.")
    if new_ips := [each for each in new.get("externalIPs") or [] if each not in (old.get("externalIPs") or [])]:
        yield endangers(Danger.PUBLIC_ENDPOINT, f"externalIPs {', '.join(map(str, new_ips))}")
    ranges = fields(old, new, "loadBalancerSourceRanges")
    if outside and before is not None and ranges:
        yield endangers(Danger.PUBLIC_ENDPOINT, summary(ranges), "Other addresses reach the load balancer.")
    yield from _annotations(before, after, outside=outside)
    if before is None:
        return
    if old.get("clusterIP") != new.get("clusterIP") and before["metadata"]["name"] == after["metadata"]["name"]:
        yield refused("clusterIP", "The clusterIP of a Service is immutable.", author("rename the Service"))
    reviewed = {"type", "externalIPs", "loadBalancerSourceRanges", "clusterIP"}
    if rest := others(old, new, reviewed):
        if outside:
            yield endangers(Danger.PUBLIC_ENDPOINT, summary(rest), "Other pods or ports are reachable from outside.")
        else:
            yield ReviewFinding(summary(rest), Effect.IN_PLACE)


def review_ingress(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what an Ingress publishes."""
    changed = fields(before, after, "spec")
    if before is None or changed:
        why = "An Ingress makes Services reachable from outside."
        yield endangers(Danger.PUBLIC_ENDPOINT, summary(changed) or "created", why)
    yield from _annotations(before, after, outside=True)


def _annotations(before: Body | None, after: Body, *, outside: bool) -> Iterator[ReviewFinding]:
    marks: list[Any] = [at(side, "metadata", "annotations") or {} for side in (before, after)]
    changed = [each for each in deltas(*marks) if each.path[0].startswith(_BALANCER)]
    if changed and outside:
        yield endangers(Danger.PUBLIC_ENDPOINT, summary(changed), "They configure a load balancer.")
