"""Run the jobs' tests and the job's rehearsal with each set of versions, and write the page of what ran."""

import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from config.facts import versions
from embedded_account.kubernetes.building import binaries
from embedded_account.machine.processes import ProcessError
from ops.environment.supported import components
from rehearsal.paths import REPOSITORY
from rehearsal.versions import DATE, FAILED, NOT_RUN, PASSED, Table, read, shown

PAGE: Final = REPOSITORY / "docs" / "reference" / "ray-tests.md"
JOBS: Final = "make test-jobs"
REHEARSAL: Final = "make rehearse-job"
ROWS: Final = (DATE, JOBS, REHEARSAL)
# What runs in each: the others are a resolver's, or nobody's.
RAN_IN: Final = {"Ray": JOBS, "CPython": JOBS, "PyTorch": JOBS, "KubeRay": REHEARSAL}
_COUNT: Final = re.compile(r"\d+ (?:passed|skipped)")

# What the image's lock can break first: its imports, and trainings on real Ray, of which the seed draws two.
SAMPLE: Final = ("test_image.py", "test_failures.py")

Make = Callable[..., tuple[int, str]]
"""Runs a target of make with a set of versions, and further words of the command line."""


def prove(chosen: Sequence[str], make: Make, show: Callable[[str], None]) -> int:
    """Run everything with these sets, all by default; write the page; return the exit code (0: all succeeded).

    The page keeps the results of the other sets. Raises ProcessError for an unknown set.
    """
    chosen = chosen or tuple(versions.SETS)
    if unknown := [name for name in chosen if name not in versions.SETS]:
        raise ProcessError(
            f"NAME: {' '.join(unknown)} is invalid: no set of versions has this name. "
            f"Allowed: {', '.join(versions.SETS)}. Fix: choose one of them"
        )
    failed = []
    for name in chosen:
        results = {DATE: datetime.now(UTC).date().isoformat()}
        for row in (JOBS, REHEARSAL):
            began = time.monotonic()
            code, output = make(row.removeprefix("make "), name)
            results[row] = result(code, output, time.monotonic() - began)
            # Read again: another set may have run meanwhile.
            known = read(PAGE.read_text() if PAGE.exists() else "", ROWS)
            PAGE.write_text(page({**known, name: results}))
        failed += [f"{row} ROW={name}" for row in (JOBS, REHEARSAL) if results[row] == FAILED]
    show(f"failed: {', '.join(failed)}" if failed else "all succeeded")
    return int(bool(failed))


def sample(seed: int, make: Make, show: Callable[[str], None]) -> int:
    """Run a few tests of jobs with a set that is not the default, chosen by the seed; return the exit code."""
    others = [name for name in versions.SETS if name != versions.SET_DEFAULT]
    name = random.Random(f"{seed} set").choice(others)  # noqa: S311 - a sample, no secret
    show(f"{name}, chosen by the seed {seed}: Ray {versions.SETS[name].ray}")
    code, _ = make("test-jobs", name, f"NAME={' '.join(SAMPLE)}")
    return code


def result(code: int, output: str, seconds: float) -> str:
    """Return what a target of make ended with, and how many tests passed and were skipped, if it ran tests."""
    if code:
        return FAILED
    # pytest's summary is its last line.
    counts = _COUNT.findall(output.strip().rpartition("\n")[2])
    return f"{', '.join(counts) or PASSED} in {seconds:.0f} s"


def page(table: Table) -> str:
    """Return the page of the results."""
    columns = {name: each for name, each in versions.SETS.items() if name in table}
    found = {name: proven(each, table[name]) for name, each in columns.items()}
    rows = {DATE: [table[name].get(DATE, NOT_RUN) for name in columns]}
    rows |= {component: [found[name][component] for name in columns] for component in next(iter(found.values()))}
    rows |= {f"`{row}`": [table[name].get(row, NOT_RUN) for name in columns] for row in (JOBS, REHEARSAL)}
    lines = [
        "# Sets of versions: what ran",
        "",
        "`make test-sets` writes this page; `make test-sets NAME=current` runs one",
        "[set of versions](versions.md#sets-of-versions), on two cores without a GPU.",
        "",
        "- `make test-jobs` compares trainings that fail and resume with undisturbed ones, on the Ray and the PyTorch",
        "  of the set's lock. The commit's seed draws the samples; what needs root, a GPU or Slurm is left out.",
        "- In `make rehearse-job` a job on KubeRay survives an upgrade of the controllers and the loss of a node, and",
        "  Ray's autoscaler starts the workers of a RayJob. Where KubeRay makes tokens, the heads want one.",
        "",
        "A component *ran* if these succeeded with it. A resolver *resolved* another for the image's platform, or it",
        "is *unverified*.",
        "",
        f"| | {' | '.join(f'`{name}`' for name in columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(f"| {row} | {' | '.join(cells)} |" for row, cells in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def proven(version_set: versions.VersionSet, results: Mapping[str, str]) -> dict[str, str]:
    """Map each component of a set to its version, and how these results proved it."""
    return {
        name: f"{version}, {_proof(name, version_set, results)}" for name, version in components(version_set).items()
    }


def _proof(component: str, version_set: versions.VersionSet, results: Mapping[str, str]) -> str:
    if (row := RAN_IN.get(component)) is None:
        return version_set.proof[component]
    if (found := results.get(row, NOT_RUN)) in (FAILED, NOT_RUN):
        return found
    module = binaries.kuberay_version(version_set.kuberay).removeprefix("v") if component == "KubeRay" else ""
    return "ran" if module in ("", version_set.kuberay) else f"ran as {module}"


def make_here(target: str, name: str, *words: str) -> tuple[int, str]:
    """Run a target of make with a set of versions; show and return its output."""
    return shown(["make", "--no-print-directory", target, f"ROW={name}", *words], os.environ)
