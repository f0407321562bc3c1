"""The reviewed way to the end of a protected environment."""

import boto3
from botocore.exceptions import ClientError

from config import Environment, naming

PROTECTED = ("network", "storage")


def unprotect(environment: Environment) -> list[str]:
    """Switch termination protection off and return the names of the stacks that exist."""
    cloudformation = boto3.client("cloudformation", region_name=environment.region)
    changed = []
    for part in PROTECTED:
        name = naming.stack(environment, part)
        try:
            cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                continue
            raise
        changed.append(name)
    return changed
