"""The drawing for a terminal."""

from rich.console import Console

from ops.review.model import ComparedRow, Effect, EnvironmentVerdict
from ops.review.report import terminal
from tests.unit.ops.review.report.verdicts import change, everything, verdict


def lines_of(*environments: EnvironmentVerdict) -> list[str]:
    console = Console(width=400, color_system=None)
    with console.capture() as captured:
        console.print(terminal.draw(verdict(*environments, notes=("stale",))))
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def test_table_comes_first_and_marks_what_the_gate_stops() -> None:
    lines = lines_of(everything("prod"))
    assert lines[0].endswith("Jobs may end. 1 change needs an approval.")
    first = lines.index("environment change what happens who does what, when")
    assert "Data: lost: file system (prod)." in lines[:first]
    assert lines[first + 1].startswith("prod cost of all changes together not shown: the deployment fails")
    assert any("file system: throughput 250 → 500 MB/s per TiB NEEDS AN APPROVAL: data lost" in line for line in lines)
    assert 'resource: "AWS::FSx::FileSystem FileSystem"' in lines
    assert "worker-group-1 ml.g5.8xlarge 4 → 5" in lines
    assert lines[-1] == "1 difference: show it with --format markdown, or --out review.html"


def test_narrow_terminal_cuts_nothing() -> None:
    devices = "8 nvidia.com/gpu, 32 vpc.amazonaws.com/efa"
    row = ComparedRow("gpu-group", {"devices": devices, "image": "a" * 64}, {"devices": devices, "image": "b" * 64})
    console = Console(width=60, color_system=None)
    with console.capture() as captured:
        console.print(terminal.draw(verdict(EnvironmentVerdict("dev", (), ray_clusters=(row,)))))
    assert "…" not in captured.get()


def test_texts_neither_style_nor_steer_the_terminal() -> None:
    lines = lines_of(EnvironmentVerdict("dev", (change("[bold]x[/]", "\x1b[31m a \x07", Effect.IN_PLACE),)))
    assert any(r"[bold]x[/]: \u001b[31m a \u0007" in line for line in lines)
    assert not any("\x1b" in line or "\x07" in line for line in lines)
