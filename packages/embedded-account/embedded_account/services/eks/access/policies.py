"""Apply EKS's access policies as RBAC objects in the cluster.

EKS evaluates access policies in its own authorizer and creates no objects in the cluster. Here each association becomes
a binding of a group that represents the access entry, labelled `rehearsal/stand-in`. A namespace need not exist when a
policy is associated with it: its bindings are created when the namespace is created or recreated.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from urllib3.exceptions import HTTPError

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object

STAND_IN: Final = {"rehearsal/stand-in": "true"}
ARN_PREFIX: Final = "arn:aws:eks::aws:cluster-access-policy/"
_LABEL: Final = "rehearsal/access-entry"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_WATCH_SECONDS: Final = 120

_BUILT_IN_ROLES: Final = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
}
_READ: Final = ["get", "list", "watch"]
_ALL: Final = ["*"]
# The rules of AWS's pages that a rehearsal needs, and no more: sagemaker-hyperpod-studio-setup-eks, "Restrict with a
# cluster-access policy"; EKS user guide, "Access policy permissions".
_OWN_RULES: Final = {
    "AmazonEKSAdminViewPolicy": [{"apiGroups": ["*"], "resources": ["*"], "verbs": _READ}],
    "AmazonSagemakerHyperpodTrainingPolicy": [
        {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs", "raycronjobs"], "verbs": _ALL},
        {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs", "mpijobs", "tfjobs"], "verbs": _ALL},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _ALL},
        {"apiGroups": [""], "resources": ["pods"], "verbs": _ALL},
        {"apiGroups": [""], "resources": ["pods/log", "services", "events"], "verbs": _READ},
    ],
    "AmazonSagemakerHyperpodInferencePolicy": [
        {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayservices"], "verbs": _ALL},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "services", "events"], "verbs": _READ},
    ],
}

POLICY_NAMES: Final = frozenset({*_BUILT_IN_ROLES, *_OWN_RULES})
"""The names of the access policies that the rehearsal implements."""


@dataclass(frozen=True)
class PolicyAssociation:
    """An access policy of one access entry; `namespaces` can contain wildcards and is empty for the whole cluster."""

    principal_arn: str
    policy: str
    namespaces: tuple[str, ...] = ()

    def covers(self, namespace: str) -> bool:
        """Return whether the grant is for this namespace."""
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)


def group_of(principal_arn: str) -> str:
    """Return the Kubernetes group that represents an access entry."""
    return f"rehearsal:access-entry:{_digest(principal_arn)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class AccessBindings:
    """The bindings of one cluster, kept equal to the grants of its access entries."""

    def __init__(self, api: KubernetesClient, grants: Callable[[], Iterable[PolicyAssociation]]) -> None:
        self._api = api
        self._grants = grants
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch_namespaces, name="eks-namespaces", daemon=True)

    def start(self) -> None:
        """Start to watch the cluster's namespaces."""
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching; the thread ends when its current watch ends."""
        self._ended.set()

    def reconcile(self) -> None:
        """Create missing bindings and delete those that no grant needs. Raises ApiError."""
        with self._lock:
            wanted = self._wanted()
            existing = [*self._existing("clusterrolebindings"), *self._existing("rolebindings")]
            for path in existing:
                if path not in wanted:
                    self._delete(path)
            for path, body in wanted.items():
                # A binding's name determines its content.
                if path not in existing:
                    self._create(path.rsplit("/", 1)[0], body)

    def _wanted(self) -> dict[str, Object]:
        """Return the bindings that the grants need, by path, and create the cluster roles that they refer to."""
        grants = list(self._grants())
        wanted = {}
        for policy in {grant.policy for grant in grants} & set(_OWN_RULES):
            role = _object("ClusterRole", _role_of(policy), {"rules": _OWN_RULES[policy]})
            self._create(f"{_RBAC}/clusterroles", role)
        namespaces = [item["metadata"]["name"] for item in self._api.get("/api/v1/namespaces")["items"]]
        for grant in grants:
            name = f"eks-access-{_digest(grant.principal_arn)}-{grant.policy.lower()}"
            if not grant.namespaces:
                wanted[f"{_RBAC}/clusterrolebindings/{name}"] = _binding("ClusterRoleBinding", name, grant)
            for namespace in filter(grant.covers, namespaces):
                path = f"{_RBAC}/namespaces/{namespace}/rolebindings/{name}"
                wanted[path] = _binding("RoleBinding", name, grant)
        return wanted

    def _existing(self, kind: str) -> list[str]:
        paths = []
        for item in self._api.get(f"{_RBAC}/{kind}", labelSelector=_LABEL)["items"]:
            metadata = item["metadata"]
            scope = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
            paths.append(f"{_RBAC}/{scope}{kind}/{metadata['name']}")
        return paths

    def _create(self, collection: str, body: Object) -> None:
        try:
            self._api.create(collection, body)
        except KubernetesClientError as error:
            # 409: the object already exists. 403 and 404: the namespace is being deleted.
            if error.status not in (403, 404, 409):
                raise

    def _delete(self, path: str) -> None:
        try:
            self._api.delete(path)
        except KubernetesClientError as error:
            if error.status != 404:
                raise

    def _watch_namespaces(self) -> None:
        while not self._ended.is_set():
            try:
                for kind, _ in self._api.watch("/api/v1/namespaces", seconds=_WATCH_SECONDS):
                    if self._ended.is_set():
                        return
                    if kind == "ADDED":
                        self.reconcile()
            except (KubernetesClientError, HTTPError, OSError):
                # The cluster is being stopped, or its API server is busy: retry.
                self._ended.wait(1)


def _role_of(policy: str) -> str:
    return _BUILT_IN_ROLES.get(policy, f"rehearsal:{policy}")


def _binding(kind: str, name: str, grant: PolicyAssociation) -> Object:
    group = "rbac.authorization.k8s.io"
    body = {
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _role_of(grant.policy)},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": group_of(grant.principal_arn)}],
    }
    return _object(kind, name, body, {_LABEL: _digest(grant.principal_arn)})


def _object(kind: str, name: str, body: Object, labels: dict[str, str] | None = None) -> Object:
    metadata = {"name": name, "labels": STAND_IN | (labels or {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **body}
