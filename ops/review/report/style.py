"""Hold the style of the report's page, in light and dark."""

from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --text: #1f2328; --dim: #59636e; --page: #fff; --line: #d1d9e0; --head: #f6f8fa;
  --red: #cf222e; --red-back: #ffebe9; --yellow: #7d4e00; --yellow-back: #fff8c5; --green: #1a7f37;
  --green-back: #dafbe1; --blue: #0550ae; }
@media screen and (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --dim: #9198a1; --page: #0d1117; --line: #3d444d; --head: #161b22; --red: #ff7b72;
    --red-back: #3c1618; --yellow: #e3b341; --yellow-back: #322700; --green: #56d364; --green-back: #12261a;
    --blue: #79c0ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere; }
main { max-width: 100rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border: 1px solid var(--line); }
th { background: var(--head); }
table.verdict td { border-top-color: transparent; border-bottom-color: transparent; }
table.verdict tr:last-child td { border-bottom-color: var(--line); }
table.verdict tr.first td { border-top: 2px solid var(--line); }
table.verdict { table-layout: fixed; }
table.verdict th:nth-child(1) { width: 10em; }
table.verdict th:nth-child(4) { width: 32%; }
td.changed { background: var(--yellow-back); font-weight: 600; }
code, pre { font: .9em/1.45 ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }
code { background: var(--head); padding: .1em .3em; border-radius: 4px; }
pre { white-space: pre-wrap; margin: 0; padding: .75rem; background: var(--head); border-top: 1px solid var(--line); }
.added { color: var(--green); background: var(--green-back); }
.removed { color: var(--red); background: var(--red-back); }
.place { color: var(--blue); }
.reason { color: var(--dim); font-size: .93em; }
.note { padding: .5rem .75rem; border-left: 4px solid var(--yellow); background: var(--yellow-back); }
.badge { display: inline-block; padding: 0 .5em; border-radius: 1em; font-weight: 600; font-size: .93em; }
.stop { color: var(--page); background: var(--red); }
.severe { color: var(--red); background: var(--red-back); }
.attention { color: var(--yellow); background: var(--yellow-back); }
.mild { color: var(--green); background: var(--green-back); }
.nothing { color: var(--dim); background: var(--head); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; overflow: hidden; }
summary { cursor: pointer; padding: .4rem .75rem; }
@media screen and (max-width: 56rem) {
  main { padding: .75rem; }
  table, tbody, tr, td { display: block; }
  thead, td:empty { display: none; }
  tr { border: 1px solid var(--line); border-radius: 6px; margin: .75rem 0; }
  tr td, table.verdict tr.first td, table.verdict tr:last-child td { border: 0; }
  td::before { content: attr(data-column); display: block; color: var(--dim); font-size: .85em; }
}
@media print {
  @page { margin: 1.5cm; }
  body { font-size: 9pt; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; break-inside: avoid; }
  tr, .note, li { break-inside: avoid; }
  details { overflow: visible; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
