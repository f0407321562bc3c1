"""Rules of the EKS cluster and who may use it."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, collapse_addresses
from typing import Final

from config import naming, versions
from config.model import Environment
from config.rules.rule import error
from config.rules.walk import groups, repeated, said_of_a_new

_EVERYWHERE: Final = IPv4Network("0.0.0.0/0")
# Addresses that no client has at the public endpoint. Not Python's `is_private`, which has the examples' own
# (203.0.113.0/24 and others) too.
_RESERVED: Final = tuple(
    IPv4Network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")
)
# Kubernetes' own, HyperPod's (its chart's name for it is fixed), Kubeflow's, and those of k8s_charts/names.py.
_TAKEN_NAMESPACES: Final = (
    *("default", "kube-system", "kube-public", "kube-node-lease"),
    *("aws-hyperpod", "kubeflow", "image-build", "prometheus-system"),
)
_REFUSED_ADD_ONS: Final = {"aws-fsx-csi-driver": "would be a second FSx CSI driver: the platform stack has one"}


@error("V2")
def kubernetes_version(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod lists the versions it works with (AWS docs: sagemaker-hyperpod-eks-prerequisites).

    Each has a kubectl of at most one minor version apart (Kubernetes: version skew policy).
    """
    version = environment.eks.version
    if version not in versions.KUBECTL_LAYERS:
        yield "eks.version", f"{version!r}; allowed: {', '.join(versions.KUBERNETES_VERSIONS)}"
    elif abs(int(version.split(".")[1]) - int(versions.KUBECTL_LAYERS[version].removeprefix("v"))) > 1:
        layer = versions.KUBECTL_LAYERS[version]
        yield "eks.version", f"{version!r} has no kubectl within one minor version, only {layer}"


@error("V26")
def system_nodes_are_x86(environment: Environment) -> Iterator[tuple[str, str]]:
    """The node image is x86-64, and the Ray image for HyperPod's x86-64 nodes is built there."""
    kind = environment.eks.system_nodes.instance_type
    if re.match(r"[a-z]+[0-9]+g", kind):
        yield "eks.system_nodes.instance_type", f"{kind!r} is a Graviton type; allowed: x86-64 types"


@error("V41")
def endpoint(environment: Environment) -> Iterator[tuple[str, str]]:
    """A public endpoint is for a known network; a private one has no list of networks. "The block cannot include
    reserved addresses" (EKS user guide: cluster API server endpoint).
    """
    eks = environment.eks
    if eks.existing:
        return
    if eks.endpoint_access == "private":
        if eks.public_access_cidrs:
            yield "eks.public_access_cidrs", "must be left out where endpoint_access is private"
    elif not eks.public_access_cidrs:
        message = "is missing; allowed: blocks of your office or VPN, or endpoint_access: private"
        yield "eks.public_access_cidrs", message
    elif not _are_the_whole_world(eks.public_access_cidrs):
        for n, block in enumerate(eks.public_access_cidrs):
            if any(block.overlaps(reserved) for reserved in _RESERVED):
                allowed = "the public address of your VPN's exit, or endpoint_access: private"
                yield (
                    f"eks.public_access_cidrs.{n}",
                    f"{block} has private addresses, which EKS refuses; allowed: {allowed}",
                )


@error("V42")
def endpoint_of_the_whole_world(environment: Environment) -> Iterator[tuple[str, str]]:
    """The API of a cluster with such nodes is not for everybody to knock at."""
    if _are_the_whole_world(blocks := environment.eks.public_access_cidrs):
        listed = ", ".join(map(str, blocks))
        yield "eks.public_access_cidrs", f"{listed}: the whole world; allowed: your office or VPN"


def _are_the_whole_world(blocks: tuple[IPv4Network, ...]) -> bool:
    return _EVERYWHERE in collapse_addresses(blocks)


@error("V43")
def existing_cluster(environment: Environment) -> Iterator[tuple[str, str]]:
    """A cluster that exists is in a VPC that exists, and keeps its endpoint and add-ons as they are."""
    eks = environment.eks
    if eks.existing is None:
        return
    if environment.network.existing is None:
        yield "network.existing", "is missing; an existing EKS cluster is in a VPC that exists"
    yield from said_of_a_new("cluster", "eks", eks, ("endpoint_access", "public_access_cidrs", "add_ons"))


@error("V44")
def add_ons(environment: Environment) -> Iterator[tuple[str, str]]:
    """An add-on is there once (EKS CreateAddon), and some bring what the stacks bring already."""
    names = [add_on.name for add_on in environment.eks.add_ons]
    if twice := repeated(names):
        yield "eks.add_ons", f"{', '.join(twice)} stands there twice"
    for n, name in enumerate(names):
        if name in _REFUSED_ADD_ONS:
            yield f"eks.add_ons.{n}.name", f"{name!r} {_REFUSED_ADD_ONS[name]}"


@error("V45")
def namespaces(environment: Environment) -> Iterator[tuple[str, str]]:
    """Operator and RayClusters have a namespace each, with its own Pod Security level and policies."""
    own = {"kuberay.namespace": environment.kuberay.namespace, "ray.namespace": environment.ray.namespace}
    for key, name in own.items():
        if name in _TAKEN_NAMESPACES:
            yield key, f"{name!r} is taken; allowed: any but {', '.join(_TAKEN_NAMESPACES)}"
    if len(set(own.values())) == 1:
        yield "ray.namespace", f"{environment.ray.namespace!r} is KubeRay's; allowed: another"
    elif environment.kuberay.namespace == naming.volume_namespace(environment):
        yield "kuberay.namespace", f"{environment.kuberay.namespace!r} is that of Ray's volume; allowed: another"


@error("V46")
def roles(environment: Environment) -> Iterator[tuple[str, str]]:
    """A role has one access entry on a cluster (EKS CreateAccessEntry: principalArn)."""
    access = environment.access
    if twice := repeated([*access.admins, *access.submitters]):
        yield "access", f"{', '.join(twice)} stands there twice; allowed: once, in admins or submitters"


@error("V34")
def arns(environment: Environment) -> Iterator[tuple[str, str]]:
    """Capacity and identity provider are the account's and the region's own (IAM and SageMaker API reference)."""
    account, region = environment.account, environment.region
    for key, group in groups(environment):
        if group.training_plan and group.training_plan.split(":")[3:5] != [region, account]:
            yield f"{key}.training_plan", f"{group.training_plan!r} is not of account {account} in {region}"
    if existing := environment.eks.existing:
        arn = existing.oidc_provider_arn
        if arn.split(":")[4] != account or f"/oidc.eks.{region}." not in arn:
            yield "eks.existing.oidc_provider_arn", f"{arn!r} is not of account {account} in {region}"
