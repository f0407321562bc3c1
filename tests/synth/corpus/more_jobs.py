"""Pairs that were kept aside until the rules were complete: jobs, and scripts that run on nodes or in the cluster."""

import copy
import json
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, after_line

RUNS = Danger.RUNS_CODE
SCRIPT = "on_create_main.sh"
ENDED = (Effect.ENDS_JOBS, Effect.DELETED)
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: rayclusters.ray.io\n"


# Jobs


@destructive(
    "the RayCluster is removed",
    Category.JOBS,
    expect("RayCluster ray/rayml", *ENDED, dangers=Danger.JOBS_REMOVED, words=("rayml",)),
)
def _(edit: Edit) -> None:
    edit.delete_manifest("ray", "RayCluster", "ray/rayml")


@destructive(
    "the manifest of the RayCluster gets another construct id",
    Category.JOBS,
    # CDK's handler runs `kubectl create` for a new manifest, which refuses an object that exists.
    expect("RayCluster ray/rayml", *ENDED, Effect.REFUSED, dangers=Danger.JOBS_REMOVED, words=("rayml",)),
)
def _(edit: Edit) -> None:
    id = edit.manifest_of("ray", "RayCluster", "ray/rayml")
    text = json.dumps(edit.templates["ray"])
    edit.templates["ray"] = json.loads(text.replace(f'"{id}"', '"TrainingCluster0A1B2C3D"'))


def _with_kind(edit: Edit) -> None:
    # The stand-in chart's file has no name.
    edit.rewrite("files/rayclusters.yaml", lambda _: CRD + "spec:\n  group: ray.io\n")


@destructive(
    "the release of KubeRay's kinds lacks the kind of RayClusters",
    Category.JOBS,
    expect(
        "CustomResourceDefinition ",
        *ENDED,
        Effect.DATA_LOST,
        dangers=(Danger.JOBS_REMOVED, Danger.DATA_LOSS),
        words=("rayclusters.ray.io",),
    ),
    prepare=_with_kind,
)
def _(edit: Edit) -> None:
    edit.rewrite("files/rayclusters.yaml", lambda _: "")


def _package(document: Document) -> None:
    document["image"]["pip"] = ["wandb==0.19.1"]


CASES.append(
    Case(
        "the environment's file adds a package to the image",
        Category.JOBS,
        False,
        (expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, words=("image", "ops rollout rayml")),),
        # The builder's role names its context and its log by their hashes: the old ones go as the new ones come, and
        # it allows no more than before. The job that builds the image has a hash in its name: the old, done one goes.
        Effect.DELETED,
        file=_package,
    )
)


@harmless(
    "the RayCluster may have more workers",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE, Effect.NEEDS_ROLLOUT),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] += 2


@harmless(
    "there is one more group of workers in the RayCluster",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE, Effect.NEEDS_ROLLOUT),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        groups = cluster["spec"]["workerGroupSpecs"]
        groups.append(copy.deepcopy(groups[0]) | {"groupName": "more", "replicas": 0, "minReplicas": 0})


# Scripts


@destructive(
    "a probe of the reaper decodes what it runs",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=RUNS, words=("base64",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as deployment:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        run = "echo cm0gLXJmIC9mc3gK | base64 -d | sh"
        container["livenessProbe"] = {"exec": {"command": ["sh", "-c", run]}}


@destructive(
    "the script of a ConfigMap opens the node's firewall",
    Category.SCRIPTS,
    expect("ConfigMap ray/tools", Effect.IN_PLACE, dangers=RUNS, words=("iptables",)),
    prepare=lambda edit: edit.apply("ray", "Tools", _tools("echo ready\n")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "ray/tools") as tools:
        tools["data"]["start.sh"] += "iptables -P INPUT ACCEPT\n"


def _tools(script: str) -> dict[str, Any]:
    metadata = {"name": "tools", "namespace": "ray"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"start.sh": script}}


@harmless(
    "the script of a ConfigMap says more",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    prepare=lambda edit: edit.apply("ray", "Tools", _tools("echo ready\n")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "ray/tools") as tools:
        tools["data"]["start.sh"] += "date\n"


@harmless(
    "a lifecycle script loses a line that removes files",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    prepare=lambda edit: edit.rewrite(SCRIPT, after_line("set -euo pipefail", "rm -rf /opt/old")),
)
def _(edit: Edit) -> None:
    edit.rewrite(SCRIPT, lambda text: text.replace("rm -rf /opt/old\n", ""))


@harmless("another file of the HyperPod handler has other code", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite("hyperpod_cluster/failure.py", lambda text: f"{text}\n_WIDTH = 80\n")


@harmless("an alarm is new, whose type only the schemas know", Category.UNKNOWN, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    alarm = {"MetricName": "FreeDataStorageCapacity", "Namespace": "AWS/FSx", "Statistic": "Minimum"}
    limits = {"ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 1, "Period": 300, "Threshold": 1e11}
    edit.add("hyperpod", "FullDisk", "AWS::CloudWatch::Alarm", **alarm, **limits)
