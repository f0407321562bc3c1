"""Run the tests that a change needs (`make test`), or all tests (`make test ALL=1`).

The product's tests always run. All tests of tests/rehearsal run when the rehearsal changed; when only the product
changed, those run that prove a part of it (`pytest.mark.product`). A path that no list below names runs everything.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
PRODUCT_TIERS: Final = ("unit", "charts", "handlers", "synth")
REHEARSAL: Final = "rehearsal"
TIERS: Final = (*PRODUCT_TIERS, REHEARSAL)

# The product: a change of these paths runs the tests of tests/rehearsal that are marked `product`.
PRODUCT: Final = (
    *("app.py", "cdk.json", "config/", "controllers/", "handlers/", "k8s_charts/"),
    *("lifecycle_scripts/", "ops/", "ray_image/", "ray_jobs/", "stacks/"),
    # Helpers that tests of the rehearsal import.
    *("tests/charts/support/facts.py", "tests/charts/support/ray_clusters.py", "tests/environments/"),
    *("tests/support/fake_ray.py", "tests/synth/support/synthesis.py"),
)
# Paths that no test of tests/rehearsal reads.
APART: Final = (
    *(".ci/", ".devcontainer/", ".github/", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("LICENSE", "README.md", "SECURITY.md", "bench/", "docs/", "requirements/jobs.txt", "requirements/lock.sh"),
    # The user's files.
    *("environments/", "manifests/"),
    *("tests/charts/", "tests/handlers/", "tests/jobs/", "tests/synth/", "tests/unit/"),
)


class Scope(StrEnum):
    """Which tests of tests/rehearsal run."""

    NONE = "none"
    PRODUCT = "product"
    ALL = "all"


def scope_of(changed: Iterable[str]) -> Scope:
    """Return which tests of tests/rehearsal must run after a change of these paths of the repository."""
    wanted = Scope.NONE
    for path in changed:
        if path.startswith(PRODUCT):
            wanted = Scope.PRODUCT
        elif not path.startswith(APART):
            return Scope.ALL
    return wanted


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
    """Return which tests of tests/rehearsal run, and a sentence that gives the reason."""
    found = changed_paths()
    if found is None:
        return Scope.ALL, "There is no main branch to compare with: every test runs."
    base, changed = found
    scope = scope_of(changed)
    since = f"since {base[:12]}, where this branch left main"
    if scope is Scope.ALL:
        return scope, f"The rehearsal, or what it is built from, changed {since}: every test runs."
    if scope is Scope.PRODUCT:
        return scope, (
            f"Only the product changed {since}: of tests/rehearsal, those run that prove a part of it.\n"
            "Skipped: the tests of the rehearsal itself. To run them too: make test ALL=1"
        )
    return scope, (
        f"Neither the product nor the rehearsal changed {since}.\n"
        "Skipped: tests/rehearsal. To run it too: make test ALL=1"
    )


def run(tiers: Sequence[str], *options: str) -> bool:
    """Run tiers in one pytest run; return whether all tests passed."""
    print(f"\n== {', '.join(f'tests/{tier}' for tier in tiers)}", flush=True)
    # The rehearsal's tests spend half of their time waiting: a third worker uses the idle processor time.
    workers = 3 if REHEARSAL in tiers else 2
    parallel = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
    argv = [sys.executable, "-m", "pytest", "-q", *parallel, *options, *(f"tests/{tier}" for tier in tiers)]
    return subprocess.run(argv, cwd=REPOSITORY, check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run the tests that the arguments select; return the exit code."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every tier, whatever changed")
    parser.add_argument("--tier", choices=TIERS, help="one tier, whole")
    parser.add_argument("--durations", action="store_true", help="show the 30 slowest tests")
    asked = parser.parse_args(arguments)
    options = ["--durations=30", "--durations-min=0"] if asked.durations else []
    started = time.monotonic()
    passed = _run_asked(asked, options)
    print(f"tests: {time.monotonic() - started:.0f} s", flush=True)
    return 0 if passed else 1


def _run_asked(asked: argparse.Namespace, options: Sequence[str]) -> bool:
    if asked.tier:
        return run([asked.tier], *options)
    scope, reason = (Scope.ALL, "Every test runs.") if asked.all else choose()
    print(reason, flush=True)
    if scope is Scope.ALL:
        return run(TIERS, *options)
    passed = run(PRODUCT_TIERS, *options)
    if scope is Scope.PRODUCT:
        passed = run([REHEARSAL], *options, "-m", "product and not readme and not long") and passed
    print(reason, flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
