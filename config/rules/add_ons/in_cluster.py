"""The rule about Prometheus' metrics in the cluster."""

from collections.abc import Iterator
from typing import Final

from config.model import EksEnvironment
from config.rules.rule import Violation, error

# What the image build may take of a system node's disk (k8s_charts/image_build/job.py), and what images, logs and the
# kubelet's threshold for evictions need.
_BUILD_GIB: Final = 60
_NODE_GIB: Final = 40


@error("V95")
def metrics_fit_the_system_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a root volume of the system nodes that holds the metrics beside the image build.

    Why: a node without disk evicts its pods. Prometheus would stay pending, because it requests its disk.
    Source: Kubernetes docs, local ephemeral storage; this project, k8s_charts/image_build/job.py.
    Example: observability.in_cluster.storage_gib: 500
    """
    wanted = environment.observability.in_cluster
    if wanted is None:
        return
    volume = environment.eks.system_nodes.volume_gib
    most = volume - _NODE_GIB - (_BUILD_GIB if environment.image.built else 0)
    if wanted.storage_gib > most:
        yield Violation(
            "observability.in_cluster.storage_gib",
            f"a system node's root volume has {volume} GiB, of which the node and the image build need the rest",
            f"at most {most}" if most > 0 else "a larger eks.system_nodes.volume_gib",
            "lower storage_gib, or raise eks.system_nodes.volume_gib",
        )
