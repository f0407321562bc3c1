"""`make bench`: synth of dev against a minimal app, per environment and group; `ops check`; the last rehearsals."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from config import charts_lock
from rehearsal import stand_ins
from rehearsal.kubernetes import binaries
from rehearsal.paths import BINARIES, REPOSITORY
from rehearsal.story import report

SYNTH_PARTS: Final = (
    *("app.py", "cdk.json", "config", "controllers", "environments", "handlers"),
    *("k8s_charts", "lifecycle_scripts", "ray_image", "stacks"),
)
EXTRA_GROUPS: Final = 10
MINIMAL: Final = "minimal VPC + EKS app"
MORE_GROUPS: Final = f"dev with {EXTRA_GROUPS} more instance groups"

console = Console(highlight=False)


def main(rounds: int = 5) -> None:
    """Measure each command ROUNDS times in turn after one warm-up."""
    table = Table("command", "median s", "ratio to minimal", box=None, pad_edge=False)
    with tempfile.TemporaryDirectory() as scratch:
        commands = _commands(Path(scratch))
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round_ in range(rounds + 1):
            for name, command in commands.items():
                seconds = command.seconds()
                if round_:
                    times[name].append(seconds)
    yardstick = times[MINIMAL]
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, yardstick, strict=True))
        table.add_row(name, f"{statistics.median(measured):.2f}", f"{ratio:.2f}")
    console.print(table)
    median = {name: statistics.median(measured) for name, measured in times.items()}
    per_group = (median[MORE_GROUPS] - median["dev"]) / EXTRA_GROUPS
    console.print(f"each added environment is a synthesis of its own: {median['prod'] / median['dev']:.2f} of dev's")
    console.print(f"each added instance group: {per_group / median['dev']:.1%} of dev's")
    _check(4 * rounds)
    _rehearsal()


def _check(rounds: int) -> None:
    """What one runs after each edit, against a Python that has pydantic and one model; both find their bytecode."""
    model = "import pydantic; type('Model', (pydantic.BaseModel,), {})"
    times: dict[str, list[float]] = {"model": [], "check": []}
    with tempfile.TemporaryDirectory() as bytecode:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = bytecode
        for round_ in range(rounds + 1):
            for name, argv in (("model", ["-c", model]), ("check", ["-m", "ops", "check", "--env", "dev"])):
                started = time.monotonic()
                subprocess.run([sys.executable, *argv], cwd=REPOSITORY, env=env, check=True, stdout=subprocess.DEVNULL)
                if round_:
                    times[name].append(time.monotonic() - started)
    ratio = statistics.median(a / b for a, b in zip(times["check"], times["model"], strict=True))
    seconds = statistics.median(times["check"])
    console.print(f"ops check --env dev: {seconds:.2f} s, {ratio:.2f} of starting Python with one pydantic model")


@dataclass(frozen=True)
class _Synth:
    """One synthesis: an app's file, the folder it runs in, and its context."""

    app: Path
    directory: Path
    context: Mapping[str, str] = field(default_factory=dict)

    def seconds(self) -> float:
        context = json.loads((self.directory / "cdk.json").read_text())["context"] | dict(self.context)
        with tempfile.TemporaryDirectory() as out:
            env = os.environ | {
                "CDK_OUTDIR": out,
                "CDK_CONTEXT_JSON": json.dumps(context),
                "PYTHONPATH": str(self.directory),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            started = time.monotonic()
            argv = [sys.executable, str(self.app)]
            subprocess.run(argv, cwd=self.directory, env=env, check=True, stdout=subprocess.DEVNULL)
            return time.monotonic() - started


def _commands(scratch: Path) -> dict[str, _Synth]:
    context = {} if charts_lock.all_cached() else _stand_ins(scratch / "charts")
    more = _with_more_groups(scratch / "more-groups")

    def synth(environment: str, directory: Path = REPOSITORY) -> _Synth:
        return _Synth(directory / "app.py", directory, {"environment": environment, **context})

    return {
        MINIMAL: _Synth(REPOSITORY / "bench" / "minimal_app.py", REPOSITORY),
        "dev": synth("dev"),
        "prod": synth("prod"),
        MORE_GROUPS: synth("dev", more),
    }


def _stand_ins(directory: Path) -> dict[str, str]:
    """Stand-in charts for a machine that has not fetched the publishers'; the context that names them."""
    stand_ins.build(directory, binaries.ensure(BINARIES, console.print))
    return {"charts": "stand-in", "stand-in-charts": str(directory)}


def _with_more_groups(directory: Path) -> Path:
    """Copy what synthesis reads and give dev more instance groups."""
    directory.mkdir()
    for part in SYNTH_PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, directory / part)
    file = directory / "environments" / "dev.yaml"
    document = YAML().load(file)
    groups = document["hyperpod"]["instance_groups"]
    groups += [dict(groups[-1], name=f"extra-{number}") for number in range(EXTRA_GROUPS)]
    YAML().dump(document, file)
    return directory


def _rehearsal() -> None:
    """Where the time of each environment's last rehearsal went, then its steps."""
    files = sorted((REPOSITORY / ".rehearsal").glob(f"*/{report.NAME}"))
    if not files:
        return
    last = {file.parent.name: report.read(file) for file in files}
    console.print(_seconds("last rehearsals: where the time went", {name: each.parts for name, each in last.items()}))
    console.print(_seconds("last rehearsals: steps", {name: each.by_step() for name, each in last.items()}))


def _seconds(title: str, columns: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each key, and their sum."""
    table = Table("seconds", title=title, box=None, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    for row in dict.fromkeys(key for column in columns.values() for key in column):
        table.add_row(row, *(f"{column[row]:.1f}" if row in column else "" for column in columns.values()))
    table.add_row("[bold]together[/]", *(f"[bold]{sum(column.values()):.1f}[/]" for column in columns.values()))
    return table


if __name__ == "__main__":
    typer.run(main)
