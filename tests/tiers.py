"""Run the tests that a change needs (`make test`), or all tests (`make test ALL=1`).

The product's tests always run. All tests of tests/rehearsal run when the rehearsal changed; when only the product
changed, those run that prove a part of it (`pytest.mark.product`). The embedded account's own tests run when its
package changed. A path that no list below names runs everything.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
PRODUCT_TIERS: Final = ("unit", "charts", "handlers", "synth")
REHEARSAL: Final = "rehearsal"
WAITING: Final = frozenset({"unit", REHEARSAL})
"""Tiers whose tests spend half of their time waiting; so do the package's."""
PROJECT_TIERS: Final = (*PRODUCT_TIERS, REHEARSAL)
PACKAGE: Final = "embedded-account"
TIERS: Final = (*PROJECT_TIERS, PACKAGE)
MEMORY: Final = Path("/dev/shm")
ROOM: Final = 4 * 2**30
"""Free bytes of MEMORY from which on temporary files go there; a run of all tests needs 2.6 GB."""

# The product: a change of these paths runs the tests of tests/rehearsal that are marked `product`.
PRODUCT: Final = (
    *("app.py", "cdk.json", "config/", "controllers/", "handlers/", "k8s_charts/"),
    *("lifecycle_scripts/", "ops/", "packages/ray-resume/", "ray_image/", "ray_jobs/", "stacks/"),
    # Tests of the rehearsal type their commands.
    *(".github/workflows/", "docs/operate/slurm-jobs.md"),
    # Helpers that tests of the rehearsal import.
    *("tests/charts/support/facts.py", "tests/charts/support/ray_clusters.py", "tests/environments/"),
    *("tests/handlers/support/", "tests/support/fake_ray.py", "tests/synth/support/synthesis.py"),
)
# Paths that tests of tests/rehearsal read, but no test of the package.
REHEARSED: Final = (
    *("rehearsal/", "tests/__init__.py", "tests/conftest.py", "tests/skips.py"),
    *("tests/rehearsal/", "tests/support/"),
)
# Paths that no test of tests/rehearsal or of the package reads.
APART: Final = (
    *(".ci/", ".devcontainer/", ".github/", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("LICENSE", "README.md", "SECURITY.md", "bench/", "docs/", "requirements/jobs.txt", "requirements/lock.sh"),
    # The user's files.
    *("environments/", "manifests/"),
    *("tests/charts/", "tests/handlers/", "tests/jobs/", "tests/synth/", "tests/unit/"),
)


class Scope(IntEnum):
    """Which tests run beside the product's: each scope includes the one before."""

    NONE = 0
    PRODUCT = 1
    """Tests of tests/rehearsal that prove a part of the product."""
    REHEARSAL = 2
    """All tests of tests/rehearsal."""
    ALL = 3
    """The tests of the package, too."""


def scope_of(changed: Iterable[str]) -> Scope:
    """Return which tests must run after a change of these paths of the repository."""
    return max(map(_scope_of_one, changed), default=Scope.NONE)


def _scope_of_one(path: str) -> Scope:
    if path.startswith(PRODUCT):
        return Scope.PRODUCT
    if path.startswith(REHEARSED):
        return Scope.REHEARSAL
    return Scope.NONE if path.startswith(APART) else Scope.ALL


def changed_paths() -> tuple[str, list[str]] | None:
    """Return the commit where this branch left main, and the paths changed since, including uncommitted and new ones.

    Return None without a main branch to compare with.
    """
    for main in ("origin/main", "main"):
        base = _git("merge-base", "HEAD", main)
        if base:
            changed = _git("diff", "--name-only", "--no-renames", base[0]) or []
            return base[0], [*changed, *(_git("ls-files", "--others", "--exclude-standard") or [])]
    return None


def _git(*arguments: str) -> list[str] | None:
    """Return the lines that git prints, or None if git fails."""
    argv = ["git", "-C", str(REPOSITORY), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def choose() -> tuple[Scope, str]:
    """Return which tests run beside the product's, and a sentence that gives the reason."""
    found = changed_paths()
    if found is None:
        return Scope.ALL, "There is no main branch to compare with: every test runs."
    base, changed = found
    scope = scope_of(changed)
    since = f"since {base[:12]}, where this branch left main"
    if scope is Scope.ALL:
        return scope, f"The embedded account, or what all tests read, changed {since}: every test runs."
    if scope is Scope.REHEARSAL:
        return scope, (
            f"The rehearsal changed {since}: all tests of the project run.\n"
            "Skipped: the embedded account's own tests. To run them too: make test ALL=1"
        )
    if scope is Scope.PRODUCT:
        return scope, (
            f"Only the product changed {since}: of tests/rehearsal, those run that prove a part of it.\n"
            "Skipped: the tests of the rehearsal itself and the embedded account's. To run them too: make test ALL=1"
        )
    return scope, (
        f"Neither the product nor the rehearsal changed {since}.\n"
        "Skipped: tests/rehearsal and the embedded account's tests. To run them too: make test ALL=1"
    )


def temporary_files(memory: Path = MEMORY) -> dict[str, str]:
    """Return the variable that puts temporary files into memory, if there is room and programs may run there.

    The tests write and remove many small files. On ext4 without a journal, finding an inode for the next one takes a
    fifth of their CPU time.
    """
    if "TMPDIR" in os.environ or not memory.is_dir():
        return {}
    found = os.statvfs(memory)
    runs_programs = not found.f_flag & os.ST_NOEXEC
    return {"TMPDIR": str(memory)} if runs_programs and found.f_bavail * found.f_frsize >= ROOM else {}


def run(tiers: Sequence[str], *options: str) -> bool:
    """Run tiers in one pytest run, the package's in one of its own; return whether all tests passed."""
    package = PACKAGE in tiers
    folders = ["tests"] if package else [f"tests/{tier}" for tier in tiers]
    directory = REPOSITORY / "packages" / PACKAGE if package else REPOSITORY
    print(f"\n== {f'packages/{PACKAGE}/tests' if package else ', '.join(folders)}", flush=True)
    # More workers than cores use the time in which tests wait: all tiers together have more such tests.
    workers = 4 if tiers == PROJECT_TIERS else 3 if package or not WAITING.isdisjoint(tiers) else 2
    parallel = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
    argv = [sys.executable, "-m", "pytest", "-q", *parallel, *options, *folders]
    return subprocess.run(argv, cwd=directory, env=os.environ | temporary_files(), check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run the tests that the arguments select; return the exit code."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every tier, whatever changed")
    parser.add_argument("--tier", choices=TIERS, help="one tier, whole")
    parser.add_argument("--durations", action="store_true", help="show the 30 slowest tests")
    parser.add_argument("--cpu", action="store_true", help="show the 30 tests with the most CPU seconds")
    asked = parser.parse_args(arguments)
    options = ["--durations=30", "--durations-min=0"] if asked.durations else []
    options += ["-p", "embedded_account.testing.cpu_seconds"] if asked.cpu else []
    started = time.monotonic()
    passed = _run_asked(asked, options)
    print(f"tests: {time.monotonic() - started:.0f} s", flush=True)
    return 0 if passed else 1


def _run_asked(asked: argparse.Namespace, options: Sequence[str]) -> bool:
    if asked.tier:
        return run([asked.tier], *options)
    scope, reason = (Scope.ALL, "Every test runs.") if asked.all else choose()
    print(reason, flush=True)
    passed = run(PROJECT_TIERS if scope >= Scope.REHEARSAL else PRODUCT_TIERS, *options)
    if scope is Scope.PRODUCT:
        passed = run([REHEARSAL], *options, "-m", "product and not readme and not long") and passed
    if scope is Scope.ALL:
        passed = run([PACKAGE], *options) and passed
    print(reason, flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
