"""`ops logs`: whose logs are read, what is printed, and what is said when there are none."""

from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest
from typer.testing import CliRunner, Result

import config
from ops.clients import Clients
from ops.commands.whole import app
from ops.watch.logs import LogSource, Pods, pods_of
from ops.watch.node_logs import NodeLogs
from ops.watch.pod_logs import PodLogs
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import PODS

GROUP = "/aws/sagemaker/Clusters/ml-cluster/abcdefghijkl"


def logs(*words: str) -> Result:
    return CliRunner().invoke(app, ["logs", *words, "--env", "dev"])


def pod(name: str, *containers: str) -> dict[str, Any]:
    running = {"running": {"startedAt": "2026-11-01T10:00:00Z"}}
    statuses = [
        {"name": each, "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": running}
        for each in containers
    ]
    return {"metadata": {"name": name}, "status": {"phase": "Running", "containerStatuses": statuses}}


def event(number: int, message: str, stream: str = "LifecycleConfig/g/i-1") -> dict[str, Any]:
    moment = 1_760_000_000_000 + number
    return {"eventId": str(number), "timestamp": moment, "message": message, "logStreamName": stream}


@pytest.mark.parametrize(
    ("source", "cluster", "pods"),
    [
        ("head", None, Pods("ray", "ray.io/cluster,ray.io/node-type=head", "ray-head")),
        ("worker", "rayml", Pods("ray", "ray.io/cluster=rayml,ray.io/node-type=worker", "ray-worker")),
        ("reaper", None, Pods("kuberay", "app.kubernetes.io/name=ray-reaper")),
        ("sleeper", None, Pods("kuberay", "app.kubernetes.io/name=sleeper")),
        ("supervisor", None, Pods("ray", "app.kubernetes.io/name=job-supervisor")),
        ("image-build", None, Pods("image-build", "batch.kubernetes.io/job-name")),
    ],
)
def test_each_source_is_a_choice_of_pods(source: str, cluster: str | None, pods: Pods) -> None:
    assert pods_of(config.load("dev"), LogSource(source), cluster) == pods


def test_lines_carry_the_name_of_their_pod_and_only_the_wanted_container_is_read(apis: Apis) -> None:
    apis.kubernetes[PODS] = {"items": [pod("rayml-head", "ray-head", "autoscaler"), pod("other", "ray-head")]}
    apis.kubernetes[f"{PODS}/rayml-head/log"] = "one\ntwo\n"
    apis.kubernetes[f"{PODS}/other/log"] = "three"
    result = logs("head")
    assert result.exit_code == 0, result.output
    assert result.stdout == "[rayml-head] one\n[rayml-head] two\n[other] three\n"


def test_a_followed_log_is_resumed_without_repeating_lines(apis: Apis, clients: Clients) -> None:
    apis.kubernetes[PODS] = {"items": [pod("rayml-head", "ray-head")]}
    apis.kubernetes[f"{PODS}/rayml-head/log"] = ["one\n", "one\ntwo\n", (403, {"message": "forbidden"})]
    said: list[str] = []
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    followed = PodLogs(core, Pods("ray", "ray.io/node-type=head", "ray-head"), said.append, interval=0.01)
    with pytest.raises(kubernetes.client.ApiException, match="403"):
        followed.follow()
    assert said == ["[rayml-head] one", "[rayml-head] two"]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([], "no pod ray.io/cluster,ray.io/node-type=head in namespace ray"),
        ([pod("rayml-head", "ray-head")], "no logs: rayml-head: "),
    ],
)
def test_without_logs_the_reason_is_given(apis: Apis, items: list[Any], reason: str) -> None:
    apis.kubernetes[PODS] = {"items": items}
    result = logs("head")
    assert result.exit_code == 1
    assert reason in result.stderr


def test_an_unknown_ray_cluster_is_bad_input(apis: Apis) -> None:
    result = logs("head", "--cluster", "nowhere")
    assert result.exit_code == 2
    assert "Allowed: rayml" in result.stderr


def test_a_refused_log_exits_with_2(apis: Apis) -> None:
    apis.kubernetes[PODS] = {"items": [pod("rayml-head", "ray-head")]}
    apis.kubernetes[f"{PODS}/rayml-head/log"] = (403, {"message": "pods/log is forbidden"})
    result = logs("head")
    assert result.exit_code == 2
    assert "pods/log is forbidden" in result.stderr


def test_logs_of_nodes_come_from_the_clusters_log_group_in_order_of_time(apis: Apis) -> None:
    apis.aws["FilterLogEvents"] = {"events": [event(2, "done\n"), event(1, "begin")]}
    result = logs("lifecycle")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.partition(" UTC ")[0][20:] for line in lines] == [
        "[LifecycleConfig/g/i-1] begin",
        "[LifecycleConfig/g/i-1] done",
    ]


@pytest.mark.parametrize("source", ["lifecycle", "health"])
def test_a_cluster_without_a_log_group_has_no_logs_yet(apis: Apis, source: str) -> None:
    apis.aws["FilterLogEvents"] = aws_error("ResourceNotFoundException", "The specified log group does not exist.")
    result = logs(source)
    assert result.exit_code == 1
    assert f"{GROUP} has no events in streams" in result.stderr


class Pages:
    """CloudWatch's answers, one page per request, and the time from which each was asked."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self._answers: Iterator[list[dict[str, Any]]] = iter(answers)
        self.asked: list[int] = []

    def get_paginator(self, _: str) -> "Pages":
        return self

    def paginate(self, *, startTime: int, **_: Any) -> list[dict[str, Any]]:
        self.asked.append(startTime)
        try:
            return [{"events": next(self._answers)}]
        except StopIteration:
            raise KeyboardInterrupt from None


def test_followed_logs_of_nodes_are_printed_once_and_late_ones_are_not_lost() -> None:
    first, late, last = event(2000, "first"), event(1000, "late"), event(3000, "last")
    pages = Pages([first], [late, first], [late, first, last])
    said: list[str] = []
    followed = NodeLogs(pages, GROUP, ["LifecycleConfig/"], said.append, interval=0)
    with pytest.raises(KeyboardInterrupt):
        followed.follow()
    assert [line.rpartition(" ")[2] for line in said] == ["first", "late", "last"]
    assert pages.asked[0] == 0
    assert pages.asked[1] < late["timestamp"]
