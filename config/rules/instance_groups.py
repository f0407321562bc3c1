"""Rules about HyperPod's instance groups."""

from collections.abc import Iterator
from typing import Final

from config.facts.instance_types import catalogue, regions_of
from config.facts.regions import regions, table_date
from config.model import EksEnvironment, Environment
from config.rules.parts import groups, is_known, repeated
from config.rules.rule import Violation, error, warning

# Prefixes of labels that Kubernetes, HyperPod and this project set.
_RESERVED: Final = ("kubernetes.io", "k8s.io", "sagemaker.amazonaws.com", "ray-on-hyperpod")

_TABLE: Final = "config/facts/instance_types.yaml"

# The taint that the plugin tolerates (aws/sagemaker-hyperpod-cli: neuron-device-plugin/templates).
_NEURON_TAINT: Final = ("aws.amazon.com/neuron", "NoSchedule")


@error("V3")
def known_instance_types(environment: Environment) -> Iterator[Violation]:
    """Require an instance type whose figures are known.

    Why: requests of Ray's pods, subnets and pod limits depend on the figures. HyperPod's names begin with `ml.`.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites; config/facts/instance_types.yaml.
    Example: hyperpod.instance_groups.0.instance_type: m5.2xlarge
    """
    for key, group in groups(environment):
        name = group.instance_type
        if not name.startswith("ml."):
            allowed = "HyperPod's names, such as ml.m5.2xlarge"
            yield Violation(f"{key}.instance_type", "it is an EC2 type", allowed, f"write ml.{name}")
        elif not is_known(group):
            from config.suggest import closest  # noqa: PLC0415

            family = name.split(".")[1]
            sizes = [known for known in catalogue() if known.split(".")[1] == family]
            all_families = sorted({known.split(".")[1] for known in catalogue()})
            allowed = ", ".join(sizes) if sizes else f"types of {', '.join(all_families)}"
            guess = closest(name, sizes or catalogue())
            fix = f"did you mean {guess!r}? Or state the figures" if guess else "state the figures"
            yield Violation(f"{key}.instance_type", "it is not in the catalogue", allowed, f"{fix} in type_facts")


@warning("V76")
def types_of_the_region(environment: Environment) -> Iterator[Violation]:
    """Warn of an instance type that is not known to be offered in the region.

    Why: a group of such a type gets no nodes, and the deployment reports this only after minutes to hours.
    Source: EC2 API reference, DescribeInstanceTypeOfferings; the table is config/facts/instance_types.yaml.
    Example: region: eu-south-1
    """
    if environment.region not in regions():
        return
    named = [(f"{key}.instance_type", group.instance_type) for key, group in groups(environment) if is_known(group)]
    system = environment.system_nodes
    # The table lists only the catalogue's families.
    if system and regions_of(system.instance_type) is not None:
        named.append(("eks.system_nodes.instance_type", system.instance_type))
    for key, name in named:
        offering = regions_of(name) or ()
        if environment.region not in offering:
            code, day = environment.region, table_date()
            reason = f"it is not known to be offered in {code} as of {day}"
            advised = f"regions that offer it: {', '.join(offering)}" if offering else f"types of {_TABLE}"
            ec2 = name.removeprefix("ml.")
            ask = (
                f"`aws ec2 describe-instance-type-offerings --region {code} --filters Name=instance-type,Values={ec2}`"
            )
            yield Violation(key, reason, advised, f"run {ask}, then add it to {_TABLE}, or choose another type")


@error("V4")
def threads_per_core(environment: Environment) -> Iterator[Violation]:
    """Require threads per core that the type supports.

    Why: EC2 refuses two threads per core on types without hyper-threads.
    Source: EC2 API reference, VCpuInfo: ValidThreadsPerCore.
    Example: hyperpod.instance_groups.1.threads_per_core: 3
    """
    for key, group in groups(environment):
        if is_known(group) and group.threads_per_core not in group.type.threads_per_core:
            allowed = ", ".join(map(str, group.type.threads_per_core))
            reason = f"{group.instance_type} does not support it"
            yield Violation(f"{key}.threads_per_core", reason, allowed, f"write {group.type.threads_per_core[0]}")


@error("V5")
def deep_health_checks(environment: Environment) -> Iterator[Violation]:
    """Allow deep health checks only on accelerated groups without taints, each check once.

    Why: the checks test accelerators, and set a taint that allows no other taint.
    Source: AWS docs, sagemaker-hyperpod-eks-resiliency-deep-health-checks, sagemaker-hyperpod-eks-prerequisites.
    Example: hyperpod.instance_groups.0.deep_health_checks: [InstanceStress]
    """
    for key, group in groups(environment):
        if not group.deep_health_checks or not is_known(group):
            continue
        if not group.type.accelerated:
            reason = f"{group.instance_type} has no accelerators to test"
            yield Violation(f"{key}.deep_health_checks", reason, "accelerated types", "remove the key")
        elif group.taints:
            reason = "deep_health_checks sets a taint that allows no other taint"
            yield Violation(f"{key}.taints", reason, "no taints", "remove taints, or deep_health_checks")
        if twice := repeated(group.deep_health_checks):
            yield Violation(
                f"{key}.deep_health_checks", f"it has {', '.join(twice)} twice", "each check once", "delete one of them"
            )


@warning("V30")
def connectivity_of_one_node(environment: Environment) -> Iterator[Violation]:
    """Warn of a connectivity check in a group of one node.

    Why: InstanceConnectivity tests the connection between nodes.
    Source: AWS docs, sagemaker-hyperpod-eks-resiliency-deep-health-checks.
    Example: hyperpod.instance_groups.1.count: 1
    """
    for key, group in groups(environment):
        if "InstanceConnectivity" in group.deep_health_checks and group.count < 2:
            yield Violation(
                f"{key}.deep_health_checks",
                f"InstanceConnectivity tests the connection between two nodes, and the group has {group.count}",
                "InstanceConnectivity on groups of two or more nodes",
                "remove InstanceConnectivity",
            )


@error("V6")
def min_count(environment: Environment) -> Iterator[Violation]:
    """Require a `min_count` of at most `count`.

    Why: SageMaker refuses other values. Continuous provisioning is always on.
    Source: SageMaker API reference, CreateCluster: MinInstanceCount.
    Example: hyperpod.instance_groups.1.min_count: 5
    """
    for key, group in groups(environment):
        if group.min_count is not None and group.min_count > group.count:
            reason, allowed = f"count is {group.count}", f"at most count, {group.count}"
            yield Violation(f"{key}.min_count", reason, allowed, "lower min_count, or raise count")


@error("V18")
def volumes(environment: Environment) -> Iterator[Violation]:
    """Require a volume size that SageMaker accepts.

    Why: CreateCluster refuses other sizes.
    Source: SageMaker API reference, ClusterEbsVolumeConfig: VolumeSizeInGB.
    Example: hyperpod.instance_groups.0.volume_gib: 0
    """
    for key, group in groups(environment):
        if not 1 <= group.volume_gib <= 16384:
            reason = "SageMaker does not accept this size"
            yield Violation(f"{key}.volume_gib", reason, "1 to 16384", "write 500, or remove the key")


@error("V31")
def labels_and_taints(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse reserved prefixes, duplicates, and more than 50 labels or taints.

    Why: other components own reserved prefixes, and HyperPod accepts 50 labels and 50 taints.
    Source: Kubernetes docs, well-known labels; SageMaker API reference, ClusterKubernetesConfig.
    Example: hyperpod.instance_groups.0.labels: {kubernetes.io/role: head}
    """
    allowed = f"any prefix but {', '.join(_RESERVED)}"
    for key, group in groups(environment):
        for name in group.labels:
            if _reserved(name):
                fix = "use a prefix of your own, or none"
                yield Violation(f"{key}.labels.{name}", "its prefix is reserved", allowed, fix, repr(name))
        for n, taint in enumerate(group.taints):
            if _reserved(taint.key):
                fix = "use a prefix of your own, or none"
                yield Violation(f"{key}.taints.{n}.key", "its prefix is reserved", allowed, fix)
        for what, number in (("labels", len(group.labels)), ("taints", len(group.taints))):
            if number > 50:
                yield Violation(f"{key}.{what}", f"there are {number}", f"at most 50 {what}", f"delete {number - 50}")
        for first, second, *_ in repeated(f"{taint.key} with {taint.effect}" for taint in group.taints).values():
            reason = f"{key}.taints.{first} has the same key and effect"
            yield Violation(f"{key}.taints.{second}", reason, "each key and effect once", "delete one of the two")


@error("V68")
def taints_of_neuron_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse taints that keep the Neuron device plugin away.

    Why: HyperPod's chart fixes the plugin's tolerations in its template; without the plugin a node offers no devices.
    Source: aws/sagemaker-hyperpod-cli, neuron-device-plugin/templates.
    Example: hyperpod.instance_groups.2.taints: [{key: team, effect: NoSchedule}]
    """
    for key, group in groups(environment):
        if not is_known(group) or not group.type.accelerated or group.type.gpus:
            continue
        for n, taint in enumerate(group.taints):
            if taint.effect != "PreferNoSchedule" and (taint.key, taint.effect) != _NEURON_TAINT:
                yield Violation(
                    f"{key}.taints.{n}",
                    f"it keeps the Neuron device plugin from {group.instance_type}",
                    f"{' with '.join(_NEURON_TAINT)}, or effect PreferNoSchedule",
                    "write effect: PreferNoSchedule",
                    f"{taint.key} with {taint.effect}",
                )


def _reserved(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and any(prefix == name or prefix.endswith(f".{name}") for name in _RESERVED)
