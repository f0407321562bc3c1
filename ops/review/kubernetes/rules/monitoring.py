"""Find what a changed configuration of Prometheus or Alertmanager no longer watches, tells or keeps."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from ops.review import yaml_bounds
from ops.review.cloudformation.values import elements
from ops.review.kubernetes.deltas import at

_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_PATHS: Final = {
    "alertmanagers": ("alerting", "alertmanagers"),
    "receiver of the route": ("route", "receiver"),
    "routes": ("route", "routes"),
}
_WORDS: Final = frozenset({"description", "html", "message", "subject", "text", "title"})
# What is listed here no longer arrives.
_DROPS: Final[Mapping[str, tuple[str, ...]]] = {
    "alert_relabel_configs": ("alerting", "alert_relabel_configs"),
    "inhibit_rules": ("inhibit_rules",),
    "mute_time_intervals": ("route", "mute_time_intervals"),
}
# How long both programs wait, and what they do without the key (configuration of Prometheus and Alertmanager).
_WAITS: Final = {
    ("global", "evaluation_interval"): "1m",
    ("route", "group_wait"): "30s",
    ("route", "group_interval"): "5m",
    ("route", "repeat_interval"): "4h",
}
_COMPARISON: Final = re.compile(r"([^<>]*[^\s<>=!])\s*([<>])(=?)\s*(\d+(?:\.\d+)?)(?![\w.])([^<>]*)")
"""An expression with one comparison with a limit, or more if they ask for equality."""
# What only chooses among the series, as this project's rules write it.
_AMONG: Final = re.compile(r"(.*?)(\s+and on ?\([^()]*\) \([^()]*\))?", re.DOTALL)
# With another comparison, or with these, more series before can be fewer alerts.
_TURNS: Final = re.compile(r"\b(unless|bool|absent\w*|scalar)\b|[=!]=(?![^{]*\})")
# A line of the DCGM exporter's list of counters: its name, its type, its help.
_COUNTER: Final = re.compile(r"^[ \t]*(DCGM_\w+)[ \t]*,", re.MULTILINE)
_PART: Final = re.compile(r"(\d+)(ms|[smhdwy])")


def lost(before: str, after: str) -> Iterator[str]:
    """Yield what the new text lacks or blunts, one phrase each; nothing if the old one configures neither program."""
    counted = [set(_COUNTER.findall(text)) for text in (before, after)]
    yield from (f"counter {name} removed" for name in sorted(counted[0] - counted[1]))
    old, new = _document(before), _document(after)
    rules = _alerts(new)
    for name, rule in _alerts(old).items():
        if name not in rules:
            yield f"alert {name} removed"
        elif not _fires_as_early(rules[name].get("expr"), rule.get("expr")):
            yield f"alert {name}: expression changed"
        elif seconds(rules[name].get("for")) > seconds(rule.get("for")):
            yield f"alert {name}: for {rule.get('for', '0s')} → {rules[name].get('for')}"
    for key, path in _PATHS.items():
        if at(old, *path) and at(old, *path) != at(new, *path):
            yield f"{key} {_short(at(old, *path))} → {_short(at(new, *path))}"
    for key, places in _DROPS.items():
        known = elements(at(old, *places))
        if added := [each for each in elements(at(new, *places)) if each not in known]:
            yield f"{key} + {_short(added)}"
    for (part, name), default in _WAITS.items():
        was, now = (at(each, part, name) or default for each in (old, new))
        if seconds(now) > seconds(was):
            yield f"{name} {was} → {now}"
    jobs = [{str(each.get("job_name")) for each in _mappings(at(side, "scrape_configs"))} for side in (old, new)]
    yield from (f"scrape_configs without {name}" for name in sorted(jobs[0] - jobs[1]))
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


def _fires_as_early(after: Any, before: Any) -> bool:
    """Return whether an expression is the same, or compares with a limit that is reached earlier."""
    if after == before:
        return True
    (left, among), (right, others) = (_split(each) for each in (before, after))
    old, new = _COMPARISON.fullmatch(left), _COMPARISON.fullmatch(right)
    if not old or not new or among != others or old.group(1, 2, 3, 5) != new.group(1, 2, 3, 5):
        return False
    lower = float(new[4]) < float(old[4])
    return lower is (old[2] == ">") and not _TURNS.search(old[1] + old[5])


def _split(expression: Any) -> tuple[str, str]:
    found = _AMONG.fullmatch(str(expression))
    return (found[1], found[2] or "") if found else (str(expression), "")


def _targets(receiver: Mapping[str, Any]) -> set[str]:
    """Return the receiver's targets, each as text, without the words that they get."""
    return {
        f"{key} {json.dumps(_without_words(target), sort_keys=True, default=str)}"
        for key, targets in receiver.items()
        if isinstance(targets, list)
        for target in targets
    }


def _without_words(target: Any) -> Any:
    return {key: each for key, each in target.items() if key not in _WORDS} if isinstance(target, Mapping) else target


def seconds(duration: Any) -> float:
    """Return a duration of Prometheus in seconds; 0 for none, infinite for what is none."""
    text = str(duration or "0s")
    parts = _PART.findall(text)
    whole = "".join(f"{number}{unit}" for number, unit in parts) == text
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) if whole else float("inf")


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str) if value else "none"
    return text if len(text) <= 120 else f"{text[:117]}…"
