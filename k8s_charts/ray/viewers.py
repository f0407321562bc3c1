"""What the roles of `access.viewers` may read in the cluster.

No access policy of EKS fits: AmazonEKSViewPolicy shows neither RayClusters nor nodes, and AmazonEKSAdminViewPolicy
shows Secrets (EKS user guide, "Review access policy permissions").
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import cdk8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart, add_object
from k8s_charts.shared.names import viewers_group

Rule = Mapping[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]

# No Secrets and ConfigMaps, which hold code and packages of jobs. No exec and no port-forward: they run code, because
# Ray's dashboard runs what it receives.
NAMESPACE_RULES: Final[Sequence[Rule]] = (
    {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs"], "verbs": _READ},
    {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": _READ},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _READ},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "services", "persistentvolumeclaims"], "verbs": _READ},
)
# Where the add-on with their operator is.
HYPERPOD_JOB_RULES: Final[Sequence[Rule]] = (
    {"apiGroups": ["sagemaker.amazonaws.com"], "resources": ["hyperpodpytorchjobs"], "verbs": _READ},
)
# The events of nodes are in the namespace `default`, those of other controllers in theirs.
CLUSTER_RULES: Final[Sequence[Rule]] = (
    {"apiGroups": [""], "resources": ["nodes", "persistentvolumes", "events"], "verbs": _READ},
)


class ViewersChart(ProjectChart):
    """The viewers' Roles in `namespaces`, and their ClusterRole, for the group of the access entries.

    All have the group's name: two environments can share a cluster and its namespace for image builds. With
    `hyperpod_jobs`, they read HyperPodPyTorchJobs in Ray's namespace, too.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        ray_namespace: str,
        namespaces: Sequence[str],
        hyperpod_jobs: bool = False,
    ) -> None:
        super().__init__(scope, id)
        self._name = viewers_group(ray_namespace)
        self._grant("ClusterRole", None, CLUSTER_RULES)
        for namespace in namespaces:
            more = HYPERPOD_JOB_RULES if hyperpod_jobs and namespace == ray_namespace else ()
            self._grant("Role", namespace, (*NAMESPACE_RULES, *more))

    def _grant(self, kind: str, namespace: str | None, rules: Sequence[Rule]) -> None:
        reference = {"apiGroup": _RBAC, "kind": kind, "name": self._name}
        subject = {"apiGroup": _RBAC, "kind": "Group", "name": self._name}
        self._add(kind, namespace, {"rules": list(rules)})
        self._add(f"{kind}Binding", namespace, {"roleRef": reference, "subjects": [subject]})

    def _add(self, kind: str, namespace: str | None, body: Mapping[str, Any]) -> None:
        metadata = cdk8s.ApiObjectMetadata(name=self._name, namespace=namespace)
        id = f"{kind}-{namespace}" if namespace else kind
        add_object(self, id, api_version=f"{_RBAC}/v1", kind=kind, metadata=metadata, fields=body)
