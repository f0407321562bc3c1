"""IAM roles for service accounts (IRSA): pods on HyperPod have no instance metadata, so each gets a role of its own."""

import json
from collections.abc import Sequence

from aws_cdk import Fn
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct


class IrsaRole(Construct):
    """A role that only the pods of one service account can take; `policies` by a name for people."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.Cluster,
        namespace: str,
        service_account: str,
        description: str,
        statements: Sequence[iam.PolicyStatement],
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.CfnRole(
            self,
            "Role",
            description=description,
            assume_role_policy_document={},
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name="access", policy_document=iam.PolicyDocument(statements=list(statements))
                )
            ],
        )
        # Text does not pass the typed property's check while CDK collects references between stacks, and it then
        # leaves all of the role's as they are (2.275.0).
        self.role.add_property_override(
            "AssumeRolePolicyDocument", _trust(cluster.open_id_connect_provider, namespace, service_account)
        )

    @property
    def arn(self) -> str:
        """The role's ARN."""
        return self.role.attr_arn


def _trust(provider: iam.IOpenIdConnectProvider, namespace: str, service_account: str) -> str:
    """Return the trust policy as JSON text.

    The issuer, known at deployment only, is part of the condition's keys, and an intrinsic function cannot be a key.
    `AWS::IAM::Role` takes the policy as text as well, in which it can stand anywhere: no CfnJson, no function.
    """
    arn = provider.open_id_connect_provider_arn
    issuer = Fn.select(1, Fn.split(":oidc-provider/", arn))
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": "sts:AssumeRoleWithWebIdentity",
                    "Principal": {"Federated": arn},
                    "Condition": {
                        "StringEquals": {
                            f"{issuer}:aud": "sts.amazonaws.com",
                            f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                        }
                    },
                }
            ],
        }
    )
