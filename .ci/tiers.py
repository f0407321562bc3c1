"""The tiers of CI: what each runs, which files it reads, and its maximum share of the CPU time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

ROOM: Final = 2.2
"""Sum of the `cores` of the tiers that run together, on a machine with two cores.

A little more than the cores, because no tier keeps its own busy from beginning to end: with 2.0, `jobs` ran beside
nothing for five minutes. With 2.6 `check` took 313 instead of 106 s and `embedded-account` 364 instead of 182 s.
"""

# Files that affect every tier.
_FRAME: Final = (
    ".ci/*",
    "Makefile",
    "package*.json",
    "pyproject.toml",
    "requirements.txt",
    "requirements/dev.txt",
    "requirements/rehearsal.txt",
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
    *("ray_image/requirements.txt", "requirements/jobs.txt", "config/*", "controllers/*", "packages/*", "rehearsal/*"),
    *("ray_jobs/*", "tests/jobs/*"),
    # What `ops job submit` uploads, a test lets a job fetch.
    *("ops/__init__.py", "ops/counted.py", "ops/progress.py"),
    *("ops/jobs/__init__.py", "ops/jobs/bucket.py", "ops/jobs/packing.py"),
    # `ops isolation-check` asks a head with it.
    *("ops/isolation/__init__.py", "ops/isolation/probe.py"),
    *("tests/__init__.py", "tests/conftest.py", "tests/skips.py"),
    *("tests/support/__init__.py", "tests/support/fake_kubernetes.py"),
    # A test types its command.
    "docs/operate/slurm-jobs.md",
    "tests/support/kept_lines.py",
    "tests/support/prometheus.py",
    "tests/support/slurm.py",
    *("k8s_charts/__init__.py", "k8s_charts/in_cluster/*", "k8s_charts/shared/__init__.py"),
    "k8s_charts/shared/names.py",
    *("tests/support/sampling.py", "tests/support/supervised_run.py", "tests/support/tables.py"),
    "tests/support/users_files.py",
    *("tests/support/mlflow_calls.py", "tests/support/waiting.py"),
    # A test starts an account with the role of Ray's pods.
    *("tests/environments/*", "tests/support/assumed_role.py", "tests/support/deployed_ray_role.py"),
    "tests/support/stack_roles.py",
    *("stacks/ray/roles.py", "stacks/shared/company_key.py", "stacks/shared/irsa.py"),
)

# Folders of drills (rehearsal/paths.py).
_ACCOUNT: Final = "drills/account"
_KUBERNETES: Final = "drills/kubernetes"

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
    """Number of cores that the tier keeps busy alone: CPU seconds per second."""
    files: tuple[str, ...] = ("*",)
    """Patterns of the files that can change its outcome."""
    needs: tuple[str, ...] = ("setup-programs",)
    """Targets of make that are made before any tier starts."""
    drawn_from: str | None = None
    """Group of tiers of which a run that names no tier runs only one, drawn by the seed."""
    holds: str | None = None
    """Folder that the tier locks while it runs: tiers that hold the same folder never run together."""

    def reads(self, path: str) -> bool:
        """Return whether a change of a file (relative to the repository) can change the outcome."""
        return any(fnmatchcase(path, pattern) for pattern in self.files)


# Some of the files of a folder's tests, drawn by the seed (tests/support/sampling.py). A night runs all.
_HALF: Final = " TEST_SHARE=2"
_QUARTER: Final = " TEST_SHARE=4"


def _tests(tier: str, budget: int, *, cores: float, share: str = "") -> Tier:
    return Tier(tier, f"make test TIER={tier}{share}", budget, cores, needs=("setup-policies", "setup-programs"))


def _written(example: str, budget: int) -> Tier:
    """Return the rehearsal of what `ops new` writes as a copy of an example."""
    files = (*_REHEARSED, "README.md", "tests/*", *_GUIDES)
    command = f"make test-new LIKE={example}"
    return Tier(f"rehearse-{example}", command, budget, cores=1.5, files=files, drawn_from="deployments")


def _drills(name: str, drills: str, budget: int, *, cores: float, holds: str, drawn_from: str) -> Tier:
    # The drills' figures are for these environments, not for the user's.
    command = f"make drill NAME='{drills}' RAYHP_ENVIRONMENTS=tests/environments"
    files = (*_REHEARSED, "tests/environments/*")
    return Tier(name, command, budget, cores, files=files, drawn_from=drawn_from, holds=holds)


TIERS: Final = (
    # In seconds: what is wrong with the form of a change ends the run at once.
    Tier("check", "make check", budget=15, cores=0.6),
    # Then in the order that ends first, by a simulation with the seconds of each: what fills the machine with what fits
    # beside it, and in the end what waits. Those with Ray in pods take more of a core than they compute, because they
    # start processes in bursts: a control plane that gets too little beside them misses heartbeats.
    _tests("synth", budget=25, cores=1.5, share=_HALF),
    replace(
        _tests("embedded-account", budget=25, cores=1.5, share=_QUARTER),
        files=(*_FRAME, "packages/embedded-account/*", "tests/tiers.py"),
    ),
    # The tier `readme`, which always runs, deploys, changes and destroys what `ops new` writes from its template.
    Tier("rehearse-dev", "make rehearse", budget=20, cores=1.5, files=_REHEARSED, drawn_from="deployments"),
    # The whole rehearsal, isolated: it also proves what `make rehearse ENV=prod` would prove.
    Tier(
        "rehearse-prod",
        "make test-isolation ENV=prod",
        budget=25,
        cores=1.5,
        files=(*_REHEARSED, "tests/*"),
        drawn_from="deployments",
    ),
    _written("closed", budget=25),
    _written("existing-vpc", budget=25),
    _written("existing-eks", budget=25),
    _written("slurm", budget=25),
    _tests("handlers", budget=10, cores=1.4),
    Tier("readme", "make test-readme", budget=30, cores=0.7, files=(*_REHEARSED, "README.md", "tests/*", *_GUIDES)),
    _tests("charts", budget=10, cores=1.1),
    Tier(
        "rehearse-job",
        "make rehearse-job",
        budget=35,
        cores=0.9,
        files=(*_REHEARSED, "requirements/jobs.txt"),
        needs=("setup-jobs", "setup-programs"),
        drawn_from="deployments",
    ),
    Tier(
        "rehearse-kept-jobs",
        "make test-kept-jobs",
        budget=35,
        cores=0.9,
        files=(*_REHEARSED, "requirements/jobs.txt", "tests/*", *_GUIDES),
        needs=("setup-jobs", "setup-programs"),
        drawn_from="deployments",
    ),
    _drills(
        "drills-nodes",
        "node-dies head-node-dies node-replaced",
        budget=25,
        cores=0.2,
        holds=_KUBERNETES,
        drawn_from="deployments",
    ),
    _drills(
        "drills-workers",
        "worker-fails head-lost workers-scaled",
        budget=25,
        cores=0.9,
        holds=_KUBERNETES,
        drawn_from="deployments",
    ),
    _drills("drills-creation", "create-fails capacity", budget=25, cores=0.5, holds=_ACCOUNT, drawn_from="deployments"),
    _drills("drills-scaling", "scale-down pause", budget=25, cores=0.5, holds=_ACCOUNT, drawn_from="deployments"),
    _drills("drills-ray", "head-node-alone removals", budget=25, cores=0.5, holds=_ACCOUNT, drawn_from="deployments"),
    _drills(
        "drills-control-plane",
        "operator-down api-server-restarts",
        budget=25,
        cores=0.3,
        holds=_KUBERNETES,
        drawn_from="deployments",
    ),
    Tier(
        "drills-operator",
        "make test-operator",
        # A first run builds the operator: 130 to 170 s of a core.
        budget=25,
        cores=0.5,
        files=(*_REHEARSED, "tests/environments/*"),
        drawn_from="deployments",
        holds=_KUBERNETES,
    ),
    Tier(
        "jobs-set",
        "make test-set",
        # A first run installs the other Ray: seconds, because only what the tests import is compiled.
        budget=25,
        cores=1,
        files=(*_FRAME, *_JOBS, "ray_image/*", "requirements/jobs*"),
        needs=("setup",),
        drawn_from="deployments",
    ),
    Tier("jobs", f"make test-jobs{_QUARTER}", budget=25, cores=1, files=(*_FRAME, *_JOBS), needs=("setup-jobs",)),
    _tests("unit", budget=25, cores=0.9, share=_HALF),
    _tests("rehearsal", budget=30, cores=1.2, share=_QUARTER),
)


def drawn(tiers: Sequence[Tier], seed: int) -> list[Tier]:
    """Return the tiers with only one of each group, drawn by the seed."""
    taken: dict[str | None, Tier] = {}
    for group in dict.fromkeys(tier.drawn_from for tier in tiers if tier.drawn_from):
        members = [tier for tier in tiers if tier.drawn_from == group]
        # A generator for each group: a change of one group leaves the others' draws as they were.
        taken[group] = random.Random(f"{seed} {group}").choice(members)  # noqa: S311 (a sample, no secret)
    return [tier for tier in tiers if taken.get(tier.drawn_from, tier) == tier]
