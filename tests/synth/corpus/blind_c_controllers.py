"""Pairs by a third author who had not seen the judges: pods, images, webhooks and Helm values."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import WATCHED, autoscaled, autoscaler, in_chart
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOOSER, RUNS = Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION, Danger.RUNS_CODE
LATER = (Effect.NEEDS_ROLLOUT, Effect.IN_PLACE, Effect.ENDS_JOBS)
RAY_CLUSTER = "RayCluster ray/rayml"
WEBHOOK = "ValidatingWebhookConfiguration"


@destructive(
    "Ray's head mounts the whole disk of its node",
    Category.ISOLATION,
    expect(RAY_CLUSTER, *LATER, dangers=(LOOSER, RUNS), words=("hostPath",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        spec = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        spec["volumes"].append({"name": "node", "hostPath": {"path": "/"}})
        spec["containers"][0]["volumeMounts"].append({"name": "node", "mountPath": "/node"})


@destructive(
    "whoever opens Grafana administers it",
    Category.PERMISSIONS,
    expect(
        "Deployment prometheus-system/grafana",
        Effect.IN_PLACE,
        dangers=(Danger.WIDER_PERMISSIONS, LOOSER, LOWER, RUNS, Danger.UNKNOWN),
        words=("GF_AUTH_ANONYMOUS_ORG_ROLE",),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(deployment: Any) -> None:
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        [role] = [each for each in container["env"] if each["name"] == "GF_AUTH_ANONYMOUS_ORG_ROLE"]
        role["value"] = "Admin"

    in_chart(edit, "Deployment", "grafana", changed)


def _checked(edit: Edit) -> None:
    service = {"name": "images", "namespace": "kuberay", "path": "/check"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "images.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray"}},
        "rules": [rule],
        "sideEffects": "None",
    }
    metadata = {"name": "images"}
    api = "admissionregistration.k8s.io/v1"
    edit.apply("ray", "Images", {"apiVersion": api, "kind": WEBHOOK, "metadata": metadata, "webhooks": [webhook]})


@destructive(
    "pods start unchecked when the check of images does not answer",
    Category.ISOLATION,
    expect(
        f"{WEBHOOK} images",
        Effect.IN_PLACE,
        Effect.UNKNOWN,
        dangers=(LOOSER, LOWER, Danger.UNKNOWN),
        words=("failurePolicy",),
    ),
    prepare=_checked,
)
def _(edit: Edit) -> None:
    with edit.object("ray", WEBHOOK, "images") as configuration:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"


@destructive(
    "the exporter of GPUs, which runs as root, is whatever its registry calls the latest",
    Category.SCRIPTS,
    expect(
        "DaemonSet gpu-metrics/dcgm-exporter",
        Effect.IN_PLACE,
        dangers=(RUNS, LOWER, LOOSER),
        words=("dcgm-exporter:latest",),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(exporter: Any) -> None:
        [container] = exporter["spec"]["template"]["spec"]["containers"]
        container["image"] = "nvcr.io/nvidia/k8s/dcgm-exporter:latest"

    in_chart(edit, "DaemonSet", "dcgm-exporter", changed)


@destructive(
    "the operator of KubeRay comes from somebody's registry",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(RUNS, Danger.UNKNOWN), words=("ghcr.io/somebody",)),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["image"]["repository"] = "ghcr.io/somebody/operator"


@harmless("the operator of KubeRay may use two processors", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["resources"]["limits"]["cpu"] = "2"


@harmless(
    "the reaper runs three times",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        reaper["spec"]["replicas"] = 3


@harmless(
    "finished supervisors are kept for two weeks",
    Category.SCRIPTS,
    expect("CronJob ray/job-supervisor", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "CronJob", "ray/job-supervisor") as supervisor:
        supervisor["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] *= 2


@harmless(
    "the autoscaler waits longer before it removes an idle worker",
    Category.JOBS,
    expect(RAY_CLUSTER, Effect.NEEDS_ROLLOUT, Effect.IN_PLACE),
    worst=Effect.NEEDS_ROLLOUT,
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["idleTimeoutSeconds"] = 600


@harmless(
    "Ray keeps the state of its head in Redis",
    Category.JOBS,
    expect(RAY_CLUSTER, Effect.NEEDS_ROLLOUT, Effect.IN_PLACE),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["metadata"]["annotations"]["ray.io/ft-enabled"] = "true"
        head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        head["env"].append({"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"})
