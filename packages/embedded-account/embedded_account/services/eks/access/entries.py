"""Access entries: the IAM principals that can use a cluster, with their Kubernetes groups and access policies."""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from embedded_account.context import Account
from embedded_account.services.eks.access.policies import (
    ARN_PREFIX,
    POLICY_NAMES,
    AccessBindings,
    PolicyAssociation,
    group_of,
)
from embedded_account.services.eks.errors import in_use, invalid_parameter, invalid_request, not_found
from embedded_account.services.eks.records import ClusterRecords
from embedded_account.services.iam.access import backend_of

_TYPES = frozenset({"STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"})
_NODE_GROUPS = {
    "EC2_LINUX": ["system:nodes"],
    "HYPERPOD_LINUX": ["system:nodes"],
}
_RESERVED_GROUPS = ("system:", "eks:", "aws:", "amazon:", "iam:")
_SESSION_NAME = "{{SessionName}}"


@dataclass
class AccessEntry:
    """The access entry of one principal; `policies` maps each policy's ARN to its accessScope."""

    cluster_name: str
    principal_arn: str
    arn: str
    type: str
    username: str
    kubernetes_groups: list[str]
    tags: dict[str, str]
    created_at: datetime
    modified_at: datetime
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)

    def grants(self) -> Iterator[PolicyAssociation]:
        """Yield a grant for each access policy of the entry."""
        for arn, scope in self.policies.items():
            yield PolicyAssociation(
                self.principal_arn, arn.removeprefix(ARN_PREFIX), tuple(scope.get("namespaces", ()))
            )

    def groups(self) -> list[str]:
        """Return the Kubernetes groups of users who authenticate with this entry."""
        return [*self.kubernetes_groups, group_of(self.principal_arn)]

    def user(self, session_name: str) -> str:
        """Return the Kubernetes user name of a role session."""
        return self.username.replace(_SESSION_NAME, session_name)


class AccessEntryStore:
    """The access entries of all clusters."""

    def __init__(self, account: Account, records: ClusterRecords) -> None:
        self._account = account
        self._records = records
        self._lock = threading.RLock()
        self._entries: dict[str, dict[str, AccessEntry]] = {}
        self._bindings: dict[str, AccessBindings] = {}

    def open(self, cluster_name: str) -> None:
        """Start to manage the entries of a cluster; its control plane must run."""
        api = self._account.clusters.get(cluster_name).control_plane.api
        bindings = AccessBindings(api, lambda: self._grants(cluster_name))
        with self._lock:
            self._entries[cluster_name] = {}
            self._bindings[cluster_name] = bindings
        bindings.start()

    def close(self, cluster_name: str) -> None:
        """Forget the entries of a cluster that is deleted."""
        with self._lock:
            self._entries.pop(cluster_name, None)
            bindings = self._bindings.pop(cluster_name, None)
        if bindings:
            bindings.stop()

    def find(self, cluster_name: str, principal_arn: str) -> AccessEntry | None:
        """Return the entry of a principal, or None."""
        return self._entries.get(cluster_name, {}).get(principal_arn)

    def get(self, cluster_name: str, principal_arn: str) -> AccessEntry:
        """Return the entry of a principal; raise EKS's error if it does not exist."""
        self._records.cluster(cluster_name)
        entry = self.find(cluster_name, principal_arn)
        if entry is None:
            raise not_found(f"The specified principalArn could not be found: {principal_arn}.")
        return entry

    def all(self, cluster_name: str) -> list[AccessEntry]:
        """Return all entries of a cluster."""
        self._records.cluster(cluster_name)
        return list(self._entries.get(cluster_name, {}).values())

    def create(self, cluster_name: str, request: Mapping[str, Any]) -> AccessEntry:
        """Carry out a CreateAccessEntry request."""
        self._records.active_cluster(cluster_name)
        principal, kind = request["principalArn"], request.get("type", "STANDARD")
        groups = list(request.get("kubernetesGroups") or [])
        self._check(principal, kind, groups)
        now = self._account.clock.now()
        name = principal.rsplit("/", 1)[-1]
        entry = AccessEntry(
            cluster_name=cluster_name,
            principal_arn=principal,
            arn=f"arn:aws:eks:{self._account.region}:{self._account.account_id}:access-entry/{cluster_name}/"
            f"{principal.split(':')[5].split('/')[0]}/{self._account.account_id}/{name}/{uuid.uuid4()}",
            type=kind,
            username=request.get("username") or _username(principal, kind),
            kubernetes_groups=groups or list(_NODE_GROUPS.get(kind, [])),
            tags=dict(request.get("tags") or {}),
            created_at=now,
            modified_at=now,
        )
        with self._lock:
            entries = self._entries[cluster_name]
            if principal in entries:
                raise in_use("The specified access entry resource is already in use on this cluster.")
            entries[principal] = entry
        return entry

    def update(self, cluster_name: str, principal_arn: str, request: Mapping[str, Any]) -> AccessEntry:
        """Carry out an UpdateAccessEntry request: the groups and the user name."""
        entry = self.get(cluster_name, principal_arn)
        groups = list(request.get("kubernetesGroups") or [])
        self._check(principal_arn, entry.type, groups)
        entry.kubernetes_groups = groups or list(_NODE_GROUPS.get(entry.type, []))
        entry.username = request.get("username") or entry.username
        entry.modified_at = self._account.clock.now()
        return entry

    def delete(self, cluster_name: str, principal_arn: str) -> None:
        """Delete an entry with its policies."""
        self.get(cluster_name, principal_arn)
        with self._lock:
            del self._entries[cluster_name][principal_arn]
        self._bindings[cluster_name].reconcile()

    def associate(
        self, cluster_name: str, principal_arn: str, policy_arn: str, scope: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Associate an access policy with an entry, or change its scope; return the AssociatedAccessPolicy."""
        entry = self.get(cluster_name, principal_arn)
        if entry.type != "STANDARD":
            raise invalid_request(f"Access policies cannot be associated with entries of type {entry.type}")
        check_policy(policy_arn)
        kind, namespaces = scope.get("type"), list(scope.get("namespaces") or [])
        if kind not in ("cluster", "namespace") or (kind == "namespace") != bool(namespaces):
            raise invalid_parameter(
                'accessScope is invalid. Allowed: {"type": "cluster"}, or {"type": "namespace"} with namespaces'
            )
        entry.policies[policy_arn] = {"type": kind, "namespaces": namespaces}
        entry.modified_at = self._account.clock.now()
        self._bindings[cluster_name].reconcile()
        return self.policy_of(entry, policy_arn)

    def disassociate(self, cluster_name: str, principal_arn: str, policy_arn: str) -> None:
        """Remove an access policy from an entry."""
        entry = self.get(cluster_name, principal_arn)
        if policy_arn not in entry.policies:
            raise not_found(f"The specified policyArn is not associated: {policy_arn}")
        del entry.policies[policy_arn]
        self._bindings[cluster_name].reconcile()

    def policy_of(self, entry: AccessEntry, policy_arn: str) -> dict[str, Any]:
        """Return an associated policy as the API's AssociatedAccessPolicy."""
        return {
            "policyArn": policy_arn,
            "accessScope": entry.policies[policy_arn],
            "associatedAt": entry.modified_at,
            "modifiedAt": entry.modified_at,
        }

    def _grants(self, cluster_name: str) -> list[PolicyAssociation]:
        with self._lock:
            entries = list(self._entries.get(cluster_name, {}).values())
        return [grant for entry in entries for grant in entry.grants()]

    def _check(self, principal: str, kind: str, groups: Sequence[str]) -> None:
        iam = backend_of(self._account)
        known = {role.arn for role in iam.get_roles()} | {user.arn for user in iam.users.values()}
        if principal not in known:
            raise invalid_parameter(f"The specified principalArn is invalid: invalid principal. ({principal})")
        if kind not in _TYPES:
            raise invalid_parameter(f"type {kind} is invalid. Allowed: {', '.join(sorted(_TYPES))}")
        if groups and kind != "STANDARD":
            raise invalid_parameter(f"kubernetesGroups cannot be set for an entry of type {kind}")
        if reserved := [group for group in groups if group.startswith(_RESERVED_GROUPS)]:
            raise invalid_parameter(
                f"The kubernetes group name {reserved[0]} is invalid, it cannot start with {_RESERVED_GROUPS}"
            )


def check_policy(policy_arn: str) -> None:
    """Raise EKS's error unless the access policy is one of `POLICY_NAMES`."""
    if policy_arn not in {ARN_PREFIX + name for name in POLICY_NAMES}:
        known = ", ".join(sorted(POLICY_NAMES))
        raise invalid_parameter(f"The policyArn {policy_arn} is not valid. Allowed in the rehearsal: {known}")


def _username(principal: str, kind: str) -> str:
    """Return EKS's default user name: for a role with the session's name, for a node with its private DNS name."""
    if kind != "STANDARD":
        return "system:node:{{EC2PrivateDNSName}}"
    if ":role/" not in principal:
        return principal
    account, role = principal.split(":")[4], principal.rsplit("/", 1)[-1]
    return f"arn:aws:sts::{account}:assumed-role/{role}/{_SESSION_NAME}"
