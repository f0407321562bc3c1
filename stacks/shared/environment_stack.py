"""What all stacks of an environment share: name, account, region, and who may delete them."""

import aws_cdk as cdk
from constructs import Construct

from config import Environment, naming


class EnvironmentStack(cdk.Stack):
    """One part of an environment. Its id is the stack's name, `<project>-<environment>-<part>`: what people give to
    the CDK CLI, and what the template's file is called.

    `keeps_data` says that a protected environment must not lose the stack: CloudFormation then refuses to delete
    it until the environment says `protect: false` and is deployed again.
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
            termination_protection=environment.protect and keeps_data,
        )
