"""The stack of the workflows' roles: one role that deploys an environment, and one that only reads."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from config import EksEnvironment
from stacks.delivery.permissions import assume_bootstrap_roles, detect_drift, find, wait
from stacks.shared.environment_stack import EnvironmentStack
from stacks.shared.nag_suppressions import acknowledge

ISSUER: Final = "token.actions.githubusercontent.com"
_AUDIENCE: Final = "sts.amazonaws.com"
_DEPLOYMENT: Final = cdk.Duration.hours(4)
"""How long a deployment's credentials live: half an hour of CloudFormation, then `ops wait`."""


class DeliveryStack(EnvironmentStack):
    """The roles of one environment, and GitHub's OIDC provider if the account has none.

    A token's subject names the GitHub environment of its job. A job in the environment NAME deploys, and GitHub starts
    it only after its reviewers have approved; a job in NAME-read looks.

    `repository`: OWNER/NAME on GitHub. An account has one provider for all its environments: `creates_provider` makes
    it with the first of them.
    """

    def __init__(
        self, scope: Construct, *, environment: EksEnvironment, repository: str, creates_provider: bool = False
    ) -> None:
        super().__init__(
            scope, environment=environment, part="delivery", purpose="Roles that GitHub's workflows assume by OIDC"
        )
        arn = f"arn:aws:iam::{environment.account}:oidc-provider/{ISSUER}"
        if creates_provider:
            provider = iam.CfnOIDCProvider(self, "GitHub", url=f"https://{ISSUER}", client_id_list=[_AUDIENCE])
            # CloudFormation would delete it with this stack, and the account's other environments need it.
            provider.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
            arn = provider.attr_arn
        self._role(
            "Deploy",
            arn,
            subject=f"repo:{repository}:environment:{environment.name}",
            statements=[assume_bootstrap_roles(environment), *find(environment), *wait(environment)],
            session=_DEPLOYMENT,
        )
        self._role(
            "Read",
            arn,
            subject=f"repo:{repository}:environment:{environment.name}-read",
            statements=[*find(environment), *detect_drift(environment)],
        )

    def _role(
        self,
        id: str,
        provider_arn: str,
        *,
        subject: str,
        statements: list[iam.PolicyStatement],
        session: cdk.Duration | None = None,
    ) -> None:
        """Add a role for tokens with this subject, and the output of its ARN."""
        claims = {f"{ISSUER}:aud": _AUDIENCE, f"{ISSUER}:sub": subject}
        role = iam.Role(
            self,
            id,
            description=f"GitHub workflows with the subject {subject}",
            assumed_by=iam.WebIdentityPrincipal(provider_arn, {"StringEquals": claims}),
            inline_policies={"Workflow": iam.PolicyDocument(statements=statements)},
            max_session_duration=session,
        )
        wide = [arn for each in statements for arn in each.resources if "*" in arn]
        acknowledge(
            role,
            "It reads descriptions of resources whose ids AWS chooses",
            *(f"IAM5[Resource::{arn}]" for arn in sorted(set(wide))),
        )
        cdk.CfnOutput(self, f"{id}RoleArn", value=role.role_arn)
