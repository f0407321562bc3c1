"""The base class of an environment's stacks: name, account, region, bootstrap resources, termination protection."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

from config import Environment, naming


class EnvironmentStack(cdk.Stack):
    """One part of an environment.

    Its id is the stack's name, `<project>-<environment>-<part>`, which people pass to the CDK CLI and which names the
    template's file.

    `keeps_data`: if the environment is protected, CloudFormation refuses to delete the stack until the environment
    says `protect: false` and is deployed again.

    `company_key` is the key that the company gives for encryption; None lets each service use its own.
    """

    company_key: kms.IKey | None

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        part: str,
        purpose: str,
        keeps_data: bool = False,
    ) -> None:
        qualifier = environment.company.bootstrap_qualifier
        self.qualifier = naming.bootstrap_qualifier(environment)
        super().__init__(
            scope,
            naming.stack(environment, part),
            env=cdk.Environment(account=environment.account, region=environment.region),
            description=purpose,
            # The app's own synthesizer knows CDK's default qualifier; one without a qualifier would not.
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=qualifier) if qualifier else None,
            termination_protection=environment.protect and keeps_data,
        )
        arn = environment.company.kms_key
        self.company_key = kms.Key.from_key_arn(self, "CompanyKey", arn) if arn else None


def asset_bucket(scope: IConstruct) -> str:
    """Return the name of the bucket into which `cdk deploy` puts the assets of the scope's stack."""
    stack = cdk.Stack.of(scope)
    # Not `stack.synthesizer.bootstrap_qualifier`: for a synthesizer that Python has made, jsii answers None.
    qualifier = stack.qualifier if isinstance(stack, EnvironmentStack) else naming.DEFAULT_QUALIFIER
    return f"cdk-{qualifier}-assets-{stack.account}-{stack.region}"
