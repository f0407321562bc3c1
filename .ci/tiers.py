"""The tiers of CI: what each runs, which files it reads, and its maximum share of the CPU time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

ROOM: Final = 2.0
"""Sum of the `cores` of the tiers that run together, on a machine with two cores.

Not more, although no tier keeps its cores busy from beginning to end: with a sum of three, `unit` took 266 CPU seconds
instead of 188 and `charts` 121 instead of 83, and the whole was not faster.
"""

# Files that affect every tier.
_FRAME: Final = (
    ".ci/*",
    "Makefile",
    "package*.json",
    "pyproject.toml",
    "requirements/dev.txt",
    "requirements/setup.txt",
    "setup.sh",
)
# The rehearsal, and the files that it copies and deploys (rehearsal/run/project.py).
_REHEARSED: Final = (
    *_FRAME,
    *("app.py", "cdk.json", "config/*", "controllers/*", "environments/*", "handlers/*", "k8s_charts/*"),
    *("lifecycle_scripts/*", "ops/*", "ray_image/*", "packages/*", "ray_jobs/*", "rehearsal/*", "stacks/*"),
)
# Files that the jobs' tests import or start.
_JOBS: Final = (
    *("requirements/jobs.txt", "config/*", "controllers/*", "packages/*", "rehearsal/*", "ray_jobs/*", "tests/jobs/*"),
    *("tests/__init__.py", "tests/conftest.py", "tests/support/__init__.py", "tests/support/fake_kubernetes.py"),
    "tests/support/kept_lines.py",
    "tests/support/prometheus.py",
    "tests/support/slurm.py",
    *("k8s_charts/__init__.py", "k8s_charts/observability/*", "k8s_charts/shared/__init__.py"),
    "k8s_charts/shared/names.py",
    *("tests/support/sampling.py", "tests/support/supervised_run.py", "tests/support/users_files.py"),
    "tests/support/waiting.py",
)


# Pages whose commands a tier types (tests/rehearsal/run/readme.py).
_GUIDES: Final = ("docs/getting-started.md", "docs/operate/*")


@dataclass(frozen=True)
class Tier:
    """One command of CI, as a person types it."""

    name: str
    command: str
    budget: int
    """Maximum share of the CPU time of all tiers, in per cent."""
    cores: float
    """Number of cores that the tier keeps busy, rounded to halves."""
    files: tuple[str, ...] = ("*",)
    """Patterns of the files that can change its outcome."""
    needs: tuple[str, ...] = ("setup-programs",)
    """Targets of make that are made before any tier starts."""
    sampled: bool = False
    """Whether the tier is one of those of which a run that names no tier runs only one, drawn by the seed."""

    def reads(self, path: str) -> bool:
        """Return whether a change of a file (relative to the repository) can change the outcome."""
        return any(fnmatchcase(path, pattern) for pattern in self.files)


def _tests(tier: str, budget: int) -> Tier:
    return Tier(tier, f"make test TIER={tier}", budget, cores=1.5, needs=("setup-policies", "setup-programs"))


def _rehearsal(environment: str, budget: int, *, cores: float = 1, sampled: bool = False) -> Tier:
    command = "make rehearse" if environment == "dev" else f"make rehearse ENV={environment} KILLS=3"
    return Tier(f"rehearse-{environment}", command, budget, cores, files=_REHEARSED, sampled=sampled)


def _drills(name: str, drills: str, budget: int) -> Tier:
    # The drills' figures are for these environments, not for the user's.
    command = f"make drill NAME='{drills}' RAYHP_ENVIRONMENTS=tests/environments"
    return Tier(name, command, budget, cores=0.5, files=(*_REHEARSED, "tests/environments/*"))


TIERS: Final = (
    # Cheapest first, because no tier starts after a failure.
    Tier("check", "make check", budget=8, cores=1),
    _tests("unit", budget=10),
    _tests("charts", budget=10),
    _tests("handlers", budget=10),
    _tests("synth", budget=15),
    _tests("rehearsal", budget=30),
    replace(_tests("embedded-account", budget=25), files=(*_FRAME, "packages/embedded-account/*", "tests/tiers.py")),
    # From here on tiers that mostly wait: they run beside those above, the longest first.
    Tier("jobs", "make test-jobs", budget=25, cores=0.5, files=(*_FRAME, *_JOBS), needs=("setup-jobs",)),
    Tier(
        "rehearse-job",
        "make rehearse-job",
        budget=15,
        cores=0.5,
        files=(*_REHEARSED, "requirements/jobs.txt"),
        needs=("setup-jobs", "setup-programs"),
    ),
    _drills("drills-account", "create-fails capacity scale-down head-node-alone removals pause", budget=20),
    _drills(
        "drills-kubernetes",
        "node-dies head-node-dies node-replaced worker-fails head-lost workers-scaled operator-down "
        "api-server-restarts",
        budget=15,
    ),
    _rehearsal("dev", budget=10, cores=0.5),
    # The whole rehearsal, isolated: it also proves what `make rehearse ENV=prod` would prove.
    Tier("rehearse-prod", "make test-isolation ENV=prod", budget=15, cores=1, files=(*_REHEARSED, "tests/*")),
    _rehearsal("closed", budget=10, sampled=True),
    _rehearsal("existing-vpc", budget=10, sampled=True),
    _rehearsal("existing-eks", budget=10, sampled=True),
    _rehearsal("slurm", budget=10, sampled=True),
    Tier("readme", "make test-readme", budget=15, cores=1, files=(*_REHEARSED, "README.md", "tests/*", *_GUIDES)),
)


def drawn(tiers: Sequence[Tier], seed: int) -> list[Tier]:
    """Return the tiers without the sampled ones that the seed does not draw."""
    sampled = [tier for tier in tiers if tier.sampled]
    taken = random.Random(seed).sample(sampled, min(1, len(sampled)))  # noqa: S311 (a sample, no secret)
    return [tier for tier in tiers if not tier.sampled or tier in taken]
