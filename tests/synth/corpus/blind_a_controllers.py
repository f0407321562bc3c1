"""Pairs by an author who had not seen the judges, the open half: controllers that are disabled, and what they run."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import WATCHED, autoscaled, autoscaler, container, pod
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOOSER, RUNS = Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION, Danger.RUNS_CODE
DEPLOYMENT, CRON_JOB = "Deployment", "CronJob"
REAPER, SUPERVISOR = "kuberay/ray-reaper", "ray/job-supervisor"
# KubeRay adds its container to a head pod that it creates, and leaves a running head alone.
LATER = (Effect.NEEDS_ROLLOUT, Effect.IN_PLACE, Effect.ENDS_JOBS)


@destructive(
    "the reaper waits for a day before it looks at a lost node",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("--unready-seconds=86400",)),
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["args"] = [each.replace("unready-seconds=30", "unready-seconds=86400") for each in reaper["args"]]


@destructive(
    "the reaper sleeps",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("sleep",)),
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["command"] = ["sleep", "infinity"]


@destructive(
    "the reaper waits for a node that there is not",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("nobody",)),
)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["nodeSelector"] = {"ray-on-hyperpod/node-role": "nobody"}


@destructive(
    "the kubelet kills the reaper again and again",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("livenessProbe",)),
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["livenessProbe"] = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}


@destructive(
    "Alertmanager's image is a tag that moves instead of a digest",
    Category.SCRIPTS,
    expect("Deployment prometheus-system/alertmanager", Effect.IN_PLACE, dangers=(RUNS, LOWER), words=("latest",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, "prometheus-system/alertmanager") as alertmanager:
        alertmanager["image"] = "quay.io/prometheus/alertmanager:latest"


@destructive(
    "the autoscaler's image comes from somebody",
    Category.SCRIPTS,
    expect("RayCluster ray/rayml", *LATER, dangers=RUNS, words=("somebody",)),
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["image"] = "docker.io/somebody/ray:2.42.1"


@destructive(
    "the autoscaler is privileged",
    Category.ISOLATION,
    expect("RayCluster ray/rayml", *LATER, dangers=LOOSER, words=("privileged",)),
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["securityContext"] = {"privileged": True}


@destructive(
    "the autoscaler loads a library from the shared file system",
    Category.SCRIPTS,
    expect("RayCluster ray/rayml", *LATER, dangers=(RUNS, LOOSER), words=("LD_PRELOAD",)),
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["env"].append({"name": "LD_PRELOAD", "value": "/fsx/lib.so"})


@destructive(
    "the supervisor of jobs looks at another namespace",
    Category.SCRIPTS,
    expect("CronJob ray/job-supervisor", Effect.IN_PLACE, dangers=(LOWER, RUNS), words=("--namespace=default",)),
)
def _(edit: Edit) -> None:
    with container(edit, CRON_JOB, SUPERVISOR) as supervisor:
        supervisor["args"] = [each.replace("namespace=ray", "namespace=default") for each in supervisor["args"]]


@destructive(
    "nobody watches the health of nodes",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.DELETED, dangers=LOWER, words=("health-monitoring-agent",)),
)
def _(edit: Edit) -> None:
    with edit.values("eks", "hyperpod-dependencies") as values:
        values["health-monitoring-agent"]["enabled"] = False


@harmless("the reaper has longer to stop", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with pod(edit, DEPLOYMENT, REAPER) as spec:
        spec["terminationGracePeriodSeconds"] = 10


@harmless("the reaper may use more memory", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


@harmless(
    "the autoscaler may use more memory",
    Category.SCRIPTS,
    expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, Effect.IN_PLACE),
    worst=Effect.NEEDS_ROLLOUT,
    prepare=autoscaled,
)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["resources"]["limits"]["memory"] = options["resources"]["requests"]["memory"] = "1Gi"


@harmless("the autoscaler waits for longer", Category.SCRIPTS, worst=Effect.NEEDS_ROLLOUT, prepare=autoscaled)
def _(edit: Edit) -> None:
    with autoscaler(edit) as options:
        options["idleTimeoutSeconds"] = 600


@harmless("the reaper runs on a newer patch of Python", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with container(edit, DEPLOYMENT, REAPER) as reaper:
        reaper["image"] = reaper["image"].replace("3.12.11", "3.12.12")
