"""Pairs about what pods reach and what a definition keeps: accounts, images, variables, mounts, fields, checks."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, RUNS = Danger.WIDER_PERMISSIONS, Danger.LOOSER_ISOLATION, Danger.RUNS_CODE
REAPER = "Deployment kuberay/ray-reaper"
OWN = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
PYTHON = "public.ecr.aws/docker/library/python:3.12.11-slim-bookworm"
FILE = "files/rayclusters.yaml"


@contextmanager
def _reaper(edit: Edit) -> Iterator[Any]:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as deployment:
        yield deployment["spec"]["template"]["spec"]


def _container(pod: Any) -> Any:
    [container] = pod["containers"]
    return container


def _deployment(image: str = PYTHON, **spec: Any) -> dict[str, Any]:
    """Return a Deployment as restricted as the project's own."""
    drop = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "main", "image": image, "command": ["python", "-m", "http.server"], "securityContext": drop}
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"automountServiceAccountToken": False, "securityContext": user, "containers": [container], **spec}
    labels = {"app": "extra"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "extra", "namespace": "ray"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


# Accounts and images


@destructive(
    "a new Deployment acts as the job supervisor",
    Category.PERMISSIONS,
    expect("Deployment ray/extra", Effect.CREATED, dangers=WIDER, words=("job-supervisor",)),
)
def _(edit: Edit) -> None:
    deployment = _deployment(serviceAccountName="job-supervisor", automountServiceAccountToken=True)
    edit.apply("ray", "Extra", deployment)


@harmless(
    "a new Deployment has a new account without rights",
    Category.PERMISSIONS,
    expect("Deployment ray/extra", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "extra", "namespace": "ray"}}
    edit.apply("ray", "Extra", account, _deployment(serviceAccountName="extra"))


@destructive(
    "a new Deployment runs somebody's image",
    Category.SCRIPTS,
    expect("Deployment ray/extra", Effect.CREATED, dangers=RUNS, words=("docker.io/somebody",)),
)
def _(edit: Edit) -> None:
    edit.apply("ray", "Extra", _deployment("somebody/tool:1.0"))


@harmless("a new Deployment runs an image of a known owner", Category.SCRIPTS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    edit.apply("ray", "Extra", _deployment("public.ecr.aws/docker/library/redis:7.4.1"))


@destructive(
    "the reaper's image comes from another account's registry",
    Category.SCRIPTS,
    expect(REAPER, Effect.IN_PLACE, dangers=RUNS, words=("999999999999",)),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        _container(pod)["image"] = "999999999999.dkr.ecr.us-west-2.amazonaws.com/python:3.12.11"


@harmless("the reaper's image comes from the account's own registry", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        _container(pod)["image"] = f"{OWN}/python:3.12.11"


@destructive(
    "the operator's image comes from another account's registry",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, dangers=RUNS, words=("999999999999",)),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["image"]["repository"] = "999999999999.dkr.ecr.us-west-2.amazonaws.com/kuberay/operator"


@harmless("the operator's image comes from the account's own registry", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["image"]["repository"] = f"{OWN}/kuberay/operator"


# Variables and mounts


@destructive(
    "the reaper asks another API server",
    Category.SCRIPTS,
    expect(REAPER, Effect.IN_PLACE, dangers=RUNS, words=("KUBERNETES_SERVICE_HOST",)),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        _container(pod)["env"].append({"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere.example"})


@harmless("the reaper logs more", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        _container(pod)["env"].append({"name": "LOG_LEVEL", "value": "DEBUG"})


@destructive(
    "the reaper may write what it only read",
    Category.ISOLATION,
    expect(REAPER, Effect.IN_PLACE, dangers=LOOSER, words=("write", "configMap")),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        assert _container(pod)["volumeMounts"][0].pop("readOnly") is True


@harmless("the reaper gets a directory for temporary files", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        pod["volumes"].append({"name": "tmp", "emptyDir": {"sizeLimit": "10Mi"}})
        _container(pod)["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"})


@destructive(
    "the reaper reads a Secret",
    Category.ISOLATION,
    expect(REAPER, Effect.IN_PLACE, dangers=LOOSER, words=("Secret wandb",)),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        pod["volumes"].append({"name": "keys", "secret": {"secretName": "wandb"}})


@destructive(
    "the reaper gets a token for another audience",
    Category.ISOLATION,
    expect(REAPER, Effect.IN_PLACE, dangers=LOOSER, words=("token", "sts.amazonaws.com")),
)
def _(edit: Edit) -> None:
    token = {"serviceAccountToken": {"path": "token", "audience": "sts.amazonaws.com"}}
    with _reaper(edit) as pod:
        pod["volumes"].append({"name": "token", "projected": {"sources": [token]}})


@harmless("the reaper reads its own labels", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    with _reaper(edit) as pod:
        pod["volumes"].append({"name": "me", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}})


@harmless("the reaper reads a ConfigMap more", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with _reaper(edit) as pod:
        # Without "optional", pods would wait for a ConfigMap that no manifest has.
        pod["volumes"].append({"name": "more", "configMap": {"name": "ray-controllers", "optional": True}})


# Definitions


def _definition(**fields: Any) -> Callable[[str], str]:
    """Return a change of the stand-in chart's file to a definition with these fields."""
    replicas = {"type": "integer", "minimum": 0, "description": "How many pods"}
    properties = {"replicas": replicas, "image": {"type": "string"}} | fields
    spec = {"type": "object", "properties": {name: each for name, each in properties.items() if each}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"kind": "RayCluster", "plural": "rayclusters"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayclusters.ray.io"},
        "spec": {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    return lambda _: json.dumps(definition)


def _defined(edit: Edit) -> None:
    edit.rewrite(FILE, _definition())


@destructive(
    "the definition of RayClusters lacks a field",
    Category.DATA,
    expect(
        "CustomResourceDefinition rayclusters.ray.io", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("spec.image",)
    ),
    prepare=_defined,
)
def _(edit: Edit) -> None:
    edit.rewrite(FILE, _definition(image=None))


@harmless("the definition of RayClusters has one field more", Category.DATA, worst=Effect.IN_PLACE, prepare=_defined)
def _(edit: Edit) -> None:
    edit.rewrite(FILE, _definition(suspend={"type": "boolean"}))


@destructive(
    "the definition of RayClusters no longer checks a number",
    Category.ISOLATION,
    expect("CustomResourceDefinition rayclusters.ray.io", Effect.IN_PLACE, dangers=LOOSER, words=("spec.replicas",)),
    prepare=_defined,
)
def _(edit: Edit) -> None:
    edit.rewrite(FILE, _definition(replicas={"type": "integer"}))


@harmless(
    "the definition of RayClusters describes a number", Category.ISOLATION, worst=Effect.IN_PLACE, prepare=_defined
)
def _(edit: Edit) -> None:
    edit.rewrite(FILE, _definition(replicas={"type": "integer", "minimum": 0, "description": "Pods"}))
