"""YAML of a pull request that would end the program that judges it is data that is lost, or a refusal."""

import pytest

from ops.review import yaml_bounds
from ops.review.kubernetes.rules.monitoring import lost

ALERTS = "groups: [{name: ray, rules: [{alert: HeadLost, expr: up == 0}]}]"
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))])
# Each value of the key but the last is gone when the text is read, and only aliases lead to it.
CHAIN = "\n".join(["k: &a0 [x]", *(f"k: &a{n} [*a{n - 1}]" for n in range(1, 5000))])
TOO_MUCH = {
    "100,000 levels in a line": ("[" * 100_000, "nested too deeply"),
    "100,000 lists in a line": ("- " * 100_000, "nested too deeply"),
    "101 levels": ("[" * 101 + "]" * 101, "nested too deeply"),
    "100,000,000 values by aliases": (ALIASES, "aliases stand for too many values"),
    "5,000 levels by aliases": (CHAIN, "nested too deeply"),
    "a value that contains itself": ("a: &a [*a]", "aliases stand for too many values"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_exceeds_a_bound_is_refused_with_what_is_allowed(name: str) -> None:
    text, reason = TOO_MUCH[name]
    with pytest.raises(yaml_bounds.BoundError, match=rf"{reason}.* Allowed: 1"):
        yaml_bounds.load(text)


@pytest.mark.parametrize("text", [text for text, _ in TOO_MUCH.values()], ids=TOO_MUCH)
def test_alerts_that_become_unreadable_are_removed_alerts(text: str) -> None:
    assert list(lost(ALERTS, text)) == ["alert HeadLost removed"]
    assert list(lost(text, ALERTS)) == []


def test_what_keeps_the_bounds_is_read() -> None:
    [deep] = yaml_bounds.load("[" * 100 + "]" * 100)
    assert deep
    assert yaml_bounds.load("a: &a [1, 2]\nb: *a\n---\nc: 1") == [{"a": [1, 2], "b": [1, 2]}, {"c": 1}]
