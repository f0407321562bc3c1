"""Pairs by an author who had not seen the judges, the held-out half: controllers disabled, and what they run."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import WATCHED, autoscaled, autoscaler, container, in_chart, pod
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOOSER, RUNS = Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION, Danger.RUNS_CODE
DEPLOYMENT, CRON_JOB = "Deployment", "CronJob"
REAPER, SUPERVISOR = "kuberay/ray-reaper", "ray/job-supervisor"
LATER = (Effect.NEEDS_ROLLOUT, Effect.IN_PLACE, Effect.ENDS_JOBS)
ALERTMANAGER = "prometheus-system/alertmanager"


@destructive(
    "the supervisor of jobs succeeds at once",
    Category.SCRIPTS,
    expect("CronJob ray/job-supervisor", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("true",)),
)
def _(edit: Edit) -> None:
    with container(edit, CRON_JOB, SUPERVISOR) as supervisor:
        supervisor["command"] = ["true"]
        del supervisor["args"]


@destructive(
    "the reaper has no memory to start with",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("memory", "256Mi", "1Mi")),
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["resources"] = {"requests": {"cpu": "50m", "memory": "1Mi"}, "limits": {"memory": "1Mi"}}


@destructive(
    "the reaper's pods wait for a container that never ends",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("sleep infinity",)),
)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        [main] = spec["containers"]
        wait = {"name": "wait", "image": main["image"], "command": ["sh", "-c", "sleep infinity"]}
        spec["initContainers"] = [wait | {"securityContext": main["securityContext"]}]


@destructive(
    "the reaper loads its code from another place",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS, LOOSER), words=("PYTHONPATH",)),
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["env"] = [{"name": "PYTHONPATH", "value": "/dev/shm"}]


@destructive(
    "the reaper acts as an account without rights",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, Danger.WIDER_PERMISSIONS)),
)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["serviceAccountName"] = "default"


@destructive(
    "the reaper is removed",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.DELETED, dangers=LOWER, words=("ray-reaper",)),
)
def _(edit: Edit) -> None:
    edit.remove_object("ray", DEPLOYMENT, REAPER)


@destructive(
    "the reaper waits for a scheduler that there is not",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("schedulerName",)),
)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["schedulerName"] = "nobody"


@destructive(
    "the autoscaler gets the variables of a Secret",
    Category.ISOLATION,
    expect("RayCluster ray/rayml", *LATER, dangers=(LOOSER, RUNS), words=("wandb",)),
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["envFrom"] = [{"secretRef": {"name": "wandb"}}]


@destructive(
    "the autoscaler runs as root",
    Category.ISOLATION,
    expect("RayCluster ray/rayml", *LATER, dangers=LOOSER, words=("root",)),
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["securityContext"] |= {"runAsUser": 0, "runAsNonRoot": False}


@destructive(
    "Alertmanager has no replicas",
    Category.PROTECTION,
    expect("Deployment prometheus-system/alertmanager", Effect.IN_PLACE, dangers=LOWER, words=("no replicas",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with edit.object("ray", DEPLOYMENT, ALERTMANAGER) as deployment:
        deployment["spec"]["replicas"] = 0


@destructive(
    "Alertmanager's image comes from another registry",
    Category.SCRIPTS,
    expect("Deployment prometheus-system/alertmanager", Effect.IN_PLACE, dangers=RUNS, words=("docker.io/somebody",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, ALERTMANAGER) as alertmanager:
        alertmanager["image"] = "docker.io/somebody/alertmanager:v0.28.1@sha256:" + "0a" * 32


@destructive(
    "jobs no longer restart after the loss of a node",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.DELETED, dangers=LOWER, words=("job-auto-restart",)),
)
def _(edit: Edit) -> None:
    with edit.values("eks", "hyperpod-dependencies") as values:
        values["job-auto-restart"]["enabled"] = False


@harmless("the driver of FSx may use more memory", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "aws-fsx-csi-driver") as values:
        values["controller"]["resources"]["limits"]["memory"] = "512Mi"


@harmless("Prometheus keeps for longer", Category.SCRIPTS, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    def changed(deployment: Any) -> None:
        prometheus = deployment["spec"]["template"]["spec"]["containers"][0]
        prometheus["args"] = [each.replace("time=90d", "time=180d") for each in prometheus["args"]]

    in_chart(edit, DEPLOYMENT, "prometheus", changed)


@harmless("Prometheus may use more memory", Category.SCRIPTS, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    def changed(deployment: Any) -> None:
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "6Gi"

    in_chart(edit, DEPLOYMENT, "prometheus", changed)


@harmless("Alertmanager's alive check has more time", Category.SCRIPTS, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, ALERTMANAGER) as alertmanager:
        alertmanager["livenessProbe"]["timeoutSeconds"] = 3


@harmless("the reaper is pulled when it is missing only", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["imagePullPolicy"] = "IfNotPresent"


@harmless("the reaper's image is the same tag, by its digest", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["image"] += "@sha256:" + "0b" * 32


@harmless("the reaper has an annotation for scraping", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", DEPLOYMENT, REAPER) as deployment:
        deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"] = "/metrics"


@harmless(
    "the arguments of Alertmanager say which log is written",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, ALERTMANAGER) as alertmanager:
        alertmanager["args"].append("--log.format=json")


@harmless("the supervisor of jobs may use two processors", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with container(edit, CRON_JOB, SUPERVISOR) as supervisor:
        supervisor["resources"]["limits"]["cpu"] = "2"


@harmless("the autoscaler adds pods more cautiously", Category.SCRIPTS, worst=Effect.NEEDS_ROLLOUT, prepare=autoscaled)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["upscalingMode"] = "Conservative"


@harmless("the operator of KubeRay is a newer patch", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["image"]["tag"] = "v1.2.2"


@harmless("the reaper's pods are evicted last", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["priorityClassName"] = "system-cluster-critical"


@harmless("the reaper tolerates the taint of the system's nodes", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["tolerations"] = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
