"""Rules about HyperPod's memory tier."""

from collections.abc import Iterator
from typing import Final

from config.facts.capacity import NodeTooSmallError, allocatable, share_mib
from config.model import EksEnvironment
from config.rules.image import package_names
from config.rules.parts import by_name, lowered, ray_pods
from config.rules.rule import Violation, warning

_CLIENT: Final = "amzn-sagemaker-checkpointing"


@warning("V93")
def memory_beside_the_tier(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a Ray pod that requests memory which HyperPod's memory tier may use.

    Why: pods and checkpoints together would need more memory than the node has: the kubelet then evicts pods, or the
    pod stays pending. Workers without `memory_gib` leave the tier its part.
    Source: SageMaker API reference, ClusterTieredStorageConfig: InstanceMemoryAllocationPercentage.
    Example: hyperpod.tiered_storage: {memory_percent: 100}
    """
    percent, known = environment.hyperpod.tier_percent, by_name(environment)
    for key, pod in ray_pods(environment):
        group = known.get(pod.instance_group)
        if not percent or group is None or pod.memory_gib is None:
            continue
        try:
            offered = allocatable(group.type, group.threads_per_core).memory_mib
        except NodeTooSmallError:
            continue
        most = max(0, offered - share_mib(group.type, percent)) // 1024
        if pod.memory_gib > most:
            yield Violation(
                f"{key}.memory_gib",
                f"the memory tier may use {percent} % of the {group.type.memory_gib:g} GiB of {group.instance_type}",
                f"at most {most}",
                ", ".join((*lowered(pod, "memory_gib", most), "lower hyperpod.tiered_storage.memory_percent"))
                + ", or choose a larger type",
            )


@warning("V94")
def client_of_the_tier(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a memory tier whose client the built image does not have.

    Why: the runs then save into their storage only. The image's lock cannot hold the client, because it is published as
    source only.
    Source: PyPI, amzn-sagemaker-checkpointing 1.1.3.
    Example: image.pip: []
    """
    image = environment.image
    if environment.hyperpod.tiered_storage and not image.uri and _CLIENT not in package_names(image.pip):
        yield Violation(
            "hyperpod.tiered_storage",
            f"the image lacks {_CLIENT}, by which runs reach the memory tier",
            f"a memory tier with image.pip: [{_CLIENT}==1.1.3]",
            "add that to image.pip, or remove tiered_storage",
        )
