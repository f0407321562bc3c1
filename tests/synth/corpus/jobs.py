"""RayClusters, their images and their kinds."""

import copy
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ENDED = (Effect.ENDS_JOBS, Effect.DELETED)


@destructive(
    "the RayCluster is renamed",
    Category.JOBS,
    expect("RayCluster ray/rayml", *ENDED, dangers=Danger.JOBS_REMOVED, words=("rayml",)),
    expect("RayCluster ray/raytwo", Effect.CREATED),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["metadata"]["name"] = "raytwo"


@destructive(
    "the namespace of Ray is removed, with all that is in it",
    Category.JOBS,
    expect("Namespace ", *ENDED, Effect.DATA_LOST, dangers=Danger.JOBS_REMOVED, words=("namespace",)),
)
def _(edit: Edit) -> None:
    edit.remove_object("ray", "Namespace", "ray")


@harmless(
    "there is one more RayCluster", Category.JOBS, expect("RayCluster ray/raytwo", Effect.CREATED), worst=Effect.CREATED
)
def _(edit: Edit) -> None:
    found: list[Any] = []
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        found.append(copy.deepcopy(cluster))
    [more] = found
    more["metadata"]["name"] = "raytwo"
    edit.apply("ray", "RayClusterraytwo", more)


@harmless(
    "the RayCluster has another image",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, words=("image", "ops rollout rayml")),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        spec = cluster["spec"]
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            [container] = group["template"]["spec"]["containers"]
            container["image"] = container["image"].rpartition(":")[0] + ":0123456789abcdef"


@harmless("the operator of KubeRay asks for more memory", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        for each in values["resources"].values():
            each["memory"] = "1Gi"
