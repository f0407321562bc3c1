"""Service accounts that carry an IAM role (IRSA)."""

from dataclasses import dataclass
from typing import Final

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart

ROLE_ANNOTATION: Final = "eks.amazonaws.com/role-arn"


@dataclass(frozen=True)
class ServiceAccount:
    """A service account; with `kubernetes_token` its pods get a token for the Kubernetes API.

    The token for AWS is in a separate volume and does not need the token for the Kubernetes API.
    """

    name: str
    namespace: str
    role_arn: str
    kubernetes_token: bool = False


class ServiceAccountChart(ProjectChart):
    """One service account."""

    def __init__(self, scope: Construct, id: str, *, account: ServiceAccount) -> None:
        super().__init__(scope, id)
        k8s.KubeServiceAccount(
            self,
            "account",
            metadata=k8s.ObjectMeta(
                name=account.name,
                namespace=account.namespace,
                annotations={ROLE_ANNOTATION: account.role_arn},
            ),
            automount_service_account_token=account.kubernetes_token,
        )
