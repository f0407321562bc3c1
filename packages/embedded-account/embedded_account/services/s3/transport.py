"""Make bucket policies that require TLS work in an account that is served over plain HTTP.

moto ignores the conditions of bucket policies. CDK's bootstrap and `enforce_ssl` write a statement that denies
requests without TLS; moto would therefore deny every request.
"""

import json
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket


def take_http_for_https() -> None:
    """Make moto skip statements that concern only requests without TLS: HTTP on localhost counts as HTTPS here."""
    FakeBucket.get_permission = _permission


def _permission(bucket: Any, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy)
    policy["Statement"] = [each for each in policy["Statement"] if not _only_without_tls(each)]
    return IAMPolicy(json.dumps(policy)).is_action_permitted(action, resource)


def _only_without_tls(statement: dict[str, Any]) -> bool:
    transport = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")
    return str(transport).lower() == "false"
