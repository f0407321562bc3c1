"""Count how often six everyday walks pass from one file of the project to another: `python -m bench.walks`.

A move is a call, or the resumption of a generator, whose code is in another file than the code that asked for it.
Libraries between both are left out, and so are tests and benchmarks, and the embedded account but for CreateStack.
"""

import json
import logging
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import boto3
import cdk8s
import pytest
from typer.testing import CliRunner

from bench.checkout import changed
from config import load
from config.load import DIRECTORY_VARIABLE
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.testing import stacks
from embedded_account.testing.clients import ACCOUNT_ID, REGION
from embedded_account.testing.plugin import served
from k8s_charts.in_cluster.alertmanager import AlertFacts
from k8s_charts.in_cluster.from_environment import observability
from ops.commands.whole import app
from ops.review.assembly import Assembly, Pair
from ops.review.verdict import verdict_on
from rehearsal.paths import REPOSITORY
from tests.handlers.support.cloudformation import CloudFormation
from tests.support.waiting import wait_until
from tests.synth.support import variants
from tests.synth.support.synthesis import synthesise
from tests.unit.support import fake_apis, running_environment

_OF_THE_PROJECT: Final = ("config", "controllers", "handlers", "k8s_charts", "ops", "rehearsal", "stacks")
_OF_THE_ACCOUNT: Final = ("packages/embedded-account",)
_ENVIRONMENTS: Final = REPOSITORY / "tests" / "environments"


@dataclass(frozen=True)
class Walk:
    """What is prepared and not counted, what is then taken and counted, and in which folders."""

    prepared: Callable[[], AbstractContextManager[Callable[[], object]]]
    folders: tuple[str, ...] = _OF_THE_PROJECT


@dataclass
class Moves:
    """The files below `folders` that a walk ran, and its moves by the files from and to which they led."""

    folders: tuple[str, ...]
    files: set[str] = field(default_factory=set)
    between: Counter[tuple[str, str]] = field(default_factory=Counter)

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call; for `sys.setprofile`."""
        if event != "call" or (file := _file(frame.f_code.co_filename, self.folders)) is None:
            return
        self.files.add(file)
        caller = frame.f_back
        while caller and (asks := _file(caller.f_code.co_filename, self.folders)) is None:
            caller = caller.f_back
        if caller and asks != file:
            self.between[str(asks), file] += 1


def count(walk: Walk) -> Moves:
    """Take a walk, in all threads that it starts, and return its moves."""
    moves = Moves(walk.folders)
    with walk.prepared() as take:
        # What is imported or cached at the first time is no part of the way.
        take()
        threading.setprofile(moves.profile)
        sys.setprofile(moves.profile)
        try:
            take()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return moves


@cache
def _file(path: str, folders: tuple[str, ...]) -> str | None:
    """Return a file below one of the repository's folders by its path there; None for any other file."""
    return next(
        (path.removeprefix(f"{REPOSITORY}/") for each in folders if path.startswith(f"{REPOSITORY}/{each}/")), None
    )


@contextmanager
def ops_check() -> Iterator[Callable[[], object]]:
    """Check dev's file."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(DIRECTORY_VARIABLE, str(_ENVIRONMENTS))
        yield lambda: _ops("check", "--env", "dev")


@contextmanager
def handlers_count() -> Iterator[Callable[[], object]]:
    """Change the count of a group whose nodes all run."""
    with HyperPodBench() as bench, pytest.MonkeyPatch.context() as monkeypatch:
        cloudformation = CloudFormation(bench, monkeypatch)
        sent = [bench.request()]
        created = cloudformation.create(sent[0])
        _require(created.succeeded, created.reason)
        bench.advance(60)

        def change() -> None:
            new = bench.request()
            new["InstanceGroups"][1]["InstanceCount"] = sent[-1]["InstanceGroups"][1]["InstanceCount"] + 1
            answer = cloudformation.update("ml-cluster", new, sent[-1])
            _require(answer.succeeded, answer.reason)
            sent.append(new)
            bench.advance(60)

        yield change


@contextmanager
def alerts_chart() -> Iterator[Callable[[], object]]:
    """Render the charts of Prometheus and Alertmanager."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(DIRECTORY_VARIABLE, str(_ENVIRONMENTS))
        environment = variants.watched("dev")
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:alerts"
    facts = AlertFacts(topic, f"arn:aws:iam::{ACCOUNT_ID}:role/alertmanager")
    yield lambda: [chart.to_json() for chart in observability(cdk8s.App(), environment, facts).values()]


@contextmanager
def jobs_submission() -> Iterator[Callable[[], object]]:
    """Submit a command as a run to a fake API server."""
    pod = {"containers": [{"name": "job-supervisor", "args": ["--namespace=ray"], "volumeMounts": []}], "volumes": []}
    spec = {"jobTemplate": {"spec": {"template": {"spec": pod}}}, "schedule": "0 0 31 2 *"}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    nothing: dict[str, Any] = {"items": []}
    made = {"metadata": {"name": "train", "uid": "1", "labels": {}}, "spec": {"template": {"spec": pod}}, "status": {}}
    with fake_apis.serve() as apis, pytest.MonkeyPatch.context() as monkeypatch:
        running_environment.make_ready(apis)
        apis.kubernetes |= {
            running_environment.RAY_CLUSTERS: {"items": [{"metadata": {"name": "rayml"}}]},
            "/apis/batch/v1/namespaces/ray/cronjobs/job-supervisor": {"metadata": {}, "spec": spec},
            f"POST {running_environment.RUN_JOBS}": made,
            f"POST {reviews}": {"spec": {}, "status": {"allowed": True}},
            running_environment.LEASES: nothing,
            running_environment.PODS: nothing,
            running_environment.RUN_JOBS: nothing,
        }
        monkeypatch.setenv(DIRECTORY_VARIABLE, str(_ENVIRONMENTS))
        monkeypatch.setenv("AWS_ENDPOINT_URL", apis.endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        yield lambda: _ops("job", "submit", "--env", "dev", "--name", "train", "--detach", "--", "true")


@contextmanager
def reviews_verdict() -> Iterator[Callable[[], object]]:
    """Review a change of one count of dev's file."""
    with tempfile.TemporaryDirectory() as scratch:
        environments = Path(scratch, "environments")
        environments.mkdir()
        shutil.copy2(_ENVIRONMENTS / "dev.yaml", environments)
        base = synthesise(load("dev", environments), Path(scratch, "base")).directory
        with changed(Path(scratch), "dev") as document:
            document["hyperpod"]["instance_groups"][-1]["count"] += 1
        head = synthesise(load("dev", environments), Path(scratch, "head")).directory
        # Each verdict reads both assemblies again.
        yield lambda: verdict_on(Pair("dev", Assembly(base), Assembly(head)))


@contextmanager
def create_stack() -> Iterator[Callable[[], object]]:
    """Create a stack of two resources in the embedded account."""
    with tempfile.TemporaryDirectory() as scratch, served(Path(scratch)) as server:
        account = server.account
        # The declared type has only what other services ask for.
        store: Any = account.stacks
        keys = account.keys
        session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=REGION)
        client = session.client("cloudformation", endpoint_url=account.endpoint)
        body = {"Resources": {"T": stacks.topic(), "P": stacks.parameter(stacks.ref("T"))}}

        def create() -> None:
            name = f"s{len(store.stacks())}"
            made = client.create_stack(StackName=name, TemplateBody=json.dumps(body))
            stack = store.get(made["StackId"])
            wait_until(lambda: not stack.status.endswith("_IN_PROGRESS"), "the stack's end")
            _require(stack.status == "CREATE_COMPLETE", stack.status)

        yield create


WALKS: Final[Mapping[str, Walk]] = {
    "ops check": Walk(ops_check),
    "a count in the handler": Walk(handlers_count),
    "an alert's chart": Walk(alerts_chart),
    "a job's submission": Walk(jobs_submission),
    "a review's verdict": Walk(reviews_verdict),
    "CreateStack": Walk(create_stack, _OF_THE_ACCOUNT),
}


def main() -> None:
    """Print the files and moves of each walk, and the move that it makes most often."""
    # The embedded account's server would list each request between the figures.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for name, walk in WALKS.items():
        moves = count(walk)
        [((caller, called), times)] = moves.between.most_common(1)
        print(f"{name}: {len(moves.files)} files, {moves.between.total():,} moves")
        print(f"  most often, {times:,} times: {caller} → {called}")


def _ops(*arguments: str) -> None:
    result = CliRunner().invoke(app, arguments)
    _require(result.exit_code == 0, result.output or repr(result.exception))


def _require(succeeded: bool, why: str) -> None:
    if not succeeded:
        raise RuntimeError(f"the walk ended early: {why}")


if __name__ == "__main__":
    main()
