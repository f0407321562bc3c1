"""Pairs about instance groups that sleep: training loses nothing in use. What asks is a right, or a lost hand."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, destructive, expect
from tests.synth.corpus.editing import Edit
from tests.synth.support.variants import SLEEPING

WORKERS: Final = "InstanceGroup worker-group-1"
SLEEPER: Final = "Deployment kuberay/sleeper"
LOWER: Final = Danger.LOWER_PROTECTION
WIDER: Final = Danger.WIDER_PERMISSIONS


def _groups(document: Document) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = document["hyperpod"]["instance_groups"]
    return groups


def _sleeps(document: Document) -> None:
    _groups(document)[1]["sleep"] = {"after": "2h", "min": 1, "hours": "Mon-Fri 07:00-19:00 Europe/Berlin"}


def _sleeps_sooner(document: Document) -> None:
    _groups(document)[1]["sleep"] = {"after": "10m"}


def _sleeps_and_grows(document: Document) -> None:
    _sleeps(document)
    _groups(document)[1]["count"] = 6
    document["ray"]["clusters"][0]["workers"][0]["replicas"] = 6


def _one_of_two_sleeps(document: Document) -> None:
    _sleeps(document)
    _groups(document).append({"name": "spare-group", "instance_type": "ml.m5.2xlarge", "count": 2, "volume_gib": 100})


def _both_sleep(document: Document) -> None:
    _one_of_two_sleeps(document)
    _groups(document)[2]["sleep"] = {}


def _none_sleeps(document: Document) -> None:
    """Change nothing: no group of the environment's file sleeps."""


CASES.extend(
    (
        Case(
            "the first group of the environment's file that sleeps brings a program with rights of its own",
            Category.PERMISSIONS,
            True,
            (
                expect(WORKERS, Effect.IN_PLACE, words=("may sleep", "2h", "1 of 4 nodes", "nothing happens")),
                expect("ClusterRole kuberay-sleeper", Effect.CREATED, dangers=WIDER),
                expect("AWS::IAM::Policy GroupCounts", Effect.CREATED, dangers=WIDER),
            ),
            # Its nodes stay as they are.
            Effect.CREATED,
            file=_sleeps,
        ),
        Case(
            "another group of the environment's file may sleep, too",
            Category.GROUPS,
            False,
            (expect("InstanceGroup spare-group", Effect.IN_PLACE, words=("may sleep", "30m", "0 of 2 nodes")),),
            Effect.IN_PLACE,
            base_file=_one_of_two_sleeps,
            file=_both_sleep,
        ),
        Case(
            "a group falls asleep sooner, keeps no node and has no hours any more",
            Category.GROUPS,
            False,
            (
                expect(WORKERS, Effect.IN_PLACE, words=("min 1 → 0",)),
                expect(SLEEPER, Effect.IN_PLACE, words=("worker-group-1", "after 2h → 10m", "07:00-19:00", "→ none")),
            ),
            Effect.IN_PLACE,
            base_file=_sleeps,
            file=_sleeps_sooner,
        ),
        Case(
            "a group that sleeps may have two nodes more",
            Category.GROUPS,
            False,
            (expect(WORKERS, Effect.IN_PLACE, words=("count 4 → 6",)),),
            Effect.IN_PLACE,
            base_file=_sleeps,
            file=_sleeps_and_grows,
        ),
        Case(
            "the only group that sleeps no longer does",
            Category.GROUPS,
            False,
            (
                expect(WORKERS, Effect.CREATED, words=("no longer sleeps", "all of its 4 nodes", "us$")),
                expect(SLEEPER, Effect.DELETED, words=("no group sleeps",)),
            ),
            # The program and its rights go; nodes come.
            Effect.DELETED,
            base_file=_sleeps,
            file=_none_sleeps,
        ),
    )
)


@contextmanager
def _known(edit: Edit) -> Iterator[dict[str, Any]]:
    """Give what the sleeper knows of the only group that sleeps."""
    with edit.object("ray", "Deployment", "sleeper") as body:
        words = body["spec"]["template"]["spec"]["containers"][0]["args"]
        [number] = [number for number, word in enumerate(words) if word.startswith("--group=")]
        known = json.loads(words[number].partition("=")[2])
        yield known
        words[number] = f"--group={json.dumps(known)}"


@destructive(
    "the sleeper no longer knows Ray's workers on a group, and takes their nodes while they train",
    Category.JOBS,
    expect(SLEEPER, Effect.IN_PLACE, dangers=LOWER),
    environment=SLEEPING,
)
def _(edit: Edit) -> None:
    with _known(edit) as group:
        group["workers"] = []


@destructive(
    "the sleeper goes, and a group that sleeps stays asleep",
    Category.PROTECTION,
    expect(SLEEPER, Effect.DELETED, dangers=LOWER),
    environment=SLEEPING,
)
def _(edit: Edit) -> None:
    edit.remove_object("ray", "Deployment", "sleeper")


@destructive(
    "the function may set the count of a group that does not sleep",
    Category.GROUPS,
    expect("AWS::Lambda::Function GroupCountsFunction", Effect.IN_PLACE, dangers=Danger.RUNS_CODE),
    environment=SLEEPING,
)
def _(edit: Edit) -> None:
    variables = edit.properties("hyperpod", "AWS::Lambda::Function", "GroupCountsFunction")["Environment"]["Variables"]
    variables["RANGES"] = json.dumps(json.loads(variables["RANGES"]) | {"head-group": [0, 1]})
