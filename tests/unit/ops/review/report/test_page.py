"""The page of HTML: complete, and it loads and runs nothing."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from ops.review.model import ComparedRow, Difference, Effect, EnvironmentVerdict
from ops.review.report import page
from ops.review.report.style import CSS
from tests.unit.ops.review.report.verdicts import change, everything, verdict

VOID = {"meta"}


class Reader(HTMLParser):
    """Reads a page: the open tags, all tags with attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.path: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.path.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.path.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


def test_page_shows_all_of_the_verdict() -> None:
    read = Reader(
        page.page(verdict(everything("prod"), EnvironmentVerdict("dev", synthesised=False), notes=("a note",)))
    )
    assert read.path == []
    for text in (
        *("Jobs may end. 1 change needs an approval.", "a note", "environments/approvals/prod.yaml"),
        *("ops rollout rayml --env prod", "not shown: the deployment fails as it stands", "4 → 5"),
        *("RayRole", "-replicas: 4", "+replicas: 5", "nothing: no input of the synthesis differs"),
    ):
        assert text in read.shown


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</pre></details>", '" onload="x', "&amp;", "</style>"])
def test_texts_add_no_markup(text: str) -> None:
    hostile = change(text, text, Effect.UNKNOWN, reason=text, action=text, resource=text, confirmed_by=text)
    rows = (ComparedRow(text, {text: text}, {text: ""}),)
    environment = EnvironmentVerdict(
        "dev", (hostile,), None, None, rows, rows, (text,), (Difference(text, f"+{text}\n {text}"),)
    )
    plain = Reader(page.page(verdict(environment, notes=(text,))))
    assert {tag for tag, _ in plain.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "strong", "code", "div"),
        *("table", "thead", "tbody", "tr", "th", "td", "span", "section", "ul", "li", "details", "summary", "pre"),
    }
    assert not {name for _, attributes in plain.tags for name in attributes if name.startswith("on")}
    assert text in plain.shown


def test_policy_allows_the_pages_own_style_only() -> None:
    drawn = page.page(verdict(everything("prod")))
    [policy] = [
        each["content"] for tag, each in Reader(drawn).tags if each.get("http-equiv") == "Content-Security-Policy"
    ]
    style = re.search("<style>(.*?)</style>", drawn, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"(?:src|href|style)=|url\(|@import", drawn)


@pytest.fixture(scope="module")
def rules() -> list[tuple[str, str, str]]:
    """Return the selector, the property and the value of each declaration of the page's style."""
    blocks = re.findall(r"([^{}]+)\{([^{}]*)\}", CSS)
    declared = [(selector.strip(), part) for selector, body in blocks for part in body.split(";") if part.strip()]
    return [(selector, *(side.strip() for side in part.split(":", 1))) for selector, part in declared]


def test_no_width_of_a_screen_or_of_paper_cuts_or_scrolls_the_page(rules: list[tuple[str, str, str]]) -> None:
    """Every text breaks anywhere, also inside a name, and nothing is wider than a screen of 400 pixels."""
    assert ("body", "overflow-wrap", "anywhere") in rules
    assert ("table.verdict", "table-layout", "fixed") in rules
    assert ("pre", "white-space", "pre-wrap") in rules
    forbidden = {"overflow-x", "min-width", "text-overflow", "word-break", "height", "max-height", "hyphens"}
    assert [each for each in rules if each[1] in forbidden and "details-content" not in each[0]] == []
    assert [each for each in rules if each[1] in {"white-space", "overflow-wrap"}] == [
        ("body", "overflow-wrap", "anywhere"),
        ("pre", "white-space", "pre-wrap"),
    ]
    narrow = re.compile(r"100%|\d\d?%|[0-9.]+em|none")
    assert [each for each in rules if each[1] == "width" and not narrow.fullmatch(each[2])] == []


def test_on_a_narrow_screen_the_columns_names_are_in_the_rows() -> None:
    assert re.search(
        r"@media screen and \(max-width: \d+rem\) \{.*td::before \{ content: attr\(data-column\)", CSS, re.S
    )
    cells = [each for tag, each in Reader(page.page(verdict(everything("prod")))).tags if tag == "td"]
    names = [each.get("data-column") for each in cells]
    assert set(names[:4]) == {"environment", "change", "what happens", "who does what, when"}
    assert set(names[-2:]) == {"name", "replicas"}
    assert all(names)


def test_on_paper_everything_is_shown() -> None:
    """Paper has no colours of a dark screen, and what is folded on a screen is open."""
    paper = CSS[CSS.index("@media print") :]
    assert "details::details-content { content-visibility: visible" in paper
    assert "max-width: none" in paper
    assert re.findall(r"@media ([^{]*)prefers-color-scheme: dark", CSS) == ["screen and ("]


def test_who_does_what_and_when_is_never_cut() -> None:
    name = "worker-group-" + "x" * 3_000
    action = f"Operator, before the deployment: run `ops scale {name} 0`.\nOperator, after the deployment: wait."
    many = tuple(
        change(f"{name}-{n}", name, Effect.NODES_REMOVED, action=action.replace(name, f"{name}-{n}")) for n in range(9)
    )
    shown = Reader(page.page(verdict(EnvironmentVerdict("dev", many)))).shown
    assert all(f"run ops scale {name}-{n} 0." in shown for n in range(9))
    assert "wait." in shown
