"""Give a test the credentials of a role."""

from collections.abc import Callable, Mapping
from typing import Any


def credentials(client: Callable[[str], Any], arn: str) -> dict[str, str]:
    """Return credentials of a role, as environment variables."""
    return variables(client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"])


def variables(keys: Mapping[str, Any]) -> dict[str, str]:
    """Return STS's credentials as environment variables."""
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }
