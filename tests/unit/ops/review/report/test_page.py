"""The page of HTML: complete, and it loads and runs nothing."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from ops.review.model import ComparedRow, Difference, Effect, EnvironmentVerdict
from ops.review.report import page
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
        *("ops rollout rayml --env prod", "+US$ 24.58 per hour (US$ 98.32 → US$ 122.90)", "4 → 5"),
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
