"""Drills: what each checks, how they end, and what there is. CI plays them whole (`make drill`)."""

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

import config
from rehearsal.drills import perform
from rehearsal.drills.account import capacity, create_fails
from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.drills.perform import play
from rehearsal.drills.table import DRILLS, directories
from rehearsal.drills.timeline import DrillTimeline
from rehearsal.paths import DRILLS_IN_AN_ACCOUNT, DRILLS_ON_KUBERNETES, REPOSITORY
from rehearsal.run.cdk import CommandError
from rehearsal.run.steps import RehearsalError
from rehearsal.watch import Watch

# As the CDK CLI prints them: wrapped, and followed by the framework's stack.
CHART_IS_MISSING = """\
❌  rayhp-dev-hyperpod failed to deploy
‣ DeploymentError: Resource updates failed:
  Received response status [FAILED] from custom resource. Message returned: Error: CreateCluster failed
  (ValidationException): The Amazon EKS orchestrator cluster rayhp-dev is missing one or more required dependencies.

Logs:
    at invokeUserFunction
"""
QUOTA = CHART_IS_MISSING.replace("ValidationException", "ResourceLimitExceeded")
SHORTAGE = "… instance group worker-group-1: 3 of 4 nodes; We currently do not have sufficient ml.p5.48xlarge capacity"
WAITED = f"{SHORTAGE}\nerror: dev is not ready; rerun `ops wait --env dev` to resume"
LOG_GROUP = {
    "type": "AWS::Logs::LogGroup",
    "id": "/aws/lambda/f",
    "owner": "background:f",
    "note": "its creator is gone",
}
FAILED_STACK = {"type": "AWS::CloudFormation::Stack", "id": "rayhp-dev-hyperpod", "owner": "nobody", "note": ""}
ROLE = {"type": "AWS::IAM::Role", "id": "forgotten", "owner": "nobody", "note": ""}


class FakeContext:
    """A context in which everything goes well; tests take something away."""

    REAL = SIMULATED = "nothing"

    def __init__(self) -> None:
        self.environment = config.load("dev")
        self.console = Console(file=io.StringIO(), width=200)
        self.timeline = DrillTimeline()
        self.watch = Watch()
        self.done: list[str] = []
        self.deployments = [CHART_IS_MISSING, QUOTA]
        self.inventories: list[list[dict[str, Any]]] = [[], [LOG_GROUP, FAILED_STACK], [LOG_GROUP, FAILED_STACK]]
        self.waits = [WAITED, "ready", "ready"]
        self.status = "ROLLBACK_COMPLETE"

    @property
    def printed(self) -> str:
        return cast(io.StringIO, self.console.file).getvalue()

    @contextmanager
    def step(self, title: str) -> Any:
        yield SimpleNamespace(see=self.done.append)
        self.timeline.mark(title)

    def begin(self, drill: str) -> None:
        self.timeline.mark(f"the drill begins: {drill}")

    def end(self) -> None:
        """Nothing that every drill promises."""

    def show(self) -> None:
        """No timeline."""

    def finish(self) -> None:
        self.done.append("finished")

    def set_up(self) -> None:
        self.done.append("up")

    def take_down(self) -> None:
        self.done.append("down")

    def without(self, part: str) -> None:
        self.done.append(f"without {part}")

    def deploy(self, *parts: str) -> None:
        self.done.append(f"deploy {' '.join(parts)}".strip())

    def failing_deploy(self, *_: str) -> str:
        return self.deployments.pop(0)

    def stack_events(self, *_: object) -> None:
        """Nothing for the timeline."""

    def stack_status(self, *_: str) -> str:
        return self.status

    def stack(self, part: str) -> str:
        return f"rayhp-dev-{part}"

    def inventory(self) -> list[dict[str, Any]]:
        return self.inventories.pop(0)

    def helm(self, *arguments: str) -> None:
        self.done.append(f"helm {arguments[0]}")

    def faults(self, *_: str, **faults: Any) -> None:
        self.done.append(f"faults {faults}")

    def ops(self, *arguments: str, **_: object) -> str:
        self.done.append(f"ops {' '.join(arguments[:3])}")
        return self.waits.pop(0)


@pytest.fixture
def context() -> FakeContext:
    return FakeContext()


def played(drill: Drill[DrillContext], context: FakeContext) -> bool:
    return play(drill, cast(DrillContext, context))


def test_each_drill_keeps_its_promise_where_everything_goes_well(context: FakeContext) -> None:
    assert played(create_fails.DRILL, context)
    context.status = "CREATE_COMPLETE"
    assert played(capacity.DRILL, context)
    assert context.printed.count("promise kept") == 2


def test_a_failed_creation_whose_reason_is_not_told_breaks_the_promise(context: FakeContext) -> None:
    context.deployments[0] = CHART_IS_MISSING.replace("missing one or more", "unhappy about some")
    assert not played(create_fails.DRILL, context)
    assert "promise broken" in context.printed
    assert "must say 'missing one or more required dependencies'" in context.printed


def test_a_failed_creation_with_a_reason_that_nobody_reads_breaks_the_promise(context: FakeContext) -> None:
    context.deployments[1] = QUOTA.replace("The Amazon", "very long " * 60 + "The Amazon")
    assert not played(create_fails.DRILL, context)
    assert "the reason must be short" in context.printed


def test_a_failed_creation_that_leaves_something_breaks_the_promise(context: FakeContext) -> None:
    context.inventories[1].append(ROLE)
    assert not played(create_fails.DRILL, context)
    assert "the failed deployment left IAM::Role forgotten" in context.printed


def test_a_failed_creation_that_is_not_rolled_back_breaks_the_promise(context: FakeContext) -> None:
    context.status = "ROLLBACK_FAILED"
    assert not played(create_fails.DRILL, context)
    assert "it is ROLLBACK_FAILED" in context.printed


def test_what_a_drill_let_go_wrong_is_taken_back_when_its_promise_is_broken(context: FakeContext) -> None:
    context.status = "ROLLBACK_FAILED"
    played(create_fails.DRILL, context)
    assert context.done.index("helm rollback") > context.done.index("helm uninstall")


def test_a_shortage_that_fails_the_deployment_breaks_the_promise(context: FakeContext) -> None:
    assert not played(capacity.DRILL, context)
    assert "a shortage must not fail the deployment" in context.printed


@pytest.mark.parametrize("missing", ["3 of 4 nodes", "do not have sufficient", "rerun `ops wait"])
def test_a_wait_that_does_not_say_what_is_missing_breaks_the_promise(context: FakeContext, missing: str) -> None:
    context.status, context.waits[0] = "CREATE_COMPLETE", WAITED.replace(missing, "")
    assert not played(capacity.DRILL, context)
    assert "`ops wait` must say" in context.printed


def test_a_command_that_fails_breaks_the_promise_with_its_output(context: FakeContext) -> None:
    def fail(_: DrillContext) -> None:
        raise CommandError("`cdk deploy …` ended with code 1")

    assert not played(Drill("any", "all is well", fail, DrillContext), context)
    assert "`cdk deploy …` ended with code 1" in context.printed


def test_the_timeline_is_in_order_and_begins_with_the_drill() -> None:
    timeline = DrillTimeline()
    now = time.time()
    timeline.mark("second", at=now + 2)
    timeline.mark("first", at=now + 1)
    timeline.mark("an event of an earlier drill", at=now - 60)
    assert [line.split("  ")[-1] for line in timeline.lines()] == ["first", "second"]


def fail(_: FakeContext) -> None:
    raise RehearsalError("it was not kept")


def test_every_drill_is_played_although_one_breaks_its_promise() -> None:
    context = FakeContext()

    def make(*_: object) -> FakeContext:
        return context

    drills = [Drill("first", "…", fail, make), Drill("second", "…", lambda of: of.done.append("second"), make)]
    assert perform.perform(drills, "dev", context.console) == 1
    assert context.done == ["up", "second", "finished", "down"]


def test_drills_share_the_context_that_they_name() -> None:
    made: list[FakeContext] = []

    def make(*_: object) -> FakeContext:
        made.append(FakeContext())
        return made[-1]

    drills = [Drill(name, "…", lambda of: of.done.append("played"), make) for name in ("first", "second")]
    assert perform.perform(drills, "dev", Console(file=io.StringIO())) == 0
    assert [context.done for context in made] == [["up", "played", "played", "finished", "down"]]


def rehearsal_drill(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "rehearsal", "drill", *arguments]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "rehearsal drill  --env dev"),
        (("NAME=capacity",), "rehearsal drill capacity --env dev"),
        (("NAME=create-fails capacity", "ENV=prod"), "rehearsal drill create-fails capacity --env prod"),
    ],
)
def test_make_takes_names_from_its_command_line_only(arguments: Sequence[str], words: str) -> None:
    """WSL sets a variable NAME: the machine's."""
    argv = ["make", "--dry-run", "drill", *arguments]
    env = os.environ | {"NAME": "laptop"}
    result = subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True)
    assert words in result.stdout


def test_without_a_name_the_drills_are_listed() -> None:
    result = rehearsal_drill()
    assert result.returncode == 0
    for name in DRILLS:
        assert re.search(rf"^{name} +\S", result.stdout, re.MULTILINE)


def test_drills_in_an_account_and_on_kubernetes_may_be_played_at_a_time() -> None:
    """Each kind has a run directory of its own, and with it a lock."""
    by_context = {(drill.context, *directories([drill.name])) for drill in DRILLS.values()}
    assert {directory for context, directory in by_context if context is DrillContext} == {DRILLS_IN_AN_ACCOUNT}
    assert {directory for context, directory in by_context if context is not DrillContext} == {DRILLS_ON_KUBERNETES}
    assert directories(["node-dies", "capacity", "head-lost"]) == [DRILLS_IN_AN_ACCOUNT, DRILLS_ON_KUBERNETES]


def test_an_unknown_drill_names_those_that_there_are() -> None:
    result = rehearsal_drill("earthquake")
    assert result.returncode == 2
    assert result.stderr == f"error: there is no drill earthquake. Allowed: {', '.join(DRILLS)}\n"
