"""The comparison of a thousand workers with the stock manifest; the drill itself takes eight minutes."""

import io
from typing import Any, cast

import pytest
from rich.console import Console

import config
from rehearsal.drills import thousand_workers
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.kubectl import rendered
from rehearsal.drills.cluster.subject import HERE, STOCK, Subject
from rehearsal.drills.thousand_workers import TURNS, WORKERS, ThousandContext, with_workers
from rehearsal.run.steps import RehearsalError

DEV = with_workers(config.load("dev"), WORKERS)


class FakeContext(ThousandContext):
    """RayClusters that are whole after seconds given in advance; which came when is in `order`."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self.console = Console(file=io.StringIO(), width=100)
        self.times = {HERE: [], STOCK: []}
        self.order: list[str] = []
        self._seconds = {title: list(each) for title, each in seconds.items()}
        self.cluster = cast(Any, self)
        self.world = cast(Any, None)
        [self.manifest] = rendered(*objects.ray_objects(DEV).clusters.values())

    def own_subject(self) -> Subject:
        return Subject(HERE, "ray", "rayml", WORKERS, self.world, "zone")

    def measure(self, subject: Subject, manifest: dict[str, Any]) -> None:
        assert manifest["spec"]["workerGroupSpecs"][0]["replicas"] == WORKERS
        self.order.append(subject.title)
        self.times[subject.title].append(self._seconds[subject.title].pop(0))


def test_both_take_turns() -> None:
    context = FakeContext({HERE: [100.0] * TURNS, STOCK: [100.0] * TURNS})
    thousand_workers.play(context)
    assert context.order == [HERE, STOCK] * TURNS


def test_the_median_counts() -> None:
    thousand_workers.play(FakeContext({HERE: [114.0, 500.0, 110.0], STOCK: [100.0, 100.0, 20.0]}))
    with pytest.raises(RehearsalError, match=r"it was 1\.16 x"):
        thousand_workers.play(FakeContext({HERE: [116.0, 10.0, 500.0], STOCK: [100.0, 100.0, 100.0]}))


def test_the_stock_manifest_has_the_same_image_resources_and_place_and_nothing_of_ours() -> None:
    [ours] = rendered(*objects.ray_objects(DEV).clusters.values())
    stock = objects.stock_cluster(ours, "thousand", same_nodes=True)
    for given, made in (
        (ours["spec"]["headGroupSpec"], stock["spec"]["headGroupSpec"]),
        (ours["spec"]["workerGroupSpecs"][0], stock["spec"]["workerGroupSpecs"][0]),
    ):
        own, pod = given["template"]["spec"], made["template"]["spec"]
        assert set(pod) == {"containers", "nodeSelector"}
        assert pod["nodeSelector"] == own["nodeSelector"]
        [container] = pod["containers"]
        assert container == {key: own["containers"][0][key] for key in ("name", "image", "resources")}
