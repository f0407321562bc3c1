"""The base class of an environment's stacks: name, account, region, bootstrap resources, termination protection."""

import aws_cdk as cdk
from constructs import Construct

from config import Environment, naming


class EnvironmentStack(cdk.Stack):
    """One part of an environment.

    Its id is the stack's name, `<project>-<environment>-<part>`, which people pass to the CDK CLI and which names the
    template's file.

    `keeps_data`: if the environment is protected, CloudFormation refuses to delete the stack until the environment
    says `protect: false` and is deployed again.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        part: str,
        purpose: str,
        keeps_data: bool = False,
    ) -> None:
        super().__init__(
            scope,
            naming.stack(environment, part),
            env=cdk.Environment(account=environment.account, region=environment.region),
            description=purpose,
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=environment.company.bootstrap_qualifier),
            termination_protection=environment.protect and keeps_data,
        )
