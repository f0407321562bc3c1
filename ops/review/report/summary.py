"""Say in words what every format of the report shows: the table over all environments, and what the gate stops."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from ops.review.model import Change, Effect, EnvironmentVerdict, Row, Verdict
from ops.review.report import costs

HEADER: Final = ("environment", "change", "what happens", "cost", "who must act")
NOBODY: Final = "nobody"
_SEVERE: Final = Effect.NODES_REPLACED.rank
_ATTENTION: Final = Effect.KEPT.rank


class Words(IntEnum):
    """How many words the table has. It has a row for each environment and effect in any case."""

    ALL = 0
    SHORT = 1
    """Without reasons; long values are cut."""
    GROUPED = 2
    """One row for each environment and effect, which names the things that change."""
    COUNTED = 3
    """One row for each environment and effect, which counts the changes."""


@dataclass(frozen=True)
class TableRow:
    """One row of the table. Its texts are plain, except that code stands between backticks."""

    environment: str
    """The environment, or all with equal changes."""
    title: str
    what: str
    effect: Effect
    reason: str
    cost: tuple[str, ...]
    """A line for each figure, in the first row of an environment."""
    action: str
    stops: bool
    """Whether the gate stops it until somebody approves it."""
    first: bool = False
    """Whether it is the first row of its environments."""


@dataclass(frozen=True)
class _Group:
    """Environments with equal changes and unchanged costs, which share their rows; or one environment."""

    environments: tuple[EnvironmentVerdict, ...]
    changes: tuple[Change, ...]

    @property
    def names(self) -> str:
        return ", ".join(each.name for each in self.environments)

    @property
    def cost(self) -> tuple[str, ...]:
        return costs.of(self.environments[0]) if len(self.environments) == 1 else (costs.UNCHANGED,)


def rows(verdict: Verdict, words: Words = Words.ALL) -> Iterator[TableRow]:
    """Yield the rows of the table: the worst environment first, and its worst change first."""
    for group in _groups(verdict):
        for number, row in enumerate(_rows(group, words)):
            yield replace(row, environment=group.names, cost=group.cost if number == 0 else (), first=number == 0)


def headline(verdict: Verdict) -> str:
    """Return the verdict in one sentence or two: the worst effect, and what the gate stops."""
    effects = [each.effect for each in verdict.environments]
    worst = min(effects, key=lambda each: each.rank, default=Effect.NOTHING)
    if worst is Effect.NOTHING:
        said = "Nothing that runs changes."
    else:
        names = ", ".join(each.name for each in verdict.environments if each.effect is worst)
        said = f"Worst effect: {worst}, in {names}."
    stopped = len(list(stops(verdict)))
    return f"{said} {f'The gate stops {_number(stopped)}.' if stopped else 'The gate stops nothing.'}"


def stops(verdict: Verdict) -> Iterator[tuple[str, Change]]:
    """Yield the environment and the change of all that needs an approval."""
    for environment in verdict.environments:
        yield from ((environment.name, change) for change in environment.changes if _stops(change))


def confirmed(verdict: Verdict) -> Iterator[tuple[str, Change]]:
    """Yield the environment and the change of all that a key of the environment confirms."""
    for environment in verdict.environments:
        for change in environment.changes:
            if change.gated and change.confirmed_by:
                yield environment.name, change


def needs_approval(name: str, change: Change) -> str:
    """Return the line that says which approval the gate asks for."""
    dangers = ", ".join(f"`{danger}`" for danger in sorted(change.gated))
    return f"{name}: `{_code(change.resource)}`: {dangers}. {_capital(change.title)}: {change.what}."


def is_confirmed(name: str, change: Change) -> str:
    """Return the line that says which key confirms a change."""
    dangers = ", ".join(f"`{danger}`" for danger in sorted(change.gated))
    return f"{name}: `{change.confirmed_by}` confirms {dangers} of {change.title}: {change.what}."


def not_listed(verdict: Verdict) -> str:
    """Return how many changes the table leaves out; empty if none."""
    number = sum(not _is_listed(change) for each in verdict.environments for change in each.changes)
    return f"Not listed: {_number(number)} of texts that nothing reads at run time." if number else ""


def columns(table: Sequence[Row]) -> list[str]:
    """Return the columns of a table before → after."""
    return list(dict.fromkeys(key for row in table for key in (*row.before, *row.after)))


def cell(row: Row, column: str) -> tuple[str, bool]:
    """Return the value of a cell, `before → after` if it changes, and whether it does."""
    before, after = row.before.get(column, ""), row.after.get(column, "")
    if before == after or not row.before or not row.after:
        return (after or before), before != after
    return f"{before or 'none'} → {after or 'none'}", True


def row_name(row: Row) -> str:
    """Return the row's name, and whether the thing is new or removed."""
    return row.name + ("" if row.before and row.after else " (new)" if row.after else " (removed)")


def severity(effect: Effect) -> str:
    """Return how an effect is coloured: severe, attention, mild or nothing."""
    if effect is Effect.NOTHING:
        return "nothing"
    return "severe" if effect.rank <= _SEVERE else "attention" if effect.rank <= _ATTENTION else "mild"


def _stops(change: Change) -> bool:
    return bool(change.gated) and not change.confirmed_by


def _is_listed(change: Change) -> bool:
    return change.effect is not Effect.NOTHING or bool(change.gated)


def _groups(verdict: Verdict) -> list[_Group]:
    """Return the environments in groups, in the order of each group's first one."""
    found: dict[tuple[str, bool, tuple[Change, ...]], list[EnvironmentVerdict]] = {}
    for environment in verdict.environments:
        alike = tuple(_any_environment(change, environment.name) for change in _listed(environment))
        own = "" if costs.are_unchanged(environment) else environment.name
        found.setdefault((own, environment.synthesised, alike), []).append(environment)
    return [
        _Group(tuple(members), alike if len(members) > 1 else _listed(members[0]))
        for (_, _, alike), members in found.items()
    ]


def _listed(environment: EnvironmentVerdict) -> tuple[Change, ...]:
    return tuple(change for change in environment.changes if _is_listed(change))


def _any_environment(change: Change, name: str) -> Change:
    """Return the change with a placeholder for the environment in its command."""
    return replace(change, action=re.sub(rf"--env {re.escape(name)}(?![\w-])", "--env NAME", change.action))


def _rows(group: _Group, words: Words) -> Iterator[TableRow]:
    if not group.changes:
        synthesised = group.environments[0].synthesised
        title = "nothing that runs" if synthesised else "nothing: no input of the synthesis differs"
        yield TableRow("", title, "", Effect.NOTHING, "", (), NOBODY, stops=False)
    elif words < Words.GROUPED:
        yield from (_row(change, words) for change in group.changes)
    else:
        kinds = dict.fromkeys((change.effect, _stops(change)) for change in group.changes)
        for effect, stopped in kinds:
            alike = [each for each in group.changes if (each.effect, _stops(each)) == (effect, stopped)]
            yield _together(alike, effect, words, stops=stopped)


def _row(change: Change, words: Words) -> TableRow:
    title, what, reason = change.title, change.what, change.reason
    action = _actions([change])
    if words is Words.SHORT:
        title, what, reason, action = _cut(title, 60), _cut(what, 80), "", _cut(action, 160)
    return TableRow("", title, what, change.effect, reason, (), action, _stops(change))


def _together(changes: list[Change], effect: Effect, words: Words, *, stops: bool) -> TableRow:
    titles = ", ".join(dict.fromkeys(change.title for change in changes))
    title = _number(len(changes))
    if words is Words.GROUPED:
        return TableRow("", title, _cut(titles, 120), effect, "", (), _cut(_actions(changes), 160), stops)
    action = "see the full report" if any(change.action or _stops(change) for change in changes) else NOBODY
    return TableRow("", title, "", effect, "", (), action, stops)


def _actions(changes: Iterable[Change]) -> str:
    """Return what somebody must do: an approval first."""
    said: dict[str, None] = {}
    for change in changes:
        if _stops(change):
            dangers = ", ".join(f"`{danger}`" for danger in sorted(change.gated))
            said[f"a reviewer: approve {dangers}, or drop the change."] = None
        if change.action:
            said[change.action] = None
        if change.gated and change.confirmed_by:
            said[f"`{_code(change.confirmed_by)}` confirms it."] = None
    return " ".join(action if action.endswith((".", "!")) else f"{action}." for action in said) or NOBODY


def _number(count: int) -> str:
    return f"{count} change{'' if count == 1 else 's'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _code(text: str) -> str:
    """Return a text that may stand between backticks."""
    return text.replace("`", "'")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
