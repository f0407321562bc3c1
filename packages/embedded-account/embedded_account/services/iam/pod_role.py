"""Assume the IAM role of pods that a stand-in replaces, as the pods would, and check what the role allows."""

from collections.abc import Mapping
from dataclasses import dataclass

from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.pods.identity import AUDIENCE, ROLE
from embedded_account.services.iam.access import find_role
from embedded_account.services.iam.grants import grants_of
from embedded_account.services.iam.policies import Grants, PolicyDecision
from embedded_account.services.iam.sts import check_web_identity


class PodRoleError(Exception):
    """The pod's action is not possible; the message is the one that the pod would report."""


@dataclass(frozen=True)
class PodRole:
    """A role that pods have assumed with their service account's token."""

    arn: str
    grants: Grants

    def require(self, action: str, resource: str, context: Mapping[str, str]) -> None:
        """Raise PodRoleError unless the role's policies allow the call."""
        decision = self.grants.decide(action, resource, context)
        if decision is not PolicyDecision.ALLOW:
            raise PodRoleError(f"{self.arn} is not authorized to perform: {action} on {resource}: {decision.value}")


def take_role(account: Account, api: KubernetesClient, namespace: str, service_account: str) -> PodRole:
    """Assume the role that the service account names, as its pods do (IRSA), and return it.

    Raises PodRoleError if the service account names no role or a role that does not exist, and STS's error if STS
    refuses the token.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}"
    arn = api.get(path)["metadata"].get("annotations", {}).get(ROLE)
    if not arn:
        raise PodRoleError(f"service account {service_account} names no IAM role: its pods have no credentials")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [AUDIENCE]}}
    check_web_identity(account, arn, api.create(f"{path}/token", body)["status"]["token"])
    role = find_role(account, arn)
    if role is None:
        raise PodRoleError(f"the role {arn} does not exist")
    return PodRole(arn, grants_of(account.account_id, role, account.journal))
