"""Rules of HyperPod's instance groups."""

from collections.abc import Iterator
from typing import Final

from config.catalogue import catalogue
from config.model import Environment
from config.rules.rule import error, warning
from config.rules.walk import groups, is_known, repeated

# Kubernetes, HyperPod and this project label nodes themselves.
_RESERVED: Final = ("kubernetes.io", "k8s.io", "sagemaker.amazonaws.com", "ray-on-hyperpod")

# What the plugin tolerates (aws/sagemaker-hyperpod-cli: neuron-device-plugin/templates).
_NEURON_TAINT: Final = ("aws.amazon.com/neuron", "NoSchedule")


@error("V3")
def known_instance_types(environment: Environment) -> Iterator[tuple[str, str]]:
    """What a type offers decides Ray's requests, subnets and pods: it must be known.

    HyperPod's names begin with `ml.` (AWS docs: sagemaker-hyperpod-eks-prerequisites).
    """
    for key, group in groups(environment):
        name = group.instance_type
        if not name.startswith("ml."):
            yield f"{key}.instance_type", f"{name!r} is EC2's name; allowed: HyperPod's, which begins with `ml.`"
        elif not is_known(group):
            family = name.split(".")[1]
            sizes = [known for known in catalogue() if known.split(".")[1] == family]
            families = sorted({known.split(".")[1] for known in catalogue()})
            allowed = ", ".join(sizes) if sizes else f"types of {', '.join(families)}"
            message = f"{name!r} is not in the catalogue; allowed: {allowed}, or another with its `type_facts`"
            yield f"{key}.instance_type", message


@error("V4")
def threads_per_core(environment: Environment) -> Iterator[tuple[str, str]]:
    """EC2 refuses two threads per core where the type has no hyper-threads (VCpuInfo.ValidThreadsPerCore)."""
    for key, group in groups(environment):
        if is_known(group) and group.threads_per_core not in group.type.threads_per_core:
            allowed = ", ".join(map(str, group.type.threads_per_core))
            yield f"{key}.threads_per_core", f"{group.threads_per_core} on {group.instance_type}; allowed: {allowed}"


@error("V5")
def deep_health_checks(environment: Environment) -> Iterator[tuple[str, str]]:
    """Deep health checks are for accelerators, and their taint bears no other beside it.

    AWS docs: sagemaker-hyperpod-eks-resiliency-deep-health-checks, sagemaker-hyperpod-eks-prerequisites.
    """
    for key, group in groups(environment):
        if not group.deep_health_checks or not is_known(group):
            continue
        if not group.type.accelerated:
            yield f"{key}.deep_health_checks", f"need an accelerated instance type, not {group.instance_type}"
        elif group.taints:
            yield f"{key}.taints", "must be empty on a group with deep_health_checks"
        if twice := repeated(list(group.deep_health_checks)):
            yield f"{key}.deep_health_checks", f"{', '.join(twice)} stands there twice"


@warning("V30")
def connectivity_of_one_node(environment: Environment) -> Iterator[tuple[str, str]]:
    """InstanceConnectivity tests the way between nodes (AWS docs: ...-resiliency-deep-health-checks)."""
    for key, group in groups(environment):
        if "InstanceConnectivity" in group.deep_health_checks and group.count < 2:
            yield (
                f"{key}.deep_health_checks",
                f"InstanceConnectivity needs two nodes to test; the group has {group.count}",
            )


@error("V6")
def min_count(environment: Environment) -> Iterator[tuple[str, str]]:
    """SageMaker CreateCluster: MinInstanceCount is at most InstanceCount. Continuous provisioning is always on."""
    for key, group in groups(environment):
        if group.min_count is not None and group.min_count > group.count:
            yield f"{key}.min_count", f"{group.min_count}; allowed: at most count, {group.count}"


@error("V18")
def volumes(environment: Environment) -> Iterator[tuple[str, str]]:
    """SageMaker CreateCluster: EbsVolumeConfig.VolumeSizeInGB."""
    for key, group in groups(environment):
        if not 1 <= group.volume_gib <= 16384:
            yield f"{key}.volume_gib", f"{group.volume_gib}; allowed: 1 to 16384"


@error("V31")
def labels_and_taints(environment: Environment) -> Iterator[tuple[str, str]]:
    """Reserved prefixes are their owners'; HyperPod takes 50 labels and 50 taints (CreateCluster: KubernetesConfig).

    Kubernetes reserves kubernetes.io and k8s.io (kubernetes.io/docs: labels-annotations-taints).
    """
    for key, group in groups(environment):
        for name in group.labels:
            if _reserved(name):
                yield f"{key}.labels", f"{name!r} has a reserved prefix; allowed: any but {', '.join(_RESERVED)}"
        for n, taint in enumerate(group.taints):
            if _reserved(taint.key):
                message = f"{taint.key!r} has a reserved prefix; allowed: any but {', '.join(_RESERVED)}"
                yield f"{key}.taints.{n}.key", message
        for what, number in (("labels", len(group.labels)), ("taints", len(group.taints))):
            if number > 50:
                yield f"{key}.{what}", f"{number} of them; allowed: 50"
        if twice := repeated([f"{taint.key} with {taint.effect}" for taint in group.taints]):
            yield f"{key}.taints", f"{', '.join(twice)} stands there twice"


@error("V68")
def taints_of_neuron_nodes(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod's chart writes the Neuron plugin's tolerations into its template; without it a node has no devices."""
    for key, group in groups(environment):
        if not is_known(group) or not group.type.accelerated or group.type.gpus:
            continue
        for n, taint in enumerate(group.taints):
            if taint.effect != "PreferNoSchedule" and (taint.key, taint.effect) != _NEURON_TAINT:
                yield (
                    f"{key}.taints.{n}",
                    f"{taint.key} with {taint.effect} keeps the Neuron device plugin from {group.instance_type}; "
                    f"allowed: {' with '.join(_NEURON_TAINT)}, or PreferNoSchedule",
                )


def _reserved(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and any(prefix == name or prefix.endswith(f".{name}") for name in _RESERVED)
