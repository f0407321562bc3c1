"""Rules of KubeRay and the RayClusters."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from config import versions
from config.model import Environment
from config.rules.rule import error, warning
from config.rules.walk import clusters, groups, ray_pods, repeated, workers

# KubeRay 1.2.0 (controllers/ray/common/pod.go) and k8s_charts/ray_pods.py set these themselves.
_OWN_VARIABLES: Final = {
    *("RAY_ADDRESS", "RAY_PORT", "RAY_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLOUD_INSTANCE_ID"),
    *("RAY_NODE_TYPE_NAME", "KUBERAY_GEN_RAY_START_CMD", "REDIS_PASSWORD", "NVIDIA_VISIBLE_DEVICES"),
}
# Where pods have something already: KubeRay's and NCCL's shared memory, Ray's logs, and the image's own folders.
_OWN_PATHS: Final = ("/tmp/ray", "/dev/shm")  # noqa: S108  in the pod
_SYSTEM_PATHS: Final = ("/bin", "/dev", "/etc", "/home/ray", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/tmp", "/usr")  # noqa: S108
# KubeRay's generateName is the first 50 characters of `<cluster>-<group>` (kuberay 1.2.0: utils.PodName).
_POD_NAME: Final = 50
_HEAD_GROUP: Final = "headgroup"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"


@warning("V20")
def old_kuberay(environment: Environment) -> Iterator[tuple[str, str]]:
    """KubeRay 1.2.0 is of August 2024: its pods' probes, lost nodes and conditions were mended later."""
    if environment.kuberay.version == versions.KUBERAY:
        yield (
            "kuberay.version",
            f"{environment.kuberay.version!r} is of August 2024; a worker on a lost node is never replaced by it "
            "alone (kuberay#4078), and RayCronJob and AWS's own Ray features need 1.6.0",
        )


@error("V49")
def known_kuberay(environment: Environment) -> Iterator[tuple[str, str]]:
    """The versions that config/charts.lock.yaml has the chart of."""
    if environment.kuberay.version not in versions.KUBERAY_VERSIONS:
        allowed = ", ".join(versions.KUBERAY_VERSIONS)
        yield "kuberay.version", f"{environment.kuberay.version!r}; allowed: {allowed}"


@warning("V69")
def unrehearsed_kuberay(environment: Environment) -> Iterator[tuple[str, str]]:
    """A rehearsal runs the operator of KubeRay 1.2 only (rehearsal/kubernetes/modules/kuberay)."""
    version = environment.kuberay.version
    if version in versions.KUBERAY_VERSIONS and version != versions.KUBERAY:
        yield (
            "kuberay.version",
            f"{version!r} was never run by this project: its chart takes our values, and no rehearsal has its operator "
            "(docs/kuberay.md)",
        )


@error("V27")
def instance_groups_of_ray(environment: Environment) -> Iterator[tuple[str, str]]:
    """Ray's pods are placed by the name of an instance group."""
    known = [group.name for _, group in groups(environment)]
    for key, pod in ray_pods(environment):
        if pod.instance_group not in known:
            yield f"{key}.instance_group", f"no instance group {pod.instance_group!r}; allowed: {', '.join(known)}"


@error("V28")
def replicas_within_bounds(environment: Environment) -> Iterator[tuple[str, str]]:
    """The CRD has no such rule, and the operator follows what it finds (KubeRay 1.2.0)."""
    for key, group in workers(environment):
        if group.min_replicas > group.max_replicas:
            yield f"{key}.min_replicas", f"{group.min_replicas}; allowed: at most max_replicas {group.max_replicas}"
        elif not group.min_replicas <= group.replicas <= group.max_replicas:
            yield (
                f"{key}.replicas",
                f"{group.replicas}; allowed: between min_replicas {group.min_replicas} "
                f"and max_replicas {group.max_replicas}",
            )


@error("V63")
def bounds_of_autoscaling(environment: Environment) -> Iterator[tuple[str, str]]:
    """An autoscaler that may change nothing is a mistake in the bounds."""
    for key, cluster in clusters(environment):
        if cluster.autoscaling and all(group.min_replicas >= group.max_replicas for group in cluster.workers):
            yield f"{key}.autoscaling", "needs a worker group whose min_replicas is less than its max_replicas"


@error("V66")
def distinct_clusters(environment: Environment) -> Iterator[tuple[str, str]]:
    """RayClusters share a namespace, and all that KubeRay makes is named after them."""
    if twice := repeated([cluster.name for _, cluster in clusters(environment)]):
        yield "ray.clusters", f"name {', '.join(twice)} stands there twice; names must differ"


@error("V61")
def distinct_worker_groups(environment: Environment) -> Iterator[tuple[str, str]]:
    """KubeRay takes pods of groups of one name for each other's (only its webhook, which is off, looks).

    `headgroup` is the group of the head's pod (KubeRay 1.2.0: utils.RayNodeHeadGroupLabelValue).
    """
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            if group.name == _HEAD_GROUP:
                yield f"{key}.workers.{n}.name", f"{group.name!r} is the head's group; allowed: any other name"
        if twice := repeated([group.name for group in cluster.workers]):
            yield f"{key}.workers", f"name {', '.join(twice)} stands there twice; names must differ"


@error("V62")
def pod_names(environment: Environment) -> Iterator[tuple[str, str]]:
    """Longer names are cut, and pods of two groups then look alike (KubeRay 1.2.0: utils.PodName)."""
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            name = f"{cluster.name}-{group.name}"
            if len(name) > _POD_NAME:
                yield f"{key}.workers.{n}.name", f"{name!r} has {len(name)} characters; allowed: {_POD_NAME} together"


@error("V57")
def variables_of_others(environment: Environment) -> Iterator[tuple[str, str]]:
    """KubeRay sets its own; HyperPod's runtime would put GPUs into the head, or none into a worker."""
    for key, cluster in clusters(environment):
        names = [(f"{key}.env", name) for name in cluster.env]
        names += [(f"{key}.secrets.{n}.env", secret.env) for n, secret in enumerate(cluster.secrets)]
        for place, name in names:
            if name in _OWN_VARIABLES:
                yield place, f"{name} is set by KubeRay or this project; allowed: other variables"


@error("V58")
def variables_given_twice(environment: Environment) -> Iterator[tuple[str, str]]:
    """Of two values of a variable the container would have one, whichever comes last."""
    for key, cluster in clusters(environment):
        if twice := repeated([*cluster.env, *(secret.env for secret in cluster.secrets)]):
            yield f"{key}.secrets", f"{', '.join(twice)} has two values; allowed: one, in env or secrets"


@error("V59")
def mount_paths(environment: Environment) -> Iterator[tuple[str, str]]:
    """A mount hides what lies below it (Kubernetes: volume mounts; rayproject/ray lives in /home/ray)."""
    fsx = environment.fsx
    yield from _collisions("fsx.mount_path", fsx.mount_path, dict.fromkeys(_OWN_PATHS, "the project's"))
    for key, cluster in clusters(environment):
        taken = dict.fromkeys(_OWN_PATHS, "the project's") | {fsx.mount_path: "the file system's"}
        claims = {fsx.claim}
        for n, volume in enumerate(cluster.volumes):
            yield from _collisions(f"{key}.volumes.{n}.mount_path", volume.mount_path, taken)
            taken[volume.mount_path] = f"{volume.claim}'s"
            if volume.claim in claims:
                yield f"{key}.volumes.{n}.claim", f"{volume.claim!r} is mounted already; allowed: each claim once"
            claims.add(volume.claim)


def _collisions(key: str, path: str, taken: dict[str, str]) -> Iterator[tuple[str, str]]:
    here = PurePosixPath(path)
    for other, owner in taken.items():
        if here.is_relative_to(other) or PurePosixPath(other).is_relative_to(here):
            yield key, f"{path!r} collides with {owner} {other}; allowed: paths beside it"
            return
    if ".." in here.parts or any(PurePosixPath(system).is_relative_to(here) for system in _SYSTEM_PATHS):
        yield key, f"{path!r} would hide a folder of the system; allowed: such as /shared"


@error("V22")
def node_selectors(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod labels nodes with its own names of types (AWS docs: sagemaker-hyperpod-eks-prerequisites)."""
    types = {group.name: group.instance_type for _, group in groups(environment)}
    for key, pod in ray_pods(environment):
        wanted = pod.node_selector.get(INSTANCE_TYPE_LABEL)
        there = types.get(pod.instance_group)
        if wanted is not None and there is not None and wanted != there:
            place = f"{key}.node_selector"
            yield place, f"{INSTANCE_TYPE_LABEL} {wanted!r}; allowed: {there}, the type of {pod.instance_group}"
