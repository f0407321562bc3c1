"""Rules about KubeRay and the RayClusters."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from config.facts import support, tokens, versions
from config.labels import INSTANCE_TYPE_LABEL
from config.model import EksEnvironment
from config.rules.parts import clusters, groups, ray_pods, repeated, same_names, workers
from config.rules.rule import Violation, error, warning

# KubeRay 1.2.0 (controllers/ray/common/pod.go) and k8s_charts/ray/pods.py set these themselves.
OWN_VARIABLES: Final = {
    *("RAY_ADDRESS", "RAY_PORT", "RAY_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLOUD_INSTANCE_ID"),
    *("RAY_NODE_TYPE_NAME", "KUBERAY_GEN_RAY_START_CMD", "REDIS_PASSWORD", "NVIDIA_VISIBLE_DEVICES"),
}
"""Variables of Ray's pods that nobody else may set."""
# Paths that are in use in pods: shared memory of KubeRay and NCCL, Ray's logs, and folders of the image.
_OWN_PATHS: Final = ("/tmp/ray", "/dev/shm")  # noqa: S108  in the pod
_SYSTEM_PATHS: Final = ("/bin", "/dev", "/etc", "/home/ray", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/tmp", "/usr")  # noqa: S108
# KubeRay's generateName is the first 50 characters of `<cluster>-<group>` (kuberay 1.2.0: utils.PodName).
_POD_NAME: Final = 50
_HEAD_GROUP: Final = "headgroup"


@warning("V20")
def old_kuberay(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of KubeRay 1.2.0.

    Why: it is of August 2024. Later versions fixed the probes of its pods and conditions; none replaces a worker on a
    lost node by itself (the drills).
    Source: ray-project/kuberay, releases; #4078.
    Example: kuberay.version: 1.2.0
    """
    if environment.kuberay_version == versions.KUBERAY:
        yield Violation(
            "kuberay.version",
            "it is of August 2024; later versions fixed the probes of its pods and conditions",
            "1.6.2, which RayCronJob and AWS features for Ray need",
            "accept the warning, or try versions: current, which has 1.6.2, in a separate environment",
            versions.KUBERAY,
        )


@error("V49")
def known_kuberay(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a version of KubeRay whose chart is locked.

    Why: only locked charts are installed.
    Source: config/facts/charts.lock.yaml.
    Example: kuberay.version: 1.6.0
    """
    if environment.kuberay_version not in versions.KUBERAY_VERSIONS:
        allowed = ", ".join(versions.KUBERAY_VERSIONS)
        fix = f"remove it: versions: {environment.versions} has {environment.version_set.kuberay}"
        yield Violation("kuberay.version", "its chart is not locked", allowed, fix)


@warning("V69")
def unrehearsed_kuberay(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a version of KubeRay of which this project's CI runs little.

    Why: CI runs the operator of the default version, and now and then three drills with another; `make rehearse` runs
    the operator of each version.
    Source: this project, docs/operate/kuberay.md.
    Example: kuberay.version: 1.4.2
    """
    version = environment.kuberay_version
    if version in versions.KUBERAY_VERSIONS and version != versions.KUBERAY:
        reason = (
            f"CI runs the operator of {versions.KUBERAY}, and of others a few drills (docs/reference/kuberay-drills.md)"
        )
        fix = f"`make rehearse ENV={environment.name}` runs it; try it first in a separate environment"
        yield Violation("kuberay.version", reason, versions.KUBERAY, fix, version)


@warning("V111")
def ray_with_known_flaws(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a version of Ray with a known flaw.

    Why: below Ray 2.52.0 a web page in the browser of somebody with a way to a head can run code there, which is known
    to be exploited; below 2.54.0 it can delete jobs. Below 2.56.0 `ray.data.read_webdataset` runs code that its files
    bring. `ops dashboard` checks Host, Origin and a token of each request, `kubectl port-forward` nothing. The network
    policies keep other pods away, but see a port-forward come from the node.
    Source: Ray's advisories GHSA-q279-jhrf-cc6v, GHSA-q5fh-2hc8-f6rq and GHSA-hhrp-gw25-jr43; CISA, Known Exploited
    Vulnerabilities (config/facts/support.yaml).
    Example: ray.version: 2.42.1
    """
    found = support.versions("Ray").get(environment.ray_version)
    if found and found.flaws:
        yield Violation(
            "ray.version",
            "a web page in a browser that reaches a head can run code there; network policies stop other pods only. "
            f"Known flaws: {', '.join(found.flaws)}, of which the first is known to be exploited",
            " or ".join(f"{each.ray} (versions: {name})" for name, each in _mended()),
            "choose versions: fixed (with image.uri: an image with its Ray), and remove ray.version; until then open a "
            "head's pages only with `ops dashboard`, which checks Host, Origin and a token",
            found.version,
        )


def _mended() -> Iterator[tuple[str, versions.VersionSet]]:
    """Yield the name of each set of versions whose Ray has no known flaw, and the set."""
    found = support.versions("Ray")
    yield from ((name, each) for name, each in versions.SETS.items() if not found[each.ray].flaws)


@error("V27")
def instance_groups_of_ray(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that Ray's pods name existing instance groups.

    Why: Ray's pods select their nodes by the name of an instance group.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites (node labels).
    Example: ray.clusters.0.head.instance_group: heads
    """
    known = list(dict.fromkeys(group.name for _, group in groups(environment)))
    for key, pod in ray_pods(environment):
        if pod.instance_group not in known:
            from config.suggest import did_you_mean  # noqa: PLC0415

            fix = did_you_mean(pod.instance_group, known, "choose one of them, or add the group")
            reason = "hyperpod.instance_groups has no group of this name"
            yield Violation(f"{key}.instance_group", reason, ", ".join(known), fix)


@error("V28")
def replicas_within_bounds(environment: EksEnvironment) -> Iterator[Violation]:
    """Require `min_replicas` ≤ `replicas` ≤ `max_replicas`.

    Why: the RayCluster's definition has no such rule, so the operator would obey wrong bounds.
    Source: KubeRay 1.2.0, raycluster_types.go.
    Example: ray.clusters.0.workers.0.replicas: 0
    """
    for key, group in workers(environment):
        least, most = group.min_replicas, group.max_replicas
        if least > most:
            reason, allowed = f"max_replicas is {most}", f"at most max_replicas, {most}"
            yield Violation(f"{key}.min_replicas", reason, allowed, "lower min_replicas, or raise max_replicas")
        elif not least <= group.replicas <= most:
            reason, bound = (
                (f"max_replicas is {most}", "max") if group.replicas > most else (f"min_replicas is {least}", "min")
            )
            yield Violation(f"{key}.replicas", reason, f"{least} to {most}", f"change replicas, or {bound}_replicas")


@error("V63")
def bounds_of_autoscaling(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a worker group that the autoscaler can scale.

    Why: if the autoscaler can scale no group, the bounds are a mistake.
    Source: Ray docs, configuring autoscaling.
    Example: ray.clusters.0.workers.0.min_replicas: 10
    """
    for key, cluster in clusters(environment):
        if cluster.autoscaling and all(group.min_replicas >= group.max_replicas for group in cluster.workers):
            yield Violation(
                f"{key}.autoscaling",
                "min_replicas equals max_replicas in every worker group",
                "a worker group whose min_replicas is less than its max_replicas",
                "lower min_replicas, or remove autoscaling",
            )


@warning("V78")
def autoscaler_that_removes_all(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of autoscaling: Ray's autoscaler v1 can remove every worker.

    Why: when the API server does not answer in time, autoscaler v1 mistakes the empty answer for a cluster without
    workers, and removes all of them. Jobs end.
    Source: ray-project/ray #58933.
    Example: ray.clusters.0.autoscaling: {}
    """
    for key, cluster in clusters(environment):
        if cluster.autoscaling:
            reason = f"Ray {environment.ray_version} removes all workers when listing pods times out (ray #58933)"
            fix = "remove autoscaling, and scale with replicas"
            yield Violation(f"{key}.autoscaling", reason, "no autoscaling until autoscaler v2 can be chosen", fix)


@error("V66")
def distinct_clusters(environment: EksEnvironment) -> Iterator[Violation]:
    """Require different names of RayClusters.

    Why: RayClusters share a namespace, and KubeRay names its objects after them.
    Source: Kubernetes docs, object names.
    Example: ray.clusters.1.name: rayml
    """
    yield from same_names("ray.clusters", (cluster.name for _, cluster in clusters(environment)))


@error("V61")
def distinct_worker_groups(environment: EksEnvironment) -> Iterator[Violation]:
    """Require different names of a RayCluster's worker groups, and refuse the name `headgroup`.

    Why: KubeRay confuses pods of groups with the same name, and only its webhook, which is off, checks names.
    `headgroup` is the group of the head pod.
    Source: KubeRay 1.2.0, utils.RayNodeHeadGroupLabelValue.
    Example: ray.clusters.0.workers.0.name: headgroup
    """
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            if group.name == _HEAD_GROUP:
                reason = "it is the group of the head pod"
                yield Violation(f"{key}.workers.{n}.name", reason, "any other name", "rename the group")
        yield from same_names(f"{key}.workers", (group.name for group in cluster.workers))


@error("V62")
def pod_names(environment: EksEnvironment) -> Iterator[Violation]:
    """Require at most 50 characters in the names of RayCluster and worker group together.

    Why: KubeRay cuts longer names, and pods of two groups could then get the same name prefix.
    Source: KubeRay 1.2.0, utils.PodName.
    Example: ray.clusters.0.workers.0.name: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    """
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            name = f"{cluster.name}-{group.name}"
            if len(name) > _POD_NAME:
                reason = f"{name!r} has {len(name)} characters, and KubeRay cuts names of pods at {_POD_NAME}"
                allowed = f"at most {_POD_NAME} characters in CLUSTER-GROUP"
                yield Violation(f"{key}.workers.{n}.name", reason, allowed, "shorten one of the two names")


@error("V57")
def variables_of_others(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse variables that KubeRay or this project sets itself.

    Why: with other values HyperPod's runtime could give GPUs to the head or none to a worker, or Ray not find its head.
    Source: KubeRay 1.2.0, controllers/ray/common/pod.go.
    Example: ray.clusters.0.env: {NVIDIA_VISIBLE_DEVICES: all}
    """
    for key, cluster in clusters(environment):
        names = [(f"{key}.env.{name}", name) for name in cluster.env]
        names += [(f"{key}.secrets.{n}.env", secret.env) for n, secret in enumerate(cluster.secrets)]
        for place, name in names:
            if name in OWN_VARIABLES:
                yield Violation(place, "KubeRay or this project sets it", "other variables", "remove it", name)


@error("V112")
def token_of_a_head(environment: EksEnvironment) -> Iterator[Violation]:
    """Require of a head that is to want a token a Ray that does, and the token.

    Why: an older Ray lets everybody in, and without a token Ray does not start. KubeRay makes one from 1.5.1 on.
    Source: Ray docs, "Ray token authentication"; ray-operator v1.6.2, raycluster_controller.go (reconcileAuthSecret).
    Example: ray.clusters.0.env: {RAY_AUTH_MODE: token}
    """
    for key, cluster in clusters(environment):
        place = f"{key}.env.{tokens.AUTH_MODE}"
        if not cluster.wants_token:
            continue
        if not tokens.wanted_by(environment.ray_version):
            reason = f"Ray {environment.ray_version} asks nobody for a token"
            yield Violation(place, reason, "Ray 2.52.0 or newer", "choose versions: fixed, or remove it", "token")
        elif not cluster.token and not tokens.made_by(environment.kuberay_version):
            reason = f"nobody makes a token: KubeRay {environment.kuberay_version} does not"
            fix = f"add {tokens.AUTH_TOKEN} to `secrets`, or choose versions: current"
            yield Violation(place, reason, "a token in `secrets`, or KubeRay 1.6.2", fix, "token")


@error("V58")
def variables_given_twice(environment: EksEnvironment) -> Iterator[Violation]:
    """Require one value of each variable.

    Why: of two values the container would get only the last one.
    Source: Kubernetes docs, define environment variables for a container.
    Example: ray.clusters.0.env: {HUB_URL: x}
    """
    for key, cluster in clusters(environment):
        places = [f"{key}.env.{name}" for name in cluster.env]
        places += [f"{key}.secrets.{n}.env" for n in range(len(cluster.secrets))]
        for name, numbers in repeated([*cluster.env, *(secret.env for secret in cluster.secrets)]).items():
            first, second = (places[n] for n in numbers[:2])
            reason = f"{first} gives it another value"
            yield Violation(second, reason, "one value, in env or secrets", "delete one of the two", name)


@error("V59")
def mount_paths(environment: EksEnvironment) -> Iterator[Violation]:
    """Require mount paths that hide no other path, and each claim once.

    Why: a mount hides the files below its path, and rayproject/ray is installed in /home/ray.
    Source: Kubernetes docs, volume mounts; KubeRay 1.2.0, controllers/ray/common/pod.go.
    Example: fsx.mount_path: /tmp
    """
    fsx = environment.fsx
    yield from _collisions("fsx.mount_path", fsx.mount_path, dict.fromkeys(_OWN_PATHS, "the project's"))
    for key, cluster in clusters(environment):
        taken = dict.fromkeys(_OWN_PATHS, "the project's") | {fsx.mount_path: "the file system's"}
        claims = {fsx.claim}
        for n, volume in enumerate(cluster.volumes):
            yield from _collisions(f"{key}.volumes.{n}.mount_path", volume.mount_path, taken)
            taken[volume.mount_path] = f"{volume.claim}'s"
            if volume.claim in claims:
                yield Violation(
                    f"{key}.volumes.{n}.claim", "it is mounted already", "each claim once", "delete the item"
                )
            claims.add(volume.claim)


def _collisions(key: str, path: str, taken: dict[str, str]) -> Iterator[Violation]:
    here = PurePosixPath(path)
    for other, owner in taken.items():
        if here.is_relative_to(other) or PurePosixPath(other).is_relative_to(here):
            reason = f"it overlaps {owner} {other}"
            yield Violation(key, reason, "paths that do not overlap, such as /shared", "choose another path")
            return
    if ".." in here.parts or any(PurePosixPath(system).is_relative_to(here) for system in _SYSTEM_PATHS):
        yield Violation(key, "it would hide a system folder", "paths such as /shared", "choose another path")


@error("V22")
def node_selectors(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that a node selector by instance type names the type of the pod's instance group.

    Why: HyperPod labels nodes with its own names of types. With another type the pod would stay pending.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites.
    Example: ray.clusters.0.head.node_selector: {node.kubernetes.io/instance-type: m5.2xlarge}
    """
    types = {group.name: group.instance_type for _, group in groups(environment)}
    for key, pod in ray_pods(environment):
        wanted = pod.node_selector.get(INSTANCE_TYPE_LABEL)
        there = types.get(pod.instance_group)
        if wanted is not None and there is not None and wanted != there:
            reason = f"{pod.instance_group} has nodes of {there} only"
            place = f"{key}.node_selector.{INSTANCE_TYPE_LABEL}"
            yield Violation(place, reason, there, "remove it, or choose another instance_group", repr(wanted))
