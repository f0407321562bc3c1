"""Plan an upgrade from what is deployed, and refuse what could not be finished or taken back."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment, naming
from config.estimates import costs
from config.facts.support import number
from k8s_charts.helm.kuberay import CRDS_RELEASE
from ops import stacks
from ops.change import kuberay_crds
from ops.change.kuberay_crds import CustomResourceDefinition
from ops.change.ray_clusters import LiveRayCluster
from ops.clients import REQUEST_TIMEOUT, Clients, described_cluster
from ops.errors import RefusedError
from ops.readiness.outdated_pods import is_suspended, outdated
from ops.review.assembly import Assembly
from ops.review.kubernetes.charts import release
from ops.review.kubernetes.objects import applied, literal, sources
from ops.upgrade.libraries import refuse_old_libraries
from ops.upgrade.losses import refuse_losses, refuse_unusable

OPERATOR: Final = "kuberay-operator"
_TAG: Final = re.compile(r":v?([0-9][0-9.]*)(?:@|$)")


class StepName(StrEnum):
    """What a step brings to the new versions."""

    KUBERNETES = "kubernetes"
    KUBERAY = "kuberay"
    RAY = "ray"
    PODS = "pods"


STACK_OF: Final = {StepName.KUBERNETES: "eks", StepName.KUBERAY: "platform", StepName.RAY: "ray"}


@dataclass(frozen=True)
class UpgradeStep:
    """One step, and what it does to running jobs, to data and to the bill."""

    name: StepName
    what: str
    command: str
    """What a person would type instead."""
    jobs: str
    data: str
    bill: str


@dataclass(frozen=True)
class Versions:
    """The versions that are deployed, or that a file asks for; `ray` may have several."""

    kubernetes: str
    kuberay: str
    ray: tuple[str, ...]


@dataclass(frozen=True)
class UpgradePlan:
    """The steps from what is deployed to what the environment asks for, in their order."""

    environment: EksEnvironment
    deployed: Versions
    wanted: Versions
    steps: tuple[UpgradeStep, ...]
    replaced: frozenset[tuple[str, str]]
    """RayClusters (namespace, name) whose pods are replaced."""
    others: tuple[str, ...]
    """Stacks that also differ, and that no step deploys."""


@dataclass(frozen=True)
class _Ray:
    """A live RayCluster beside the one that the deployment applies."""

    live: LiveRayCluster
    version: str
    old: int
    """The pods that the new template makes old, those of a suspended RayCluster included."""
    suspended: bool
    image: str
    wanted_image: str

    @property
    def is_replaced(self) -> bool:
        return bool(self.old) or self.suspended


def plan(environment: EksEnvironment, clients: Clients, assembly: Path) -> UpgradePlan:
    """Return the steps to the environment, whose synthesis is in the folder `assembly`.

    Raises RefusedError if a step could not be carried out, or would lose what nothing brings back.
    """
    cloudformation = clients.account.client("cloudformation")
    side = Assembly(assembly)
    differing = _differing(environment, cloudformation, side)
    rays = _rays(clients.kubernetes, side)
    operator = _operator(environment, clients.kubernetes)
    cluster = described_cluster(environment, clients.account)
    deployed = Versions(str(cluster.get("version", "")), operator, tuple(sorted({ray.version for ray in rays})))
    wanted = Versions(str(environment.eks.version), environment.kuberay_version, (environment.ray_version,))
    _refuse_kubernetes(environment, deployed.kubernetes, wanted.kubernetes)
    changes_kuberay = operator != wanted.kuberay
    crds = _crds(clients, side) if changes_kuberay else ()
    refuse_unusable(crds, wanted.kuberay, environment.name)
    refuse_losses(clients.kubernetes, crds, wanted.kuberay, {(ray.live.namespace, ray.live.name) for ray in rays})
    replaced = {(ray.live.namespace, ray.live.name): ray.version for ray in rays if ray.is_replaced}
    refuse_old_libraries(clients.kubernetes, replaced, environment.ray_version, environment.name)
    kuberay = [_kuberay(environment, operator, crds)] if "platform" in differing or changes_kuberay else []
    ray = [_deploy_ray(environment, rays)] if "ray" in differing else []
    pods = [_replace_pods(environment, rays)] if any(each.is_replaced for each in rays) else []
    first = [_kubernetes(environment, deployed.kubernetes)] if deployed.kubernetes != wanted.kubernetes else []
    # An older operator does not know what newer definitions let the RayClusters say: their values go first.
    is_back = changes_kuberay and number(wanted.kuberay) < number(operator)
    steps = [*first, *ray, *pods, *kuberay] if is_back else [*first, *kuberay, *ray, *pods]
    covered = {STACK_OF[step.name] for step in steps if step.name in STACK_OF}
    return UpgradePlan(
        environment,
        deployed,
        wanted,
        tuple(steps),
        frozenset(replaced),
        tuple(naming.stack(environment, part) for part in differing if part not in covered),
    )


def deploying(environment: EksEnvironment, part: str) -> str:
    """Return the command that deploys one stack and no other."""
    return f"cdk deploy {naming.stack(environment, part)} --exclusively -c environment={environment.name}"


# -- the steps


def _kubernetes(environment: EksEnvironment, before: str) -> UpgradeStep:
    version = str(environment.eks.version)
    return UpgradeStep(
        StepName.KUBERNETES,
        f"Kubernetes {before} → {version}: the control plane, and the system nodes, which may be replaced",
        deploying(environment, STACK_OF[StepName.KUBERNETES]),
        "continue; meanwhile no lost pod may be replaced. HyperPod's nodes stay as they are: afterwards "
        f"`ops update-software --env {environment.name}`",
        "unchanged; for seven days EKS can roll the control plane back",
        f"control plane: {_price(before)} → {_price(version)} an hour",
    )


def _kuberay(environment: EksEnvironment, before: str, crds: Sequence[CustomResourceDefinition]) -> UpgradeStep:
    version = environment.kuberay_version
    removed = sum(len(kuberay_crds.outermost(kind.removed_fields())) for kind in crds)
    fields = f"; its CRDs lack {removed} fields of {before}, which no object uses" if removed else ""
    what = f"KubeRay {before} → {version}: its CRDs, then its operator"
    return UpgradeStep(
        StepName.KUBERAY,
        what if before != version else "the platform stack: what else differs in it",
        deploying(environment, STACK_OF[StepName.KUBERAY]),
        "continue: no pod of Ray is replaced. A pod that is lost meanwhile is replaced by the new operator",
        f"unchanged{fields}",
        "unchanged",
    )


def _deploy_ray(environment: EksEnvironment, rays: Sequence[_Ray]) -> UpgradeStep:
    builds = sorted({each.wanted_image for each in rays if each.image != each.wanted_image})
    built = environment.image.built and builds
    image = f": the cluster builds {', '.join(builds)}, and the command waits for it" if built else ""
    return UpgradeStep(
        StepName.RAY,
        f"the RayClusters' objects{image}",
        deploying(environment, STACK_OF[StepName.RAY]),
        "continue: running pods keep their template. A worker that is lost from here on cannot join the old head"
        if builds
        else "continue: running pods keep their template",
        "unchanged",
        "unchanged: the image is built on the system nodes" if built else "unchanged",
    )


def _replace_pods(environment: EksEnvironment, rays: Sequence[_Ray]) -> UpgradeStep:
    replaced = [each for each in rays if each.is_replaced]
    names = ", ".join(each.live.name for each in replaced)
    pods = sum(each.old for each in replaced)
    return UpgradeStep(
        StepName.PODS,
        f"new pods for {names}: {pods} are replaced" if pods else f"new pods for {names}, which is suspended",
        f"ops rollout --env {environment.name} --checkpoint",
        "end with their pods; supervised runs resume from their last checkpoint by themselves",
        "checkpoints and the file system stay; what pods wrote elsewhere is lost",
        f"nodes that compute nothing meanwhile: US$ {_idle(environment, replaced):,.2f} an hour",
    )


def _idle(environment: EksEnvironment, replaced: Sequence[_Ray]) -> float:
    names = {each.live.name for each in replaced}
    groups = {
        group
        for cluster in environment.ray.clusters
        if cluster.name in names
        for group in (cluster.head.instance_group, *(workers.instance_group for workers in cluster.workers))
    }
    nodes = [each for each in costs.planned(environment).groups if each.item in groups]
    lines = costs.priced(costs.Inventory(tuple(nodes), None, None, 0, ()))
    return sum(line.usd_per_hour or 0 for line in lines)


def _price(version: str) -> str:
    price = costs.control_plane(version)
    return "no price" if price is None else f"US$ {price:.2f}"


# -- what is deployed


def _differing(environment: EksEnvironment, cloudformation: Any, side: Assembly) -> list[str]:
    """Return the parts whose stacks' resources differ from the synthesis, in the order of a deployment.

    Raises RefusedError if a stack is being changed or is not deployed.
    """
    found = {each.part: each for each in stacks.existing(cloudformation, environment)}
    if busy := [f"{each.name} ({each.status})" for each in found.values() if each.is_busy or each.is_being_deleted]:
        raise RefusedError(f"stacks are being changed: {', '.join(busy)}. Fix: wait until they are not, then rerun")
    if missing := [stack.name for part, stack in side.stacks.items() if part not in found]:
        raise RefusedError(
            f"{', '.join(missing)} is not deployed, and `ops upgrade` changes what is. "
            f"Fix: `cdk deploy --all -c environment={environment.name}`"
        )
    return [
        part
        for part in naming.STACKS
        if part in side.stacks
        and stacks.template(cloudformation, found[part]).get("Resources") != side.stacks[part].resources
    ]


def _operator(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> str:
    """Return the version of the operator, from its image's tag. Raises RefusedError if there is none."""
    place = f"{environment.kuberay.namespace}/{OPERATOR}"
    try:
        found = kubernetes.client.AppsV1Api(api).read_namespaced_deployment(
            OPERATOR, environment.kuberay.namespace, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status != 404:
            raise
        raise RefusedError(f"Deployment {place} does not exist. Fix: deploy the platform stack") from None
    image = found.spec.template.spec.containers[0].image
    if not (tag := _TAG.search(image)):
        raise RefusedError(
            f"Deployment {place} runs {image}, whose tag is no version of KubeRay. Fix: deploy the platform stack"
        )
    return tag[1]


def _rays(api: kubernetes.client.ApiClient, side: Assembly) -> list[_Ray]:
    """Return the environment's RayClusters. Raises RefusedError if one does not exist or is paused."""
    wanted = {(each.namespace, each.name): each.body for each in applied(side, "RayCluster")}
    return [_ray(LiveRayCluster(api, *place), body) for place, body in wanted.items()]


def _ray(live: LiveRayCluster, wanted: Mapping[str, Any]) -> _Ray:
    cluster, pods = live.unpaused()
    old = outdated(wanted, pods).old
    return _Ray(
        live,
        str(cluster["spec"].get("rayVersion", "")),
        len(old),
        is_suspended(cluster),
        _image(cluster),
        _image(wanted),
    )


def _image(cluster: Mapping[str, Any]) -> str:
    """Return the image of the head's first container, Ray's."""
    containers = cluster["spec"]["headGroupSpec"]["template"]["spec"].get("containers") or [{}]
    return str(containers[0].get("image", ""))


def _crds(clients: Clients, side: Assembly) -> list[CustomResourceDefinition]:
    """Compare the cluster's definitions with those that the synthesis holds."""
    [source] = [
        each
        for each in sources(side)
        if each.is_release and literal(each.properties.get("Release", "")) == CRDS_RELEASE
    ]
    found = release(source, side, None).objects or ()
    return kuberay_crds.read_definitions(clients.kubernetes, [each.body for each in found])


# -- refusals


def _refuse_kubernetes(environment: EksEnvironment, before: str, after: str) -> None:
    """Raise RefusedError unless Kubernetes stays, or rises by one minor version in a cluster of the environment."""
    if before == after:
        return
    key = f"{environment.name}: eks.version: {after} is invalid: the cluster runs {before}"
    if environment.existing_eks:
        raise RefusedError(f"{key}, and its owner upgrades it. Fix: write eks.version: {before}")
    minors = [int(version.partition(".")[2]) for version in (before, after)]
    if minors[1] < minors[0]:
        raise RefusedError(
            f"{key}, and this command does not go back. Fix: write eks.version: {before}; within seven days of an "
            "upgrade, EKS itself can roll the cluster back (docs/operate/upgrade.md)"
        )
    if minors[1] > minors[0] + 1:
        following = f"1.{minors[0] + 1}"
        raise RefusedError(
            f"{key}, and EKS upgrades by one minor version at a time. "
            f"Fix: write eks.version: {following}, rerun, and then the next one"
        )


def words(before: Versions, after: Versions) -> Iterator[str]:
    """Yield the versions that change, in words."""
    for title, old, new in (
        ("Kubernetes", before.kubernetes, after.kubernetes),
        ("KubeRay", before.kuberay, after.kuberay),
        ("Ray", ", ".join(before.ray), ", ".join(after.ray)),
    ):
        if old != new:
            yield f"{title} {old} → {new}"
