"""Markdown: nothing from a file breaks it, and a comment keeps its table."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ops.review.model import ComparedRow, Difference, Effect, EnvironmentVerdict
from ops.review.report import markdown, texts
from tests.unit.ops.review.report.test_table import table
from tests.unit.ops.review.report.verdicts import change, everything, verdict

SIX = ("dev", "prod", "closed", "small", "existing-vpc", "existing-eks")
# What GitHub counts as most: UTF-16 units.
GITHUB = 65_536


def size(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


QUOTED = {
    "a|b": r"a\|b",
    "a`|b": r"a\`\|b",
    "`a|b`": r"`a\|b`",
    r"`a\|b`": r"a\\\|b",
    "a\n\n# b": "a # b",
    "<img src=x>": "&lt;img src=x&gt;",
    "&lt;": "&amp;lt;",
    "@octocat": "@&#8203;octocat",
    "`@octocat`": "`@octocat`",
    "fixes #12": "fixes #&#8203;12",
    "GH-12": "GH&#8203;-12",
    "[text](https://evil.example)": r"\[text\](https:&#8203;//evil.example)",
    "www.evil.example": "www&#8203;.evil.example",
    "**bold** _it_ ~~no~~": r"\*\*bold\*\* \_it\_ \~\~no\~\~",
    "$x$ of US$ 5": "$&#8203;x$ of US$ 5",
    "a\x1b[31m": r"a\\u001b\[31m",
    "a\u202eb": r"a\\u202eb",
    "a\ud800b": r"a\\ud800b",
}


@pytest.mark.parametrize(("text", "shown"), QUOTED.items(), ids=map(ascii, QUOTED))
def test_texts_are_quoted(text: str, shown: str) -> None:
    assert texts.markdown(text, in_table=True) == shown


@pytest.mark.parametrize("text", QUOTED, ids=ascii)
def test_table_keeps_its_cells_whatever_a_value_holds(text: str) -> None:
    hostile = change(text, text, Effect.UNKNOWN, reason=text, action=text)
    rows = (ComparedRow(text, {text: text}, {text: ""}),)
    environment = EnvironmentVerdict("dev", (hostile,), groups=rows, ray_clusters=rows, permissions=(text,))
    drawn = markdown.report(verdict(environment, notes=(text,)))
    lines = [line for line in drawn.splitlines() if line.startswith("|")]
    assert len(table(drawn)) == 2
    # An escaped `|` ends no cell.
    counts = [line.replace(r"\\", "").replace(r"\|", "").count("|") for line in lines]
    assert counts == [5] * 4 + [3] * 6
    drawn.encode()


def test_diff_cannot_leave_its_fence() -> None:
    diff = "+```\n+</details>\n+@octocat\n+````"
    title = "<b>`x`\n@octocat"
    text = markdown.report(verdict(EnvironmentVerdict("dev", differences=(Difference(title, diff),))))
    assert text.endswith(
        f"<details><summary>&lt;b&gt;`x` @&#8203;octocat</summary>\n\n`````diff\n{diff}\n`````\n\n</details>\n"
    )


def test_tables_before_and_after_mark_what_changes() -> None:
    rows = (
        ComparedRow("old", {"type": "ml.a", "count": "1"}, {}),
        ComparedRow("kept", {"type": "ml.a", "count": "1"}, {"type": "ml.a", "count": "2"}),
        ComparedRow("new", {}, {"type": "ml.b", "count": "3"}),
    )
    assert (
        "| Instance groups | type | count |\n| --- | --- | --- |\n"
        "| old (removed) | **ml.a** | **1** |\n| kept | ml.a | **1 → 2** |\n| new (new) | **ml.b** | **3** |\n"
    ) in markdown.report(verdict(EnvironmentVerdict("dev", groups=rows)))


def test_short_report_is_a_comment_whole_with_a_link() -> None:
    one = verdict(everything("dev"))
    address = "https://github.com/o/r/actions/runs/1#artifacts"
    whole, comment = markdown.report(one), markdown.comment(one, address)
    assert comment.replace(f"Full report: [the full report]({address})\n\n", "") == whole


def test_comment_loses_the_largest_differences_first() -> None:
    small, large = (Difference(name, "\n".join(["+x"] * lines)) for name, lines in (("small", 5), ("large", 30_000)))
    text = markdown.comment(verdict(EnvironmentVerdict("dev", differences=(small, large))), "review.html")
    assert size(text) <= GITHUB
    assert "<details><summary>small</summary>" in text
    assert "large: 30000 lines of differences; see `review.html`" in text


@pytest.mark.parametrize("lines", [3, 3_000])
def test_comment_of_six_environments_keeps_its_table_complete(lines: int) -> None:
    six = verdict(*(everything(name, lines=lines) for name in SIX))
    text = markdown.comment(six, "https://example.com/review.html")
    assert size(text) <= GITHUB
    assert table(text) == table(markdown.report(six))
    assert len(table(text)) == 6 * len(SIX)
    assert "https://example.com/review.html" in text
    assert [f"### {name}" in text for name in SIX] == [True] * 6


def test_comment_loses_details_of_the_last_environment_first() -> None:
    six = verdict(*(replace(everything(name), permissions=("role X may now read Y",) * 700) for name in SIX))
    text = markdown.comment(six, "https://example.com/review.html")
    assert size(text) <= GITHUB
    assert table(text) == table(markdown.report(six))
    shown = [name for name in SIX if f"### {name}" in text]
    assert 0 < len(shown) < len(SIX)
    assert shown == list(SIX[: len(shown)])
    assert "_Left out, as a comment is limited: the details of " + ", ".join(SIX[len(shown) :]) in text


@pytest.mark.parametrize("times", [60, 200])
def test_comment_has_every_environment_and_effect_however_many_changes(times: int) -> None:
    six = verdict(*(everything(name, times=times) for name in SIX))
    text = markdown.comment(six, "review.html")
    assert size(text) <= GITHUB
    assert len(table(text)) >= 5 * len(SIX)
    for name in SIX:
        own = [row for row in table(text) if row.startswith(f"| {name} |")]
        for effect in ("data lost", "nodes removed", "deployment fails", "needs rollout", "in place"):
            assert any(f"**{effect}**" in row for row in own), (name, effect)
        assert any("⛔" in row for row in own)


class Balance(HTMLParser):
    """Counts open details."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0

    def handle_starttag(self, tag: str, _: object) -> None:
        self.open += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self.open -= tag == "details"


@pytest.mark.parametrize("lines", [3, 3_000])
def test_comment_closes_what_it_folds(lines: int) -> None:
    reader = Balance()
    reader.feed(markdown.comment(verdict(*(everything(name, lines=lines) for name in SIX))))
    assert reader.open == 0


@pytest.mark.parametrize("path", ["javascript:alert(1)", "https://x.example/) [a](b", "out/review.html"])
def test_what_is_no_address_is_no_link(path: str) -> None:
    text = markdown.comment(verdict(everything("dev")), path)
    assert f"Full report: `{path}`" in text
