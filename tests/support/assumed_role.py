"""Give a test the credentials of a role."""

from collections.abc import Callable, Mapping
from typing import Any


def credentials(client: Callable[[str], Any], arn: str) -> dict[str, str]:
    """Return credentials of a role, as environment variables."""
    keys: Mapping[str, Any] = client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }
