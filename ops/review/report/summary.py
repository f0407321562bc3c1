"""Say in words what every format of the report shows: the table over all environments, and what the gate stops."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from ops.review import steps
from ops.review.model import Change, ComparedRow, Effect, EnvironmentVerdict, Verdict
from ops.review.report import costs, outcome
from ops.review.report.approvals import entries, file

HEADER: Final = ("environment", "change", "what happens", "who does what, when")
NOBODY: Final = "nobody"
_COST: Final = "cost of all changes together"
# A new environment creates hundreds of things, and a company's tag is on all of them: one row stands for many.
_MOST_ALIKE: Final = 5
_OF_A_TAG: Final = re.compile(r"([\w.]+\.)?(Tags|tags)\.\S+ ")
_MOST_FILES: Final = 20
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
    effect: Effect | None
    """None: the row of the costs."""
    reason: str
    cost: tuple[str, ...]
    """A line for each figure, in the row of the costs."""
    actions: tuple[str, ...]
    """Who does what, when; empty: nobody has to act."""
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
        cost = [TableRow("", _COST, "", None, "", group.cost, (), stops=False)] if group.changes else []
        for number, row in enumerate([*cost, *_rows(group, words)]):
            yield replace(row, environment=group.names, first=number == 0)


def acts(row: TableRow) -> tuple[str, ...]:
    """Return who does what in a row, `nobody` for a change that needs no act."""
    return row.actions or (() if row.effect is None else (NOBODY,))


def headline(verdict: Verdict) -> str:
    """Return the verdict in few sentences: whether it deploys, what it ends or loses, what needs an approval."""
    return outcome.headline(verdict, len(list(stops(verdict))))


def content(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of content, and its files with the number of lines that owners must read."""
    for kind in dict.fromkeys(each.kind for each in verdict.content):
        files = [each for each in verdict.content if each.kind is kind]
        shown = [
            f"`{_code(' '.join(each.path.split()))}` ({each.lines:,} line{'' if each.lines == 1 else 's'})"
            for each in files
        ]
        more = [f"and {len(files) - _MOST_FILES} more files"] if len(files) > _MOST_FILES else []
        yield kind, shown[:_MOST_FILES] + more


def stops(verdict: Verdict) -> Iterator[tuple[str, Change]]:
    """Yield the environment and the change of all that needs an approval."""
    for environment in verdict.environments:
        yield from ((environment.name, change) for change in _listed(environment) if _stops(change))


def confirmed(verdict: Verdict) -> Iterator[tuple[str, Change]]:
    """Yield the environment and the change of all that a key of the environment confirms."""
    for environment in verdict.environments:
        for change in environment.changes:
            if change.gated and change.confirmed_by:
                yield environment.name, change


def approvals(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """Yield each environment's approvals file, and the lines that a reviewer adds to accept what the gate stops."""
    for environment in verdict.environments:
        stopped = [change for change in environment.changes if _stops(change)]
        wanted = dict.fromkeys(
            tuple(entries(change, [danger])) for change in stopped for danger in sorted(change.gated)
        )
        if wanted:
            yield file(environment.name), [line for entry in wanted for line in entry]


def is_confirmed(name: str, change: Change) -> str:
    """Return the line that says which key confirms a change."""
    dangers = ", ".join(f"`{danger}`" for danger in sorted(change.gated))
    return f"{name}: `{change.confirmed_by}` confirms {dangers} of {change.title}: {change.what}."


def below(verdict: Verdict) -> list[str]:
    """Return the sentences below the table."""
    return [*filter(None, [costs.total(verdict)]), *costs.notes(verdict), *filter(None, [not_listed(verdict)])]


def not_listed(verdict: Verdict) -> str:
    """Return how many changes the table leaves out; empty if none."""
    number = sum(not _is_listed(change) for each in verdict.environments for change in each.changes)
    return (
        f"{_number(number)} without effect (descriptions, comments) {'is' if number == 1 else 'are'} not listed."
        if number
        else ""
    )


def columns(table: Sequence[ComparedRow]) -> list[str]:
    """Return the columns of a table before → after."""
    return list(dict.fromkeys(key for row in table for key in (*row.before, *row.after)))


def cell(row: ComparedRow, column: str) -> tuple[str, bool]:
    """Return the value of a cell, `before → after` if it changes, and whether it does."""
    before, after = row.before.get(column, ""), row.after.get(column, "")
    if before == after or not row.before or not row.after:
        return (after or before), before != after
    return f"{before or 'none'} → {after or 'none'}", True


def row_name(row: ComparedRow) -> str:
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
    """Return the changes of the table; equal ones of one thing are joined, such as of a head and its workers."""
    joined: dict[Change, dict[str, None]] = {}
    for change in environment.changes:
        if _is_listed(change):
            joined.setdefault(replace(change, what=""), {})[change.what] = None
    return tuple(replace(change, what="; ".join(filter(None, sentences))) for change, sentences in joined.items())


def _any_environment(change: Change, name: str) -> Change:
    """Return the change with a placeholder for the environment in its command."""
    return replace(change, action=re.sub(rf"--env {re.escape(name)}(?![\w-])", "--env NAME", change.action))


def _rows(group: _Group, words: Words) -> Iterator[TableRow]:
    if not group.changes:
        synthesised = group.environments[0].synthesised
        title = "nothing that runs" if synthesised else "nothing: no input of the synthesis differs"
        yield TableRow("", title, "", Effect.NOTHING, "Costs are unchanged.", (), (), stops=False)
    elif words < Words.GROUPED:
        new = [change for change in group.changes if _is_plainly_new(change)]
        tagged: dict[str, list[Change]] = {}
        for change in filter(_is_plainly_tagged, group.changes):
            tagged.setdefault(change.what, []).append(change)
        many = [alike for alike in (new, *tagged.values()) if len(alike) > _MOST_ALIKE]
        merged = {change for alike in many for change in alike}
        yield from (_row(each, words) for each in group.changes if each not in merged)
        for alike in many:
            row = _together(alike, alike[0].effect, Words.GROUPED, stops=False)
            yield row if alike is new else replace(row, title=f"tags of {len(alike)} resources", what=alike[0].what)
    else:
        kinds = dict.fromkeys((change.effect, _stops(change)) for change in group.changes)
        for effect, stopped in kinds:
            alike = [each for each in group.changes if (each.effect, _stops(each)) == (effect, stopped)]
            yield _together(alike, effect, words, stops=stopped)


def _is_plainly_new(change: Change) -> bool:
    return change.effect is Effect.CREATED and not change.action and not change.gated


def _is_plainly_tagged(change: Change) -> bool:
    plain = change.effect is Effect.IN_PLACE and not change.action and not change.gated
    return plain and all(_OF_A_TAG.match(part) for part in change.what.split("; "))


def _row(change: Change, words: Words) -> TableRow:
    title, what, reason = change.title, "" if change.what == change.effect else change.what, change.reason
    actions = _actions([change])
    if words is Words.SHORT:
        title, what, reason = _cut(title, 60), _cut(what, 80), ""
        actions = tuple(_cut(each, 160) for each in actions)
    return TableRow("", title, what, change.effect, reason, (), actions, _stops(change))


def _together(changes: list[Change], effect: Effect, words: Words, *, stops: bool) -> TableRow:
    titles = ", ".join(dict.fromkeys(change.title for change in changes))
    title = _number(len(changes))
    if words is Words.GROUPED:
        actions = tuple(filter(None, [_cut(" ".join(_actions(changes)), 160)]))
        return TableRow("", title, _cut(titles, 120), effect, "", (), actions, stops)
    acts = any(change.action or _stops(change) for change in changes)
    return TableRow("", title, "", effect, "", (), ("see the full report",) if acts else (), stops)


def _actions(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return who does what, when: an approval first."""
    sentences: dict[str, None] = {}
    for change in changes:
        if _stops(change):
            dangers = ", ".join(f"`{danger}`" for danger in sorted(change.gated))
            sentences[f"{steps.REVIEWER}approve {dangers}, or reject the change."] = None
        sentences |= dict.fromkeys(filter(None, change.action.split("\n")))
        if change.gated and change.confirmed_by:
            sentences[f"`{_code(change.confirmed_by)}` confirms it: no approval is needed."] = None
    return tuple(sentences)


def _number(count: int) -> str:
    return f"{count} change{'' if count == 1 else 's'}"


def _code(text: str) -> str:
    """Return a text that may stand between backticks."""
    return text.replace("`", "'")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
