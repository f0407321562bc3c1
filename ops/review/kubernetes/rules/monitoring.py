"""Find what a changed configuration of Prometheus or Alertmanager no longer watches, tells or keeps."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from ops.review import yaml_bounds
from ops.review.kubernetes.deltas import at

_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_PATHS: Final = {
    "alertmanagers": ("alerting", "alertmanagers"),
    "receiver of the route": ("route", "receiver"),
    "routes": ("route", "routes"),
}
_PART: Final = re.compile(r"(\d+)(ms|[smhdwy])")


def lost(before: str, after: str) -> Iterator[str]:
    """Yield what the new text lacks or blunts, one phrase each; nothing if the old one configures neither program."""
    old, new = _document(before), _document(after)
    rules = _alerts(new)
    for name, rule in _alerts(old).items():
        if name not in rules:
            yield f"alert {name} removed"
        elif rules[name].get("expr") != rule.get("expr"):
            yield f"alert {name}: expression changed"
        elif seconds(rules[name].get("for")) > seconds(rule.get("for")):
            yield f"alert {name}: for {rule.get('for', '0s')} → {rules[name].get('for')}"
    for key, path in _PATHS.items():
        if at(old, *path) and at(old, *path) != at(new, *path):
            yield f"{key} {_short(at(old, *path))} → {_short(at(new, *path))}"
    kept = [each.get("url") for each in _mappings(at(new, "remote_write"))]
    yield from (
        f"remote_write to {each.get('url')} removed"
        for each in _mappings(at(old, "remote_write"))
        if each.get("url") not in kept
    )
    targets = {each.get("name"): _targets(each) for each in _mappings(at(new, "receivers"))}
    for each in _mappings(at(old, "receivers")):
        if _targets(each) - targets.get(each.get("name"), set()):
            yield f"receiver {each.get('name')} tells fewer"


def _document(text: str) -> Any:
    """Return the first document of a text; None if it is not YAML, so that all that the old text had is lost."""
    try:
        return next(iter(yaml_bounds.load(text)), None)
    except (yaml.YAMLError, ValueError):
        return None


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _alerts(document: Any) -> dict[str, Mapping[str, Any]]:
    rules = [rule for group in _mappings(at(document, "groups")) for rule in _mappings(group.get("rules"))]
    return {str(rule["alert"]): rule for rule in rules if "alert" in rule}


def _targets(receiver: Mapping[str, Any]) -> set[str]:
    """Return the receiver's targets, each as text."""
    return {
        f"{key} {json.dumps(target, sort_keys=True, default=str)}"
        for key, targets in receiver.items()
        if isinstance(targets, list)
        for target in targets
    }


def seconds(duration: Any) -> float:
    """Return a duration of Prometheus in seconds; 0 for none, infinite for what is none."""
    text = str(duration or "0s")
    parts = _PART.findall(text)
    whole = "".join(f"{number}{unit}" for number, unit in parts) == text
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) if whole else float("inf")


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str) if value else "none"
    return text if len(text) <= 120 else f"{text[:117]}…"
