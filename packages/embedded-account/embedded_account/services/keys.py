"""Why a KMS key cannot encrypt a new resource: services ask before they create one."""

import json
from typing import Any, Final

from moto.kms.models import kms_backends
from moto.utilities.utils import get_partition

from embedded_account.services.iam.policies import allows_principal

_AWS_MANAGED: Final = "alias/aws/"


def unusable(account_id: str, region: str, key: str, *, principal: str = "", action: str = "") -> str:
    """Return why the region's services cannot encrypt with a key, given by id, ARN or alias; "" if they can.

    `principal` is a service or a role that needs `action` in the key's policy, because it has no policy of its own.
    Conditions are not evaluated. AWS's own keys (alias/aws/...) always serve.
    """
    if _AWS_MANAGED in key:
        return ""
    found = _find(account_id, region, key)
    if found is None:
        return "does not exist" if _is_in(region, key) else f"is not in region {region}"
    if found.key_state != "Enabled":
        return f"is {found.key_state}"
    # moto keeps an omitted usage as None; KMS's default is ENCRYPT_DECRYPT.
    if found.key_usage not in (None, "ENCRYPT_DECRYPT") or found.key_spec != "SYMMETRIC_DEFAULT":
        return "is not a symmetric key for encryption"
    if principal and not allows_principal(json.loads(found.policy), principal, action):
        return f"has a policy that does not allow {principal} to call {action}"
    return ""


def _is_in(region: str, key: str) -> bool:
    return not key.startswith("arn:") or f":kms:{region}:" in key


def _find(account_id: str, region: str, key: str) -> Any | None:
    """Return moto's Key; None if there is none."""
    if key.startswith("arn:") and not key.startswith(f"arn:{get_partition(region)}:kms:{region}:{account_id}:"):
        return None
    backend, name = kms_backends[account_id][region], key.rpartition(":")[2].removeprefix("key/")
    identifier = backend.get_key_id_from_alias(name) if name.startswith("alias/") else name
    return backend.keys.get(backend.get_key_id(identifier)) if identifier else None
