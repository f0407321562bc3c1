"""Explain rules: for `ops explain`, and as the page docs/reference/rules.md."""

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from config.findings import Severity
from config.rules import ALL_RULES
from config.rules.rule import Rule
from config.suggest import did_you_mean

_INTRODUCTION: Final = """# Rules

Each finding of `ops check` ends with the id of its rule. Generated from `config/rules/` by `ops schema`;
`ops explain V55` prints one.

An error must be corrected. A warning can be accepted with a reason: `accepted_warnings: {V56: as in the walkthrough}`.
An example is a key and a value that break the rule in an environment that otherwise keeps it.
"""


class UnknownRuleError(Exception):
    """No rule has the id; the message lists the known ids."""


def find(id: str) -> Rule:
    """Return the rule of this id. Raises UnknownRuleError."""
    rule = ALL_RULES.get(id.upper())
    if rule is None:
        known = ", ".join(ALL_RULES)
        raise UnknownRuleError(
            f"rule {id!r} is invalid: no rule has this id. Allowed: {known}. "
            f"Fix: {did_you_mean(id, ALL_RULES, 'copy the id from the end of a finding')}"
        )
    return rule


def explained(rule: Rule) -> Iterator[str]:
    """Yield the lines that explain a rule."""
    explanation = rule.explanation
    yield f"{rule.id} ({rule.severity.value}): {explanation.what}"
    yield f"Why: {explanation.why}"
    yield f"Source: {explanation.source}"
    yield f"Breaks it: {explanation.example}"
    if rule.severity is Severity.WARNING:
        yield f"To accept it: accepted_warnings: {{{rule.id}: REASON}}"


def data(rule: Rule) -> dict[str, str]:
    """Return a rule as data for programs."""
    return {"rule": rule.id, "kind": rule.severity.value, **rule.explanation._asdict()}


def listed() -> Table:
    """Draw a table of all rules."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("rule", "kind"):
        drawn.add_column(column, no_wrap=True)
    drawn.add_column("requirement", overflow="fold")
    for rule in ALL_RULES.values():
        drawn.add_row(rule.id, rule.severity.value, rule.explanation.what)
    return drawn


def page() -> str:
    """Return the page: a section for each rule."""
    return "\n".join([_INTRODUCTION, *(line for rule in ALL_RULES.values() for line in _section(rule))])


def _section(rule: Rule) -> Iterator[str]:
    explanation = rule.explanation
    yield from (f"## {rule.id}", "", f"{rule.severity.value.capitalize()}. {explanation.what}", "")
    yield from (
        f"- Why: {explanation.why}",
        f"- Source: {explanation.source}",
        f"- Breaks it: `{explanation.example}`",
        "",
    )
