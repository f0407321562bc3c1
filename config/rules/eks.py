"""Rules about the EKS cluster and access to it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from config import naming
from config.estimates import costs
from config.facts import support, versions
from config.model import EksEnvironment, Environment
from config.rules.parts import are_the_whole_world, described_twice, groups, is_reserved, repeated, same_names
from config.rules.rule import Violation, error, warning

# Namespaces of Kubernetes, of HyperPod's chart, which fixes their names, and of k8s_charts/shared/names.py.
_TAKEN_NAMESPACES: Final = (
    *("default", "kube-system", "kube-public", "kube-node-lease"),
    *("aws-hyperpod", "kubeflow", "mpi-operator", "image-build", "prometheus-system", "gpu-metrics", "efa-metrics"),
    # Namespaces of HyperPod's add-ons (task governance, observability, the endpoint operator) and their dependencies.
    *("kueue-system", "hyperpod-observability", "hyperpod-ray", "cert-manager", "amazon-cloudwatch"),
)
_REFUSED_ADD_ONS: Final = {"aws-fsx-csi-driver": "the platform stack installs the FSx CSI driver already"}
_CLIENTS: Final = "public blocks of your office or VPN, or endpoint_access: private"


@error("V2")
def kubernetes_version(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a Kubernetes version that HyperPod supports and EKS still offers.

    Why: HyperPod lists its versions. Each needs a kubectl that is at most one minor version apart. When its extended
    support ends, no cluster can be created with a version, and EKS upgrades the clusters that have it.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites; EKS user guide, Kubernetes release calendar
    (config/facts/support.yaml); Kubernetes, version skew policy.
    Example: eks.version: "1.29"
    """
    version, offered = environment.eks.version, support.offered(support.today())
    known, fix = _advice(offered)
    if version not in versions.KUBECTL_LAYERS:
        yield Violation("eks.version", "HyperPod does not support it", known, fix)
    elif version not in offered:
        ended = support.versions(support.KUBERNETES)[version].extended
        yield Violation(
            "eks.version",
            f"EKS ended its support on {ended}: no cluster can be created with it, and EKS upgrades those that have it",
            known,
            f'{fix}; for a deployed cluster "{offered[0]}", to which EKS upgrades it' if offered else fix,
        )
    elif abs(int(version.split(".")[1]) - int(versions.KUBECTL_LAYERS[version].removeprefix("v"))) > 1:
        reason = f"no kubectl is within one minor version, only {versions.KUBECTL_LAYERS[version]}"
        yield Violation("eks.version", reason, known, "correct KUBECTL_LAYERS in config/facts/versions.py")


@warning("V110")
def extended_support(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a Kubernetes version in extended support.

    Why: its control plane costs six times as much, and EKS upgrades it when the extended support ends.
    Source: EKS user guide, Kubernetes release calendar (config/facts/support.yaml); EKS pricing.
    Example: eks.version: "1.33"
    """
    version = environment.eks.version
    if support.phase(version) is not support.Phase.EXTENDED:
        return
    known = support.versions(support.KUBERNETES)
    found, price = known[version], costs.prices()["eks_cluster"]
    advised, fix = _advice([each for each, its in known.items() if its.phase is support.Phase.STANDARD])
    yield Violation(
        "eks.version",
        f"since {found.until} it is in extended support: its control plane costs US$ {price['extended']:.2f} an hour, "
        f"not {price['standard']:.2f}, until EKS upgrades it on {found.extended} or later",
        advised,
        f"{fix}; a deployed cluster goes up one minor version at a time (docs/operate/upgrade.md)",
    )


def _advice(advised: Sequence[str]) -> tuple[str, str]:
    """Return these versions of Kubernetes as text, and how to choose the latest."""
    if not advised:
        return "later versions than this project knows", "update this project (docs/operate/follow-upstream.md)"
    return ", ".join(advised), f'write version: "{advised[-1]}"'


@error("V26")
def system_nodes_are_x86(environment: EksEnvironment) -> Iterator[Violation]:
    """Require x86-64 system nodes.

    Why: they build the Ray image for HyperPod's x86-64 nodes.
    Source: EC2 instance types guide, naming conventions (`g` is Graviton).
    Example: eks.system_nodes.instance_type: m7g.xlarge
    """
    kind = environment.eks.system_nodes.instance_type
    if re.match(r"[a-z]+[0-9]+g", kind):
        reason = "it is a Graviton type, and these nodes build the Ray image for x86-64 nodes"
        yield Violation(
            "eks.system_nodes.instance_type", reason, "x86-64 types such as m5.xlarge", "choose such a type"
        )


@error("V41")
def endpoint(environment: EksEnvironment) -> Iterator[Violation]:
    """Require the client networks of a public endpoint, and none for a private endpoint.

    Why: EKS refuses private blocks in the list, and a private endpoint has no list.
    Source: EKS user guide, cluster API server endpoint ("The block cannot include reserved addresses").
    Example: eks.public_access_cidrs: [10.8.0.0/16]
    """
    eks = environment.eks
    if eks.existing:
        return
    key = "eks.public_access_cidrs"
    if eks.endpoint_access == "private":
        if eks.public_access_cidrs:
            reason = "endpoint_access is private, and has no list of networks"
            yield Violation(key, reason, "no public_access_cidrs", "remove the key, or endpoint_access")
    elif not eks.public_access_cidrs:
        reason = "a public endpoint needs the list of networks that may reach it"
        yield Violation(key, reason, _CLIENTS, "list your public address, such as [203.0.113.7/32]")
    elif not are_the_whole_world(eks.public_access_cidrs):
        for n, block in enumerate(eks.public_access_cidrs):
            if is_reserved(block):
                reason = "it contains private or reserved addresses, which EKS refuses"
                yield Violation(f"{key}.{n}", reason, _CLIENTS, "write the public address of your VPN's exit")


@error("V42")
def endpoint_of_the_whole_world(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse an endpoint that the whole world may reach.

    Why: a flaw in the API's authentication would give anyone nodes that cost tens of dollars an hour.
    Source: EKS best practices guide, cluster access management.
    Example: eks.public_access_cidrs: [0.0.0.0/0]
    """
    if are_the_whole_world(environment.eks.public_access_cidrs):
        reason, fix = "it contains all addresses of the internet", "list your public address, such as [203.0.113.7/32]"
        yield Violation("eks.public_access_cidrs", reason, _CLIENTS, fix)


@error("V43")
def existing_cluster(environment: EksEnvironment) -> Iterator[Violation]:
    """Require `network.existing` beside `eks.existing`, and no key of a new cluster.

    Why: an existing cluster is in an existing VPC, and keeps its endpoint and add-ons unchanged.
    Source: this project, docs/operate/existing-eks.md.
    Example: eks.endpoint_access: private
    """
    eks = environment.eks
    if eks.existing is None:
        return
    if environment.network.existing is None:
        yield Violation(
            "network.existing",
            "an existing EKS cluster is in an existing VPC",
            "the cluster's VPC and its subnets",
            "describe the VPC in network.existing",
        )
    yield from described_twice("cluster", "eks", eks, ("endpoint_access", "public_access_cidrs", "add_ons"))


@error("V44")
def add_ons(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse an add-on that is listed twice or that the stacks install themselves.

    Why: a cluster has each add-on once, and two FSx CSI drivers conflict over volumes.
    Source: EKS API reference, CreateAddon.
    Example: eks.add_ons: [{name: aws-fsx-csi-driver}]
    """
    names = [add_on.name for add_on in environment.eks.add_ons]
    yield from same_names("eks.add_ons", names)
    refused = _REFUSED_ADD_ONS | {
        name: f"{key} installs it already" for key, name in environment.observing_add_ons.items()
    }
    for n, name in enumerate(names):
        if name in refused:
            yield Violation(f"eks.add_ons.{n}.name", refused[name], "other add-ons", "delete the item")


@error("V79")
def vpc_cni(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse versions of the VPC CNI that do not work on HyperPod's nodes.

    Why: v1.22.0 to v1.22.3 hand a HyperPod node's own address to a pod, and HyperPod supports none before 1.18.3.
    Source: amazon-vpc-cni-k8s #3753, #3754 and #3756; AWS docs, sagemaker-hyperpod-eks-prerequisites.
    Example: eks.add_ons: [{name: vpc-cni, version: v1.22.2-eksbuild.1}]
    """
    eks, first, last = environment.eks, *versions.VPC_CNI_BROKEN
    stated = {f"eks.add_ons.{n}.version": each.version for n, each in enumerate(eks.add_ons) if each.name == "vpc-cni"}
    fix = f"remove the key, which selects {versions.VPC_CNI}"
    if eks.existing:
        stated["eks.existing.vpc_cni"] = eks.existing.vpc_cni
        fix = f"update the add-on, to {versions.VPC_CNI} or newer"
    allowed = f"{_dotted(versions.VPC_CNI_OLDEST)} and newer, but none of {_dotted(first)} to {_dotted(last)}"
    for key, version in stated.items():
        number = _numbers(version or versions.VPC_CNI)
        if first <= number <= last:
            yield Violation(key, "it hands a HyperPod node's own address to a pod", allowed, fix)
        elif number < versions.VPC_CNI_OLDEST:
            yield Violation(key, "HyperPod supports no version this old", allowed, fix)


def _numbers(version: str) -> tuple[int, ...]:
    """Return (1, 22, 4) for `v1.22.4-eksbuild.3`."""
    return tuple(int(part) for part in version.removeprefix("v").partition("-")[0].split("."))


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))


@error("V45")
def namespaces(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a namespace for the operator and another for the RayClusters, and leave add-ons theirs.

    Why: each has its own Pod Security level and network policies.
    Source: this project, docs/explain/isolation.md.
    Example: ray.namespace: kube-system
    """
    own = {"kuberay.namespace": environment.kuberay.namespace, "ray.namespace": environment.ray.namespace}
    of_add_ons = (add_on.namespace_used for add_on in environment.eks.add_ons if add_on.namespace_used)
    taken = tuple(dict.fromkeys((*_TAKEN_NAMESPACES, *of_add_ons)))
    for key, name in own.items():
        if name in taken:
            allowed = f"any but {', '.join(taken)}"
            yield Violation(key, "another component owns this namespace", allowed, "choose another name")
    if len(set(own.values())) == 1:
        yield Violation(
            "ray.namespace",
            "it is KubeRay's namespace",
            "a namespace other than kuberay.namespace",
            "choose another name",
        )
    elif environment.kuberay.namespace == naming.volume_namespace(environment):
        allowed = "a namespace other than that of Ray's volume"
        yield Violation("kuberay.namespace", "it is the namespace of Ray's volume", allowed, "choose another name")


@error("V46")
def roles(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that each role is listed once.

    Why: a role has one access entry on a cluster.
    Source: EKS API reference, CreateAccessEntry: principalArn.
    Example: access.submitters: ["arn:aws:iam::111122223333:role/PlatformAdmin"]
    """
    lists = environment.access.lists
    *first_keys, last_key = lists
    places = [f"access.{key}.{n}" for key, listed in lists.items() for n in range(len(listed))]
    for numbers in repeated([role for listed in lists.values() for role in listed]).values():
        first, second = (places[n] for n in numbers[:2])
        allowed = f"each role once, in {', '.join(first_keys)} or {last_key}"
        yield Violation(second, f"{first} is the same role", allowed, "delete one of the two")


@error("V108")
def administrators(environment: EksEnvironment) -> Iterator[Violation]:
    """Require an administrator of a new EKS cluster.

    Why: a new cluster admits no person by itself, so nobody could run kubectl, or `ops` on it. An existing cluster may
    have its administrators already, and a role has one access entry on a cluster.
    Source: EKS user guide, grant IAM users access to Kubernetes with EKS access entries; EKS API reference,
    CreateAccessEntry: principalArn.
    Example: access.admins: []
    """
    if environment.eks.existing is None and not environment.access.admins:
        yield Violation(
            "access.admins",
            "nobody could administer Kubernetes",
            "the ARNs of one or more IAM roles",
            f"list the role that you use, such as [arn:aws:iam::{environment.account}:role/PlatformAdmin]",
        )


@error("V34")
def arns(environment: Environment) -> Iterator[Violation]:
    """Require that training plans and the identity provider are of the environment's account and region.

    Why: a training plan and an OIDC provider of another account or region cannot be used.
    Source: SageMaker API reference, DescribeTrainingPlan; IAM API reference, GetOpenIDConnectProvider.
    Example: hyperpod.instance_groups.1.training_plan: "arn:aws:sagemaker:us-east-1:111122223333:training-plan/plan"
    """
    account, region = environment.account, environment.region
    reason, allowed = f"it is not of account {account} in {region}", f"ARNs of account {account} in {region}"
    for key, group in groups(environment):
        if group.training_plan and group.training_plan.split(":")[3:5] != [region, account]:
            fix = f"copy it from `aws sagemaker list-training-plans --region {region}`"
            yield Violation(f"{key}.training_plan", reason, allowed, fix)
    if existing := environment.existing_eks:
        arn = existing.oidc_provider_arn
        if arn.split(":")[4] != account or f"/oidc.eks.{region}." not in arn:
            fix = "copy it from `aws iam list-open-id-connect-providers` of the account"
            yield Violation("eks.existing.oidc_provider_arn", reason, allowed, fix)
