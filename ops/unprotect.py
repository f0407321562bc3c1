"""The reviewed way to the end of a protected environment."""

from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from config import Environment, naming
from ops.clients import Account
from ops.refusals import in_plain_words

PROTECTED: Final = ("network", "storage")


def unprotect(environment: Environment) -> Iterator[str]:
    """Switch termination protection off; yield the name of each stack that exists, when it is done.

    Raises Unreachable when the account cannot be used.
    """
    cloudformation = Account(environment).client("cloudformation")
    for part in PROTECTED:
        name = naming.stack(environment, part)
        with in_plain_words():
            try:
                cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
            except ClientError as error:
                if "does not exist" in error.response["Error"]["Message"]:
                    continue
                raise
        yield name
