"""Find parts of Kubeflow in an existing EKS cluster that HyperPod's chart would install again.

Helm does not adopt foreign objects: such an installation fails and changes nothing. Parts that the release itself
installed are skipped.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import kubernetes

from config import EksEnvironment
from config.findings import Finding, Severity, in_words
from config.model import KubeflowPart
from k8s_charts.helm.hyperpod_dependencies import RELEASE
from k8s_charts.shared.names import SYSTEM_NAMESPACE
from ops.clients import metadata
from ops.errors import in_plain_words

KEY: Final = "eks.existing.kubeflow"
_OURS: Final = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": SYSTEM_NAMESPACE}
_NAMESPACES: Final[Mapping[str, KubeflowPart]] = {"kubeflow": "namespace", "mpi-operator": "mpi-operator"}
_LEFT_OUT: Final[Mapping[KubeflowPart, str]] = {
    "namespace": "the release then leaves out that namespace",
    "training-operator": "the release then leaves out its training operator and the namespace `kubeflow`",
    "mpi-operator": "the release then leaves out its MPI operator; the pinned chart has no switch for its "
    "namespace alone",
}
# CRDs of the chart's `crds/` carry no mark of their release. The MPI operator's CRD is a template and does.
_KINDS: Final[Mapping[str, KubeflowPart]] = {
    "mxjobs.kubeflow.org": "training-operator",
    "paddlejobs.kubeflow.org": "training-operator",
    "pytorchjobs.kubeflow.org": "training-operator",
    "tfjobs.kubeflow.org": "training-operator",
    "xgboostjobs.kubeflow.org": "training-operator",
    "mpijobs.kubeflow.org": "mpi-operator",
}

_Metadata = Mapping[str, Any]


def findings(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> Iterator[Finding]:
    """Yield a warning for each part that the cluster has but the environment omits. Raises UnreachableError."""
    existing = environment.eks.existing
    if existing is None:
        return
    with in_plain_words():
        found = _foreign(api)
    for part, things in found.items():
        if part not in existing.kubeflow:
            yield Finding(
                *(KEY, in_words(existing.kubeflow)),
                f"EKS cluster {existing.name} has {', '.join(things)}, which HyperPod's chart would install "
                "again: its installation would fail",
                "the parts of Kubeflow that the cluster has (docs/operate/existing-eks.md)",
                f"add {part} to {KEY}: {_LEFT_OUT[part]}",
                severity=Severity.WARNING,
            )


def _foreign(api: kubernetes.client.ApiClient) -> dict[KubeflowPart, list[str]]:
    """Map each part to its namespaces and CRDs that our release did not install."""
    namespaces = metadata(kubernetes.client.CoreV1Api(api).list_namespace)
    kinds = metadata(kubernetes.client.ApiextensionsV1Api(api).list_custom_resource_definition)
    found: dict[KubeflowPart, list[str]] = {}
    installed = any(_is_ours(each) for each in namespaces if each["name"] in _NAMESPACES)
    for what, parts, listed in (("namespace", _NAMESPACES, namespaces), ("CRD", _KINDS, kinds)):
        for each in listed:
            part = parts.get(each["name"])
            # If our release is installed, CRDs without a mark are its own.
            if part and not _is_ours(each) and not (part == "training-operator" and installed):
                found.setdefault(part, []).append(f"{what} {each['name']}")
    return found


def _is_ours(metadata: _Metadata) -> bool:
    return (metadata.get("annotations") or {}).items() >= _OURS.items()
