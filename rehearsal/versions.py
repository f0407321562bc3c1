"""Run the rehearsal and the drills with each KubeRay that can be chosen, and write the page of their results."""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from config.facts import versions
from config.load import DIRECTORY_VARIABLE
from embedded_account.kubernetes.building import binaries
from rehearsal.paths import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "reference" / "kuberay-drills.md"
ENVIRONMENTS: Final = REPOSITORY / "tests" / "environments"
NOT_RUN: Final = "not run"
FAILED: Final = "failed"
PASSED: Final = "passed"
DATE: Final = "run on"
REHEARSAL: Final = "rehearsal"
# In one call each, because the drills of one context share it.
DRILLS: Final = (
    (
        *("node-dies", "head-node-dies", "node-replaced", "worker-fails", "head-lost", "workers-scaled"),
        *("operator-down", "api-server-restarts"),
    ),
    ("scale-down", "pause", "head-node-alone", "removals"),
)
# Of those on a control plane of their own: what the reaper and an operator do together, without the five minutes in
# which stock KubeRay replaces nothing.
SAMPLE: Final = ("node-replaced", "worker-fails", "head-lost")
ROWS: Final = (REHEARSAL, *(drill for call in DRILLS for drill in call))
_VERDICT: Final = re.compile(r"^(✔ promise kept|✘ promise broken) (\S+) in \d+ s", re.MULTILINE)
# A row of the drills' summary: the drill and its part, the promise, the time here, the time of stock KubeRay.
_TIMES: Final = re.compile(
    r"^ (\S+)(?: \S+)*? +\d+ s +(\d+\.\d s)  .*?((?:\d+\.\d|not after \d+) s)[^;\n]*$", re.MULTILINE
)
_VERSION: Final = re.compile(r"(?m)^(kuberay:\n  version: )\S+$")

Table = Mapping[str, Mapping[str, str]]
"""Version → row → result."""
Run = Callable[[Sequence[str], Path], tuple[int, str]]


def prove(chosen: Sequence[str], run: Run, show: Callable[[str], None]) -> int:
    """Run everything with these versions, all by default; write the page; return the exit code (0: all succeeded).

    The page keeps the results of the other versions. Raises BinariesError for a version without a module.
    """
    chosen = chosen or tuple(versions.KUBERAY_VERSIONS)
    modules = {version: binaries.kuberay_version(version) for version in chosen}
    table = {version: dict(results) for version, results in read(PAGE.read_text() if PAGE.exists() else "").items()}
    for version, module in modules.items():
        show(f"KubeRay {version}: the operator of module {module}")
        table[version] = results(version, run)
        PAGE.write_text(page(table))
    wrong = {version: [row for row in ROWS if table[version][row].startswith((FAILED, NOT_RUN))] for version in chosen}
    for version, rows in wrong.items():
        show(f"KubeRay {version}: {', '.join(rows) + ' did not succeed' if rows else 'all succeeded'}")
    return int(any(wrong.values()))


def sample(seed: int, run: Run, show: Callable[[str], None]) -> int:
    """Run a few drills with a KubeRay that is not the default, chosen by the seed; return the exit code."""
    others = [version for version in versions.KUBERAY_VERSIONS if version != versions.KUBERAY]
    version = random.Random(f"{seed} KubeRay").choice(others)  # noqa: S311 - a sample, no secret
    show(f"KubeRay {version}, chosen by the seed {seed}: the operator of module {binaries.kuberay_version(version)}")
    with _with_kuberay(version) as environments:
        code, _ = run(["drill", *SAMPLE, "--env", "dev"], environments)
    return code


def results(version: str, run: Run) -> dict[str, str]:
    """Return what rehearsal and drills of `dev` with this KubeRay ended with, by row of the page."""
    found = {DATE: datetime.now(UTC).date().isoformat(), **dict.fromkeys(ROWS, NOT_RUN)}
    with _with_kuberay(version) as environments:
        code, _ = run(["run", "--env", "dev"], environments)
        found[REHEARSAL] = FAILED if code else PASSED
        for call in DRILLS:
            _, output = run(["drill", *call, "--env", "dev"], environments)
            found |= drilled(output)
    return found


@contextmanager
def _with_kuberay(version: str) -> Iterator[Path]:
    """Yield a folder of environments in which `dev` has this KubeRay."""
    with tempfile.TemporaryDirectory() as directory:
        environments = Path(directory) / "environments"
        shutil.copytree(ENVIRONMENTS, environments)
        file = environments / "dev.yaml"
        file.write_text(_VERSION.sub(rf"\g<1>{version}", file.read_text()))
        yield environments


def drilled(output: str) -> dict[str, str]:
    """Return the results that drills printed, with the seconds until their RayClusters were complete."""
    times: dict[str, list[str]] = {}
    for drill, here, stock in _TIMES.findall(output):
        times.setdefault(drill, []).append(f"{here}, stock {stock}")
    return {
        drill: "; ".join(times.get(drill, [PASSED])) if verdict.endswith("kept") else FAILED
        for verdict, drill in _VERDICT.findall(output)
    }


def page(table: Table) -> str:
    """Return the page of the results."""
    columns = [version for version in versions.KUBERAY_VERSIONS if version in table]
    lines = [
        "# KubeRay's versions: rehearsal and drills",
        "",
        "`make test-versions` writes this page; `make test-versions NAME=1.6.2` runs one version. Each column is the",
        "operator of that version, built from its Go module, with the project's `dev`. Seconds are those until a",
        "RayCluster was complete again, beside a stock RayCluster without this project's reaper and tolerations;",
        "[recovery](../explain/recovery.md#drills-prove-it) says what each drill promises.",
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
        f"| module | {' | '.join(binaries.kuberay_version(version) for version in columns)} |",
        *(
            f"| {row} | {' | '.join(table[version].get(row, NOT_RUN) for version in columns)} |"
            for row in (DATE, *ROWS)
        ),
    ]
    return "\n".join(lines) + "\n"


def read(text: str, names: Sequence[str] = (DATE, *ROWS)) -> Table:
    """Return the results of a page: its rows with these names, by column."""
    rows = [
        [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    if not rows:
        return {}
    columns = rows[0][1:]
    known = [row for row in rows if row[0] in names]
    return {version: {row[0]: row[number] for row in known} for number, version in enumerate(columns, start=1)}


def run_here(arguments: Sequence[str], environments: Path) -> tuple[int, str]:
    """Run a command of the rehearsal with this folder of environments; show and return its output."""
    env = os.environ | {DIRECTORY_VARIABLE: str(environments), "COLUMNS": "160"}
    return shown([sys.executable, "-m", "rehearsal", *arguments], env)


def shown(argv: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command in the repository; show and return its output."""
    with subprocess.Popen(argv, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout  # noqa: S101 - a pipe
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)
