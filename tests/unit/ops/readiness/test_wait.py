"""`ops wait` and `ops status`: their output, when they end, and their exit codes."""

import io
import itertools
import re
from collections.abc import Iterator

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from config.labels import PAUSED as PAUSED_BY_OPS
from ops.cli import console
from ops.commands.whole import app
from ops.errors import NoAnswerError
from ops.readiness.item import ReadinessItem, ReadinessState
from ops.readiness.wait import wait
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import (
    HEAD,
    JOBS,
    NODES,
    RAY_CLUSTER,
    RAY_CLUSTERS,
    WORKERS,
    condition,
    group,
    job,
    node,
    nodes,
    usable_node,
)

READY = ReadinessItem("volume claim", "ray/fsx-claim", ReadinessState.READY, "Bound")
PENDING = ReadinessItem("volume claim", "ray/fsx-claim", ReadinessState.WAITING, "Pending")
PAUSED = ReadinessItem(
    "RayCluster", "ray/rayml", ReadinessState.PAUSED, "paused, 0 of 4 workers; `ops resume --env dev` resumes it"
)
FAILED = ReadinessItem("Ray image", "ray-image-1", ReadinessState.FAILED, "backoff limit")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def waited(
    *looks: list[ReadinessItem] | Exception, timeout: float = 60, terminal: bool = False
) -> tuple[list[ReadinessItem], str]:
    """Wait with these observations and no pauses; return the last items and the output."""
    remaining: Iterator[list[ReadinessItem] | Exception] = iter(looks)

    def observe() -> list[ReadinessItem]:
        look = next(remaining)
        if isinstance(look, Exception):
            raise look
        return look

    printed = io.StringIO()
    console = Console(file=printed, width=40, force_terminal=terminal)
    return wait(observe, console, timeout=timeout, interval=0.001), printed.getvalue()


def test_it_ends_when_all_is_ready() -> None:
    items, _ = waited([PENDING], [PENDING], [READY])
    assert items == [READY]


def test_it_ends_at_once_when_something_failed() -> None:
    items, _ = waited([PENDING, FAILED], [READY])
    assert items == [PENDING, FAILED]


def test_it_ends_at_once_when_the_environment_is_paused() -> None:
    items, _ = waited([PENDING, PAUSED], [READY])
    assert items == [PENDING, PAUSED]


def test_it_ends_at_the_timeout_with_what_is_missing() -> None:
    items, _ = waited(*[[PENDING]] * 1000, timeout=0.01)
    assert items == [PENDING]


def test_without_a_terminal_only_changes_are_printed_each_on_one_line() -> None:
    reason = "0/7 nodes are available: 4 Insufficient nvidia.com/gpu, 3 node(s) had [untolerated] taint(s)"
    long = ReadinessItem("RayCluster", "ray/rayml", ReadinessState.WAITING, reason)
    _, printed = waited([PENDING, long], [PENDING, long], [READY, READY])
    assert printed.splitlines() == [
        "… volume claim ray/fsx-claim: Pending",
        f"… RayCluster ray/rayml: {reason}",
        "… no expected end: nobody knows when volume claim ray/fsx-claim is ready",
        "✔ volume claim ray/fsx-claim: Bound",
        "✔ volume claim ray/fsx-claim: Bound",
    ]


def test_without_a_terminal_a_long_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.readiness.wait.SILENCE_SECONDS", 0)
    _, printed = waited([PENDING, READY], [PENDING, READY], [READY, READY])
    assert printed.splitlines()[3:-1] == ["… 1 of 2 ready after 0 min"]


@pytest.mark.parametrize("unheard", [0, 1, 3])
def test_without_a_terminal_a_line_is_printed_each_minute(monkeypatch: pytest.MonkeyPatch, unheard: int) -> None:
    """Polls without an answer break no silence either: only the first of them is a line of its own."""
    now = [0.0]
    monkeypatch.setattr("ops.readiness.wait.time.monotonic", lambda: now[0])
    monkeypatch.setattr("ops.readiness.wait.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    nothing = NoAnswerError("the Kubernetes API does not answer")
    looks: Iterator[list[ReadinessItem] | Exception] = iter([[PENDING], *[nothing] * unheard, *[[PENDING]] * 1000])
    when: list[float] = []

    class Printed(io.StringIO):
        def write(self, text: str, /) -> int:
            when.append(now[0])
            return super().write(text)

    def observe() -> list[ReadinessItem]:
        look = next(looks)
        if isinstance(look, Exception):
            raise look
        return look

    wait(observe, Console(file=Printed(), width=40), timeout=600, interval=15)
    assert max(later - earlier for earlier, later in itertools.pairwise([*when, 600])) <= 60


def test_on_a_terminal_the_table_is_redrawn_in_place() -> None:
    _, printed = waited([PENDING], [READY], terminal=True)
    assert "\x1b[1A" in printed
    assert "Ctrl-C" in printed
    assert "stops only this wait" in printed


def test_a_check_without_an_answer_is_reported_once_and_repeated() -> None:
    nothing = NoAnswerError("the Kubernetes API does not answer")
    items, printed = waited([PENDING], nothing, nothing, [READY])
    assert items == [READY]
    assert printed.count("no answer, retrying: the Kubernetes API does not answer") == 1


def test_a_first_check_without_an_answer_ends_the_wait() -> None:
    with pytest.raises(NoAnswerError):
        waited(NoAnswerError("AWS does not answer"), [READY])


def test_wait_exits_with_0_when_the_environment_is_ready(apis: Apis) -> None:
    result = run("wait", "--env", "dev")
    assert result.exit_code == 0, result.output
    assert "✔ RayCluster ray/rayml: ready, 4 of 4 workers" in result.stdout
    assert result.stdout.splitlines()[-1] == "dev is ready"


def test_wait_follows_a_group_that_fills_up(apis: Apis) -> None:
    ready = apis.aws["DescribeCluster"]
    filling = ready | {"InstanceGroups": [group(HEAD, 1), group(WORKERS, 2, 4)]}
    apis.aws["DescribeCluster"] = [filling, ready]
    apis.aws["ListClusterEvents"] = {"Events": []}
    two, four = ([node(HEAD), *[node(WORKERS)] * count] for count in (2, 4))
    apis.aws["ListClusterNodes"] = [{"ClusterNodeSummaries": two}, {"ClusterNodeSummaries": four}]
    head = nodes(usable_node())
    apis.kubernetes[NODES] = [head, nodes(*[usable_node()] * 2), head, nodes(*[usable_node()] * 4)]
    result = run("wait", "--env", "dev", "--interval", "0.2s")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if WORKERS in line]
    assert lines == [
        "… instance group worker-group-1: 2 of 4 nodes: 2 Running",
        "… Kubernetes nodes worker-group-1: 2 of 4 Ready and Schedulable",
        "… no expected end: nobody knows when instance group worker-group-1 is ready",
        "✔ instance group worker-group-1: 4 of 4 nodes: 4 Running",
        "✔ Kubernetes nodes worker-group-1: 4 of 4 Ready and Schedulable",
    ]


def test_wait_exits_with_3_when_something_failed_and_names_it(apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(conditions=[condition("Failed", message="Deadline exceeded")])]}
    result = run("wait", "--env", "dev")
    assert result.exit_code == 3
    assert result.stderr.startswith(
        "error: dev failed, waiting will not help: Ray image aws-ray-custom: Deadline exceeded; see "
    )
    assert len(result.stderr.splitlines()) == 1


def test_wait_exits_with_1_at_the_timeout_and_says_how_to_resume(apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(active=1)]}
    result = run("wait", "--env", "dev", "--timeout", "0s")
    assert result.exit_code == 1
    missing = "Ray image aws-ray-custom"
    message = f"error: dev is not ready after 0s: {missing}. Fix: rerun `ops wait --env dev` to resume\n"
    assert result.stderr == message


def shortage(apis: Apis) -> None:
    """Serve a worker group with one of its four nodes, and a RayCluster with one worker."""
    apis.aws["DescribeCluster"]["InstanceGroups"] = [group(HEAD, 1), group(WORKERS, 1, 4)]
    apis.aws["ListClusterNodes"]["ClusterNodeSummaries"] = [node(HEAD), node(WORKERS)]
    apis.aws["ListClusterEvents"] = {"Events": []}
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(usable_node())]


def test_wait_for_the_minimum_exits_with_0_while_nodes_are_missing(apis: Apis) -> None:
    shortage(apis)
    result = run("wait", "--env", "dev", "--require", "min", "--timeout", "0s")
    assert result.exit_code == 0, result.output
    assert "✔ instance group worker-group-1: 1 of 4 nodes (1 required): 1 Running" in result.stdout
    assert result.stdout.splitlines()[-1] == "dev has what `--require min` asks for"


def pause(apis: Apis, *, raised: bool = False) -> None:
    """Serve an environment that `ops pause` has paused; with `raised`, a deployment has set its counts back."""
    counts = {HEAD: 1, WORKERS: 4} if raised else {HEAD: 0, WORKERS: 0}
    apis.aws["DescribeCluster"]["InstanceGroups"] = [group(name, count) for name, count in counts.items()]
    apis.aws["ListClusterNodes"] = {
        "ClusterNodeSummaries": [node(name) for name, count in counts.items() for _ in range(count)]
    }
    apis.kubernetes[NODES] = [nodes(*[usable_node()] * count) for count in counts.values()]
    paused = {
        "metadata": {"name": "rayml", "annotations": {PAUSED_BY_OPS: "true"}},
        "spec": {"suspend": True},
        "status": {"state": "suspended"},
    }
    apis.kubernetes[RAY_CLUSTER] = paused
    apis.kubernetes[RAY_CLUSTERS] = {"items": [paused]}


def shown_in_a_terminal(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Return what a command prints when standard output is a terminal of 200 columns."""
    monkeypatch.setattr(console, "_force_terminal", True)
    monkeypatch.setattr(console, "_width", 200)
    return run(*arguments)


@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
@pytest.mark.parametrize("raised", [False, True], ids=["at 0", "counts set back"])
@pytest.mark.parametrize("require", ["all", "min"])
def test_wait_exits_with_3_while_paused_and_names_resume(
    apis: Apis, monkeypatch: pytest.MonkeyPatch, terminal: bool, raised: bool, require: str
) -> None:
    pause(apis, raised=raised)
    words = ("wait", "--env", "dev", "--require", require, "--timeout", "0s")
    result = shown_in_a_terminal(*words, monkeypatch=monkeypatch) if terminal else run(*words)
    assert result.exit_code == 3, result.output
    assert result.stderr == "error: dev is paused, waiting will not help. Fix: `ops resume --env dev`\n"
    assert_paused(result.stdout, raised=raised)


@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
@pytest.mark.parametrize("raised", [False, True], ids=["at 0", "counts set back"])
@pytest.mark.parametrize("command", ["status", "wait --require none"])
def test_a_paused_environment_is_shown_as_paused(
    apis: Apis, monkeypatch: pytest.MonkeyPatch, terminal: bool, raised: bool, command: str
) -> None:
    pause(apis, raised=raised)
    words = (*command.split(), "--env", "dev")
    result = shown_in_a_terminal(*words, monkeypatch=monkeypatch) if terminal else run(*words)
    assert result.exit_code == (1 if command == "status" else 0), result.output
    assert_paused(result.stdout, raised=raised)


def assert_paused(shown: str, *, raised: bool) -> None:
    """Nothing but `ops resume` is advised: no deployment, and no change of the file."""
    # A table has a line for each part of the detail, and the lines of a pipe have punctuation.
    words = " ".join(re.sub(r"\x1b\[\S*?[A-Za-z]|[;:]", "", shown).split())
    assert re.search(r"‖ RayCluster +ray/rayml paused, 0 of 4 workers `ops resume --env dev` resumes it", words)
    lowered = "‖ instance group worker-group-1 0 of 0 nodes paused `ops resume --env dev` raises it to 4"
    assert (lowered in words) is not raised, words
    assert "deploy" not in words
    assert "change the environment" not in words


def test_a_failure_is_reported_before_a_pause(apis: Apis) -> None:
    pause(apis)
    apis.kubernetes[JOBS] = {"items": [job(conditions=[condition("Failed", message="Deadline exceeded")])]}
    result = run("wait", "--env", "dev")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: dev failed, waiting will not help: Ray image ")


def test_a_group_that_lacks_nodes_without_a_pause_is_not_called_paused(apis: Apis) -> None:
    shortage(apis)
    result = run("wait", "--env", "dev", "--timeout", "0s")
    assert result.exit_code == 1
    assert "paused" not in result.output


def test_wait_for_nothing_reports_once_and_exits_with_0(apis: Apis) -> None:
    shortage(apis)
    result = run("wait", "--env", "dev", "--require", "none")
    assert result.exit_code == 0, result.output
    assert "1 of 4 nodes" in result.stdout
    assert "8 of 10 ready" in result.stdout


def test_an_interrupted_wait_says_how_to_resume(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> list[ReadinessItem]:
        raise KeyboardInterrupt

    monkeypatch.setattr("ops.readiness.wait.wait", interrupt)
    result = run("wait", "--env", "dev")
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted; rerun `ops wait --env dev` to resume\n"


def test_status_shows_the_table_once(apis: Apis) -> None:
    result = run("status", "--env", "dev")
    assert result.exit_code == 0, result.output
    assert "ray/rayml" in result.stdout


def test_status_exits_with_1_when_something_is_not_ready(apis: Apis) -> None:
    apis.aws["DescribeCluster"] = aws_error("ResourceNotFound", "no such cluster")
    result = run("status", "--env", "dev")
    assert result.exit_code == 1
    assert "deploy the hyperpod stack" in " ".join(result.stdout.split())
