"""Draw a verdict as one page of HTML that loads nothing and runs nothing."""

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from typing import Final

from ops.review.model import ComparedRow, Difference, EnvironmentVerdict, Verdict
from ops.review.report import outcome, summary, texts
from ops.review.report.style import CSS

_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)


def page(verdict: Verdict) -> str:
    """Return the whole report as an HTML document."""
    return "\n".join(_document(verdict)) + "\n"


def _document(verdict: Verdict) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">'
    yield f"<title>What this changes</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>What this changes</h1>\n<p><strong>{texts.markup(summary.headline(verdict))}</strong></p>"
    yield from (f'<p class="note">{texts.markup(note)}</p>' for note in verdict.notes)
    if paragraphs := [
        f"<li><strong>{each}:</strong> {texts.markup(answer)}</li>" for each, answer in outcome.answers(verdict)
    ]:
        yield f"<ul>{''.join(paragraphs)}</ul>"
    yield from _table(verdict)
    yield from (f"<p>{texts.markup(paragraphs)}</p>" for paragraphs in summary.below(verdict))
    yield from _gate(verdict)
    if verdict.content:
        yield "<section><h2>What owners must read</h2>"
        yield _list([f"{kind}: {', '.join(files)}" for kind, files in summary.content(verdict)])
        yield from (_folded(Difference(each.path, each.diff)) for each in verdict.content)
        yield "</section>"
    for environment in verdict.environments:
        yield from _details(environment)
    yield "</main>\n</body>\n</html>"


def _table(verdict: Verdict) -> Iterator[str]:
    yield from ('<table class="verdict">', _header(summary.HEADER), "<tbody>")
    for row in summary.rows(verdict):
        change = f"<strong>{texts.markup(row.title)}</strong>" + (f": {texts.markup(row.what)}" if row.what else "")
        environment = f"<strong>{texts.markup(row.environment)}</strong>"
        cells = (environment, change, _happens(row), _lines(summary.acts(row)))
        first = ' class="first"' if row.first else ""
        yield f"<tr{first}>{''.join(map(_cell, summary.HEADER, cells))}</tr>"
    yield "</tbody></table>"


def _happens(row: summary.TableRow) -> str:
    if row.effect is None:
        return _lines(row.cost)
    mark = '<span class="badge stop">needs an approval</span> ' if row.stops else ""
    reason = f'<div class="reason">{texts.markup(row.reason)}</div>' if row.reason else ""
    return f'{mark}<span class="badge {summary.severity(row.effect)}">{row.effect}</span>{reason}'


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"<div>{texts.markup(line)}</div>" for line in lines)


def _gate(verdict: Verdict) -> Iterator[str]:
    for file, lines in summary.approvals(verdict):
        where = f"adds to <code>{html.escape(file)}</code>, under <code>approvals:</code>"
        yield f"<h2>Approvals</h2><p>A reviewer who accepts what needs an approval {where}</p>"
        yield f"<pre>{html.escape(texts.visible(chr(10).join(lines)))}</pre>"
    if confirmed := [summary.is_confirmed(*each) for each in summary.confirmed(verdict)]:
        yield f"<h2>Confirmed already</h2>{_list(confirmed)}"


def _details(environment: EnvironmentVerdict) -> Iterator[str]:
    shown = (environment.groups, environment.ray_clusters, environment.permissions, environment.differences)
    if not any(shown):
        return
    yield f"<section><h2>{texts.markup(environment.name)}</h2>"
    yield from _before_after("Instance groups", environment.groups)
    yield from _before_after("RayClusters", environment.ray_clusters)
    if environment.permissions:
        yield f"<h3>Permissions and network</h3>{_list(environment.permissions)}"
    if environment.differences:
        yield "<h3>Differences</h3>"
        yield from map(_folded, environment.differences)
    yield "</section>"


def _before_after(title: str, table: Sequence[ComparedRow]) -> Iterator[str]:
    if not table:
        return
    columns = summary.columns(table)
    yield from (f"<h3>{title}</h3>", "<table>", _header(["name", *columns]), "<tbody>")
    for row in table:
        cells = [_cell("name", texts.markup(summary.row_name(row)))]
        for column in columns:
            value, changed = summary.cell(row, column)
            cells.append(_cell(column, texts.markup(value), " class=changed" if changed else ""))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table>"


def _cell(column: str, content: str, attributes: str = "") -> str:
    """Return a cell; on a narrow screen its column's name is above it."""
    return f'<td{attributes} data-column="{html.escape(texts.line(column))}">{content}</td>'


def _folded(difference: Difference) -> str:
    lines = "\n".join(map(_diff_line, texts.visible(difference.diff.replace("\r\n", "\n")).strip("\n").split("\n")))
    return f"<details><summary>{texts.markup(difference.title)}</summary><pre>{lines}</pre></details>"


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed", "@": "place"}.get(line[:1])
    return f'<span class="{kind}">{html.escape(line)}</span>' if kind else html.escape(line)


def _header(names: Sequence[str]) -> str:
    return f"<thead><tr>{''.join(f'<th scope=col>{texts.markup(name)}</th>' for name in names)}</tr></thead>"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{texts.markup(line)}</li>' for line in lines)}</ul>"
