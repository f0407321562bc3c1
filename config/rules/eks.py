"""Rules of the EKS cluster."""

import re
from collections.abc import Iterator

from config import versions
from config.model import Environment
from config.rules.rule import error


@error("V2")
def kubernetes_version(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod lists the versions it works with (AWS docs: sagemaker-hyperpod-eks-prerequisites)."""
    version = environment.eks.version
    if version not in versions.KUBERNETES_VERSIONS:
        yield "eks.version", f"{version!r}; allowed: {', '.join(versions.KUBERNETES_VERSIONS)}"


@error("V26")
def system_nodes_are_x86(environment: Environment) -> Iterator[tuple[str, str]]:
    """The node image is x86-64, and the Ray image for HyperPod's x86-64 nodes is built there."""
    kind = environment.eks.system_nodes.instance_type
    if re.match(r"[a-z]+\d+g", kind):
        yield "eks.system_nodes.instance_type", f"{kind!r} is a Graviton type; allowed: x86-64 types"
