"""`make bench`: synth of dev against a minimal app, per environment, per instance group; the last rehearsal by step."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SYNTH_PARTS: Final = (
    "app.py", "cdk.json", "config", "environments", "handlers", "k8s_charts", "lifecycle_scripts", "ray_image", "stacks",
)  # fmt: skip
EXTRA_GROUPS: Final = 10

console = Console(highlight=False)


def main(rounds: int = 5, charts: str = "") -> None:
    """Measure each command ROUNDS times in turn after one warm-up. CHARTS: folder of stand-in charts, if not cached."""
    table = Table("command", "median s", "ratio to minimal", box=None, pad_edge=False)
    with tempfile.TemporaryDirectory() as scratch:
        commands = _commands(Path(scratch), charts)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round_ in range(rounds + 1):
            for name, (argv, directory) in commands.items():
                seconds = _seconds(argv, directory)
                if round_:
                    times[name].append(seconds)
    yardstick = times["minimal VPC + EKS app"]
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, yardstick, strict=True))
        table.add_row(name, f"{statistics.median(measured):.2f}", f"{ratio:.2f}")
    console.print(table)
    median = {name: statistics.median(measured) for name, measured in times.items()}
    per_group = (median["dev with 10 more instance groups"] - median["dev"]) / EXTRA_GROUPS
    console.print(f"each added environment is a synthesis of its own: {median['prod'] / median['dev']:.2f} of dev's")
    console.print(f"each added instance group: {per_group / median['dev']:.1%} of dev's")
    _rehearsal()


def _commands(scratch: Path, charts: str) -> dict[str, tuple[Sequence[str], Path]]:
    more = scratch / "more-groups"
    for part in SYNTH_PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, more / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            more.mkdir(exist_ok=True)
            shutil.copy2(source, more / part)
    file = more / "environments" / "dev.yaml"
    document = YAML().load(file)
    group = document["hyperpod"]["instance_groups"][-1]
    document["hyperpod"]["instance_groups"] += [dict(group, name=f"extra-{n}") for n in range(EXTRA_GROUPS)]
    YAML().dump(document, file)

    def synth(environment: str, directory: Path) -> tuple[Sequence[str], Path]:
        context = {"environment": environment}
        if charts:
            context |= {"charts": "stand-in", "stand-in-charts": charts}
        code = f"import os, runpy; os.environ['CDK_CONTEXT_JSON'] = {json.dumps(json.dumps(context))}"
        code += "; import json; c = json.load(open('cdk.json'))['context']; c.update(json.loads(os.environ"
        code += "['CDK_CONTEXT_JSON'])); os.environ['CDK_CONTEXT_JSON'] = json.dumps(c); runpy.run_path('app.py')"
        return [sys.executable, "-c", code], directory

    return {
        "minimal VPC + EKS app": ([sys.executable, str(REPOSITORY / "bench" / "minimal_app.py")], REPOSITORY),
        "dev": synth("dev", REPOSITORY),
        "prod": synth("prod", REPOSITORY),
        "dev with 10 more instance groups": synth("dev", more),
    }


def _seconds(argv: Sequence[str], directory: Path) -> float:
    with tempfile.TemporaryDirectory() as out:
        env = os.environ | {"CDK_OUTDIR": out, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
        started = time.monotonic()
        subprocess.run(argv, cwd=directory, env=env, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - started


def _rehearsal() -> None:
    for report in sorted((REPOSITORY / ".rehearsal").glob("*/report.json")):
        table = Table("step", "s", title=f"last rehearsal of {report.parent.name}", box=None, title_justify="left")
        steps = json.loads(report.read_text())
        for step in steps:
            table.add_row(step["title"], f"{step['seconds']:.1f}")
        table.add_row("[bold]together[/]", f"[bold]{sum(step['seconds'] for step in steps):.1f}[/]")
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
