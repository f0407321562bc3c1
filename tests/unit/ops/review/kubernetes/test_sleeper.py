"""The sleeper's arguments: what a group's own settings may change, and what needs an approval."""

import json
from typing import Any

import pytest

from ops.review.model import Danger, Effect
from tests.unit.ops.review.hyperpod.assemblies import cluster, group
from tests.unit.ops.review.kubernetes.assemblies import Body, Environment, dangers, manifest, metadata

LOWER = {Danger.LOWER_PROTECTION}
HOURS = "Mon-Fri 07:00-19:00 Europe/Berlin"
GPU: Body = {
    "group": "gpu",
    "count": 4,
    "min": 0,
    "after_seconds": 1800,
    "hours": None,
    "workers": [{"cluster": "rayml", "name": "workers", "replicas": 4, "min_replicas": 1}],
}
SPARE: Body = {
    "group": "spare",
    "count": 2,
    "min": 0,
    "after_seconds": 1800,
    "hours": None,
    "workers": [],
    "wake": [],
    "gpus": False,
}
BOTH = {"gpu": 0, "spare": 0}


def words(*groups: Any) -> list[str]:
    return [f"--group={each if isinstance(each, str) else json.dumps(each)}" for each in groups]


def side(*arguments: str, sleeping: dict[str, int] | None = None) -> dict[str, Any]:
    """Return the stacks of an environment in which `gpu` sleeps, with a sleeper that has these arguments."""
    labels = {"app.kubernetes.io/name": "sleeper"}
    container = {"name": "sleeper", "image": "python", "command": ["python", "-m", "controllers.sleeper"]}
    sleeper = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata("sleeper", "kuberay"),
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{**container, "args": ["--function=counts", *arguments]}]},
            },
        },
    }
    pod = {"spec": {"nodeSelector": {"sagemaker.amazonaws.com/instance-group-name": "gpu"}}}
    workers = {"groupName": "workers", "replicas": 4, "minReplicas": 1, "template": pod}
    identity = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata("rayml")}
    ray = {**identity, "spec": {"workerGroupSpecs": [workers]}}
    groups = group("gpu", 4), group("spare", 2)
    return {
        "hyperpod": {"Cluster": cluster(*groups, SleepingGroups={"gpu": 0} if sleeping is None else sleeping)},
        "ray": {"Sleeper": manifest(sleeper), "Ray": manifest(ray)},
    }


BEFORE = side(*words(GPU))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (side(*words(GPU | {"after_seconds": 7200})), "instance group gpu sleeps after 30m → 2h"),
        (side(*words(GPU | {"hours": HOURS})), f"instance group gpu sleeps hours none → {HOURS}"),
        (side(*words(GPU, SPARE), sleeping=BOTH), "args"),
        (side(*words(GPU | {"min": 1}), sleeping={"gpu": 1}), "args"),
    ],
)
def test_other_rules_of_sleep_need_no_approval(environment: Environment, after: dict[str, Any], said: str) -> None:
    found = environment.changes(BEFORE, after)
    assert dangers(found) == set()
    assert {each.effect for each in found if each.resource == "Deployment kuberay/sleeper"} == {Effect.IN_PLACE}
    assert any(said in each.what for each in found)


@pytest.mark.parametrize(
    "after",
    [
        side(*words(GPU | {"workers": []})),
        side(*words(GPU | {"workers": [GPU["workers"][0] | {"replicas": 1}]})),
        side(*words(GPU | {"count": 8})),
        side(*words(GPU | {"min": 1})),
        side(*words(GPU | {"after_seconds": 60})),
        side(*words(GPU | {"after_seconds": True})),
        side(*words(GPU | {"hours": "Mon-Fri 19:00-07:00 UTC"})),
        side(*words(GPU | {"hours": "Mon-Fri 07:00-19:00 Mars/Base"})),
        side(*words(GPU | {"hours": 7})),
        side(*words(GPU | {"new": "key"})),
        side(*words({key: value for key, value in GPU.items() if key != "workers"})),
        side(*words(GPU, GPU)),
        side(*words("{")),
        side(*words("[" * 5_000)),
        side(*words(GPU, SPARE)),
        side(*words(GPU), sleeping=BOTH),
        side(*words(GPU, SPARE | {"wake": ["gpu"]}), sleeping=BOTH),
        side(*words(GPU, SPARE | {"gpus": "no"}), sleeping=BOTH),
        side(),
        side(*words(GPU | {"after_seconds": 7200}), "--dry-run"),
    ],
    ids=lambda after: str(after["ray"]["Sleeper"])[-160:-60],
)
def test_a_sleeper_that_knows_a_group_otherwise_than_it_is_needs_one(
    environment: Environment, after: dict[str, Any]
) -> None:
    before = side(*words(GPU | {"after_seconds": 3600}))
    assert dangers(environment.changes(before, after)) == LOWER


def test_what_else_is_said_of_a_group_may_stay(environment: Environment) -> None:
    known = GPU | {"wake": ["spare"]}
    assert dangers(environment.changes(side(*words(known)), side(*words(known | {"hours": HOURS})))) == set()


def test_the_sleeper_may_go_with_the_last_group_that_sleeps(environment: Environment) -> None:
    gone = {"hyperpod": {"Cluster": cluster(group("gpu", 4))}, "ray": {"Ray": BEFORE["ray"]["Ray"]}}
    found = environment.changes(BEFORE, gone)
    assert dangers(found) == set()
    assert any("No group sleeps any more." in each.reason for each in found)
    asleep = {"hyperpod": BEFORE["hyperpod"], "ray": {"Ray": BEFORE["ray"]["Ray"]}}
    assert dangers(environment.changes(BEFORE, asleep)) == LOWER
    unknown = {"hyperpod": {"Cluster": cluster(group("gpu", 4), SleepingGroups=["gpu"])}, "ray": asleep["ray"]}
    assert dangers(environment.changes(BEFORE, unknown)) == LOWER


@pytest.mark.parametrize(("gpus", "needed"), [(True, set()), (False, LOWER)])
def test_a_new_group_whose_exporters_are_not_asked_needs_one(
    environment: Environment, gpus: bool, needed: set[Danger]
) -> None:
    exporter = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata("dcgm-exporter", "gpu-metrics"),
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}},
    }
    before, after = side(*words(GPU)), side(*words(GPU, SPARE | {"gpus": gpus}), sleeping=BOTH)
    for each in (before, after):
        each["ray"] = {**each["ray"], "Exporter": manifest(exporter)}
    assert dangers(environment.changes(before, after)) == needed
