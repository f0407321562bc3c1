"""Draw a verdict as Markdown: all of it, or what fits into a comment on GitHub."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ops.review.model import ComparedRow, Difference, EnvironmentVerdict, Verdict
from ops.review.report import outcome, summary, texts
from ops.review.report.summary import Words

LIMIT: Final = 65_000
"""A comment on GitHub holds 65,536 characters; the rest is room for what GitHub may count otherwise."""
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'()`\[\]]+")
OWNERS: Final = "What owners must read"
_MOST_STOPS: Final = 40
_MOST_CONTENT: Final = 200
"""Each takes a line at least: thousands of files must not take the place of a workflow's difference."""


@dataclass
class _Section:
    """One environment below the table."""

    name: str
    details: str
    differences: list[str]
    """Each as a folded block, or as one line if it was left out."""
    lines: list[str]
    """The line that replaces each difference."""
    last_to_go: bool = False
    """Whether its differences stay longer than those of other sections."""

    @property
    def text(self) -> str:
        return "\n\n".join([f"### {texts.markdown(self.name)}", *filter(None, [self.details, *self.differences])])


def report(verdict: Verdict) -> str:
    """Return the whole report."""
    return _page(_above(verdict, Words.ALL, ""), _sections(verdict, "the diff was left out"), "")


def comment(verdict: Verdict, full_report: str = "") -> str:
    """Return the report in at most LIMIT characters, the table complete.

    It is shortened from its least important end: first the largest differences, then the environments' details, the
    last environment first, then the words of the table.

    Args:
        verdict: What to draw.
        full_report: Address or path of the whole report.
    """
    where = _link(full_report)
    sections = _sections(verdict, f"see {where}", _MOST_CONTENT)
    # The table takes the longest: with each number of words, it is drawn once.
    above = _above(verdict, Words.ALL, where)
    text = _page(above, sections, where)
    if _fits(text):
        return text
    _without_differences(sections, _size(text) - LIMIT)
    left_out: list[str] = []
    while not _fits(text := _page(above, sections, where, left_out)) and sections:
        left_out.insert(0, sections.pop().name)
    for words in (Words.SHORT, Words.GROUPED, Words.COUNTED):
        if _fits(text):
            break
        text = _page(_above(verdict, words, where), sections, where, left_out)
    return text


def _size(text: str) -> int:
    """Return the number of UTF-16 units, the most that a service may count as characters."""
    return len(text.encode("utf-16-le")) // 2


def _fits(text: str) -> bool:
    return _size(text) <= LIMIT


def _above(verdict: Verdict, words: Words, full_report: str) -> list[str]:
    """Return what stands above the environments' sections."""
    parts = ["## What this changes", f"**{texts.markdown(summary.headline(verdict))}**"]
    parts += [f"Full report: {full_report}"] if full_report else []
    parts += [f"> [!WARNING]\n> {texts.markdown(note)}" for note in verdict.notes] if words < Words.COUNTED else []
    if answers := [f"- **{subject}:** {texts.markdown(answer)}" for subject, answer in outcome.answers(verdict)]:
        parts.append("\n".join(answers))
    parts.append("\n".join(_table(verdict, words)))
    parts += map(texts.markdown, summary.below(verdict))
    parts += _gate(verdict, words)
    return parts


def _page(above: Sequence[str], sections: Sequence[_Section], full_report: str, left_out: Sequence[str] = ()) -> str:
    parts = [*above, *(section.text for section in sections)]
    if left_out:
        names = ", ".join(map(texts.markdown, left_out))
        parts.append(f"_Left out, as a comment is limited: the details of {names}. All of it: {full_report}_")
    return "\n\n".join(parts) + "\n"


def _table(verdict: Verdict, words: Words) -> Iterator[str]:
    yield _cells(summary.HEADER)
    yield _cells(["---"] * len(summary.HEADER))
    for row in summary.rows(verdict, words):
        environment, title, what = (
            texts.markdown(text, in_table=True) for text in (row.environment, row.title, row.what)
        )
        change = f"**{title}**" + (f": {what}" if what else "")
        yield _cells((environment, change, _happens(row), _lines(summary.acts(row))))


def _happens(row: summary.TableRow) -> str:
    if row.effect is None:
        return _lines(row.cost)
    effect = f"{'⛔ ' if row.stops else ''}**{texts.markdown(row.effect)}**"
    return f"{effect}<br>{_lines([row.reason])}" if row.reason else effect


def _lines(lines: Iterable[str]) -> str:
    return "<br>".join(texts.markdown(line, in_table=True) for line in lines)


def _gate(verdict: Verdict, words: Words) -> Iterator[str]:
    for file, lines in summary.approvals(verdict) if words < Words.GROUPED else ():
        title = f"⛔ A reviewer who accepts what needs an approval adds to `{file}`, under `approvals:`"
        yield f"{title}\n\n{texts.fenced(chr(10).join(lines), 'yaml')}"
    if confirmed := [summary.is_confirmed(*each) for each in summary.confirmed(verdict)]:
        yield f"Confirmed already:\n\n{_list(confirmed, words)}"


def _list(lines: list[str], words: Words) -> str:
    """Return all lines, or with fewer words in the table the first ones: the table marks all."""
    shown = lines if words is Words.ALL else lines[:_MOST_STOPS] if words < Words.COUNTED else []
    more = [f"- and {len(lines) - len(shown)} more"] if len(shown) < len(lines) else []
    return "\n".join([*(f"- {texts.markdown(line if words is Words.ALL else line[:300])}" for line in shown), *more])


def _sections(verdict: Verdict, elsewhere: str, most: int | None = None) -> list[_Section]:
    """Return a section for what owners must read, and for each environment that has details."""
    found = [
        _owners(verdict, elsewhere, most),
        *(_section(environment, elsewhere) for environment in verdict.environments),
    ]
    return [section for section in found if section.details or section.differences]


def _owners(verdict: Verdict, elsewhere: str, most: int | None) -> _Section:
    """Return the files by kind, and the differences of at most so many: the first ones are workflows and the gate."""
    kinds = [f"- **{kind}:** {texts.markdown(', '.join(files))}" for kind, files in summary.content(verdict)]
    differences = [Difference(each.path, each.diff) for each in verdict.content[:most]]
    if left := len(verdict.content) - len(differences):
        kinds.append(f"- The differences of {left:,} more files: {elsewhere}")
    return _Section(OWNERS, "\n".join(kinds), *_folded(differences, elsewhere), last_to_go=True)


def _section(environment: EnvironmentVerdict, elsewhere: str) -> _Section:
    details = [
        *_before_after("Instance groups", environment.groups),
        *_before_after("RayClusters", environment.ray_clusters),
    ]
    if environment.permissions:
        sentences = "\n".join(f"- {texts.markdown(sentence)}" for sentence in environment.permissions)
        details.append(f"**Permissions and network**\n\n{sentences}")
    return _Section(environment.name, "\n\n".join(details), *_folded(environment.differences, elsewhere))


def _folded(differences: Iterable[Difference], elsewhere: str) -> tuple[list[str], list[str]]:
    """Return each difference as a folded block, and as the line that replaces it."""
    folded, lines = [], []
    for each in differences:
        title, count = texts.summary(each.title), each.diff.count("\n") + 1
        folded.append(f"<details><summary>{title}</summary>\n\n{texts.fenced(each.diff)}\n\n</details>")
        lines.append(f"{texts.markdown(each.title)}: {count} lines of differences; {elsewhere}")
    return folded, lines


def _before_after(title: str, table: Sequence[ComparedRow]) -> Iterator[str]:
    if table:
        columns = summary.columns(table)
        lines = [_cells([title, *(texts.markdown(name, in_table=True) for name in columns)])]
        lines.append(_cells(["---"] * (len(columns) + 1)))
        for row in table:
            values = []
            for column in columns:
                value, changed = summary.cell(row, column)
                shown = texts.markdown(value, in_table=True)
                values.append(f"**{shown}**" if changed and shown else shown)
            lines.append(_cells([texts.markdown(summary.row_name(row), in_table=True), *values]))
        yield "\n".join(lines)


def _without_differences(sections: Sequence[_Section], surplus: int) -> None:
    """Replace the largest differences by a line each until the report is `surplus` characters shorter."""
    sizes = [
        (_size(diff), section, number)
        for section in sections
        for number, diff in enumerate(section.differences)
        if _size(diff) > _size(section.lines[number])
    ]
    for size, section, number in sorted(sizes, key=lambda each: (each[1].last_to_go, -each[0])):
        if surplus <= 0:
            break
        section.differences[number] = section.lines[number]
        surplus -= size - _size(section.lines[number])


def _link(full_report: str) -> str:
    if not full_report:
        return "`ops review BASE`, where BASE is a checkout of the branch to merge into"
    if _ADDRESS.fullmatch(full_report):
        return f"[the full report]({full_report})"
    return texts.markdown(f"`{full_report.replace('`', chr(39))}`")


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
