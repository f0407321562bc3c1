"""The timeline of a deployment, which shows what each stack waited for."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rehearsal.report import timeline


def created(stack: str, name: str, start: float, end: float, *waited_for: str, **other: Any) -> dict[str, Any]:
    """Return an entry of the account's journal."""
    entry = {
        "kind": "cfn",
        "action": "CREATE",
        "stack": stack,
        "logical_id": name,
        "type": "AWS::EC2::Subnet",
        "start": start,
        "end": end,
        "waited_for": list(waited_for),
        "status": "CREATE_COMPLETE",
    }
    return entry | other


def test_times_begin_with_the_deployment() -> None:
    [band] = timeline.bands([created("network", "Vpc", 100.0, 101.0), created("network", "Subnet", 101.0, 104.0)])
    assert [(bar.name, bar.start, bar.end) for bar in band.bars] == [("Vpc", 0.0, 1.0), ("Subnet", 1.0, 4.0)]
    assert (band.start, band.end) == (0.0, 4.0)


def test_stacks_come_in_the_order_in_which_they_began() -> None:
    drawn = timeline.bands([created("eks", "a", 5, 6), created("network", "b", 1, 2), created("storage", "c", 3, 9)])
    assert [band.stack for band in drawn] == ["network", "storage", "eks"]


def test_only_the_first_creation_of_a_resource_counts() -> None:
    [band] = timeline.bands([created("ray", "Pod", 1, 2), created("ray", "Pod", 50, 60)])
    assert [(bar.start, bar.end) for bar in band.bars] == [(0, 1)]


def test_updates_deletions_other_entries_and_the_bootstrap_are_left_out() -> None:
    journal = [
        {"kind": "api", "operation": "UpdateCluster"},
        created("CDKToolkit", "Bucket", 0, 1),
        created("network", "Vpc", 10, 11),
        created("network", "Vpc", 20, 21, action="DELETE"),
        created("network", "Tags", 20, 21, action="UPDATE"),
    ]
    [band] = timeline.bands(journal)
    assert [bar.name for bar in band.bars] == ["Vpc"]


def test_without_a_creation_nothing_is_drawn() -> None:
    assert timeline.bands([]) == []
    assert timeline.lines([]) == []


def test_the_deciding_chain_leads_back_through_what_ended_last() -> None:
    [band] = timeline.bands(
        [
            created("eks", "Role", 0, 1),
            created("eks", "Key", 0, 3),
            created("eks", "Cluster", 3, 10, "Role", "Key", "Vpc of another stack"),
            created("eks", "AddOn", 10, 11, "Cluster"),
            created("eks", "Nodes", 10, 14, "Cluster"),
        ]
    )
    assert [bar.name for bar in band.deciding()] == ["Key", "Cluster", "Nodes"]


def test_a_line_shows_each_stack_s_time_and_what_decided_it() -> None:
    journal = [
        created("eks", "Role", 0, 0.1, type="AWS::IAM::Role"),
        created("eks", "Cluster", 0.1, 7, "Role", type="AWS::EKS::Cluster"),
        created("eks", "Chart", 7, 12, "Cluster", type="Custom::AWSCDK-EKS-HelmChart"),
    ]
    [line] = timeline.lines(timeline.bands(journal))
    assert line == "eks: 0 to 12 min; decided by EKS Cluster 6.9 → HelmChart 5.0"


class Reader(HTMLParser):
    """A parser that counts tags and collects classes and text; `open` keeps the tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.classes: list[str] = []
        self.text = ""
        self.texts: list[str] = []
        self.lines: list[str] = []
        self.widths: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.classes += [given["class"]] if "class" in given else []
        self.lines += [given["x1"]] if tag == "line" else []
        self.widths += [float(given["width"])] if tag == "rect" else []
        assert not any(name in {"src", "href"} or name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        while self.open.pop() != tag:
            assert tag == "html", f"{tag} closes nothing"

    def handle_data(self, data: str) -> None:
        self.text += data
        self.texts.append(data)


def page(journal: list[dict[str, Any]], title: str, directory: Path) -> Reader:
    """Draw the page and read it again."""
    reader = Reader()
    drawn = timeline.bands(journal)
    critical = [bar for band in drawn for bar in band.deciding()]
    reader.feed(timeline.write(drawn, critical, title, directory / "timeline.html").read_text())
    return reader


def test_the_page_marks_the_critical_path_and_failures(tmp_path: Path) -> None:
    journal = [
        created("eks", "Key", 0, 1),
        created("eks", "Role", 0, 3),
        created("eks", "Cluster", 3, 10, "Role"),
        created("eks", "Bad", 3, 4, status="CREATE_FAILED"),
    ]
    read = page(journal, "Deployment", tmp_path)
    bars = [style for style in read.classes if style in {"d", "w", "f"}]
    # In the order in which they began: Key, Role, Bad, Cluster.
    assert bars == ["w", "d", "f", "d"]


def test_every_stack_has_the_same_axis_from_start_to_end(tmp_path: Path) -> None:
    journal = [created("network", "Vpc", 100, 119), created("eks", "Cluster", 119, 223)]
    read = page(journal, "Deployment", tmp_path)
    labels = [f"{minute} min" for minute in range(0, 121, 20)]
    assert [text for text in read.texts if text.endswith(" min") and " to " not in text] == 2 * labels
    # Each tick has one grid line, and the bar of 104 min is 5.2 times as long as the distance between two lines.
    at = [float(x) for x in read.lines[: len(labels)]]
    space = at[1] - at[0]
    assert max(read.widths) == pytest.approx(5.2 * space, rel=0.01)


@pytest.mark.parametrize(
    ("end", "ticks"),
    [(0.5, [0]), (7.9, list(range(8))), (12, list(range(0, 13, 2))), (480, list(range(0, 481, 50)))],
)
def test_ticks_are_round_and_few(end: float, ticks: list[int]) -> None:
    assert timeline._ticks(end) == ticks


def test_quick_resources_are_counted_not_drawn(tmp_path: Path) -> None:
    read = page([created("n", "Slow", 0, 5), *[created("n", f"Q{i}", 0, 0.01) for i in range(7)]], "D", tmp_path)
    assert read.tags.count("rect") == 1
    assert "8 resources, 0.0 to 5.0 min; 7 quicker than 0.2 min not drawn" in read.text


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", '"><img src=x>', "a&b"])
def test_names_cannot_break_the_page(tmp_path: Path, nasty: str) -> None:
    journal = [created(nasty, nasty, 0, 2), created(nasty, "other", 2, 4, nasty, type=nasty)]
    read = page(journal, nasty, tmp_path)
    assert {"script", "img"} & set(read.tags) == set()
    assert nasty in read.text
