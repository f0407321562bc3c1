"""IAM roles for service accounts (IRSA): pods on HyperPod have no instance metadata, so each gets a role of its own."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Fn
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

# The issuer is known only at deployment and is part of the condition's keys, where no intrinsic function is allowed.
# `AWS::IAM::Role` also accepts the policy as text, so `Fn::Sub` inserts the issuer: neither CfnJson nor a function is
# needed. (In a joined text, CDK 2.275 would overlook references between stacks.)
_TRUST: Final = """{
  "Version": "2012-10-17",
  "Statement": [{
    "Effect": "Allow",
    "Action": "sts:AssumeRoleWithWebIdentity",
    "Principal": {"Federated": "${Provider}"},
    "Condition": {"StringEquals": {
      "${Issuer}:aud": "sts.amazonaws.com",
      "${Issuer}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"
    }}
  }]
}"""


class IrsaRole(Construct):
    """A role that only the pods of one service account can assume."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        namespace: str,
        service_account: str,
        description: str,
        statements: Sequence[iam.PolicyStatement] = (),
        managed_policies: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.CfnRole(
            self,
            "Role",
            description=description,
            assume_role_policy_document=_trust(cluster.open_id_connect_provider, namespace, service_account),
            managed_policy_arns=list(managed_policies) or None,
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name="access", policy_document=iam.PolicyDocument(statements=list(statements))
                )
            ]
            if statements
            else None,
        )

    @property
    def arn(self) -> str:
        """Return the role's ARN."""
        return self.role.attr_arn


def _trust(provider: iam.IOpenIdConnectProvider, namespace: str, service_account: str) -> str:
    """Return the trust policy; a provider's ARN ends in its issuer without `https://`."""
    arn = provider.open_id_connect_provider_arn
    return Fn.sub(
        _TRUST,
        {
            "Provider": arn,
            "Issuer": Fn.select(1, Fn.split(":oidc-provider/", arn)),
            "Namespace": namespace,
            "ServiceAccount": service_account,
        },
    )
