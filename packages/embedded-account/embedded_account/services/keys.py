"""Why a KMS key cannot encrypt a new resource: services ask before they create one."""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from moto.kms.models import kms_backends
from moto.utilities.utils import get_partition

from embedded_account.services.iam.policies import Context, UnsupportedPolicyError, admits

CREATE_GRANT: Final = "kms:CreateGrant"
_AWS_MANAGED: Final = "alias/aws/"


def unusable(
    account_id: str,
    region: str,
    key: str,
    *actions: str,
    via: str = "",
    principal: str = "",
    context: Context | None = None,
) -> str:
    """Return why the region's services cannot encrypt with a key, given by id, ARN or alias; "" if they can.

    AWS's own keys (alias/aws/...) always serve.

    Args:
        account_id: The account of the key.
        region: The region of key and services.
        key: Its id, ARN or alias.
        actions: What must be allowed, by the key's policy alone or by the policies of the account's roles.
        via: The service that calls KMS for somebody else, such as "fsx" (the condition key kms:ViaService).
        principal: A service, or a service's own role, whose only rights are those of the key's policy. Without one,
            the key's policy must leave the decision to IAM: roles of the account use the key by their own policies.
        context: Further condition keys of the request.
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
    requests = {action: context_of(account_id, region, action, via) | dict(context or {}) for action in actions}
    who = principal or f"roles of {account_id}"
    return _refused_by_policy(found, _names(account_id, region, principal), requests, who)


def _refused_by_policy(key: Any, names: Collection[str], requests: Mapping[str, Context], who: str) -> str:
    """Return why the policy of moto's Key refuses one of the actions, given with their condition keys."""
    for action, context in requests.items():
        try:
            allowed = admits(json.loads(key.policy), names, action, key.arn, context)
        except UnsupportedPolicyError as error:
            return f"has a policy that cannot be evaluated: {error}"
        if not allowed:
            return f"has a policy that does not allow {who} to call {action}"
    return ""


def context_of(account_id: str, region: str, action: str, via: str) -> dict[str, str]:
    """Return the condition keys of a call of KMS; `via` is the service that makes it for somebody else, or ""."""
    context = {"kms:CallerAccount": account_id}
    if via:
        context["kms:ViaService"] = f"{via}.{region}.amazonaws.com"
    if action == CREATE_GRANT:
        context["kms:GrantIsForAWSResource"] = "true"
    return context


def _names(account_id: str, region: str, principal: str) -> set[str]:
    """Return the names of a principal in a policy: `*` stands for every role, the account for what IAM allows."""
    if not principal:
        return {"*", account_id, f"arn:{get_partition(region)}:iam::{account_id}:root"}
    return {principal, "*"} if principal.startswith("arn:") else {principal}


def _is_in(region: str, key: str) -> bool:
    return not key.startswith("arn:") or f":kms:{region}:" in key


def _find(account_id: str, region: str, key: str) -> Any | None:
    """Return moto's Key; None if there is none."""
    if key.startswith("arn:") and not key.startswith(f"arn:{get_partition(region)}:kms:{region}:{account_id}:"):
        return None
    backend, name = kms_backends[account_id][region], key.rpartition(":")[2].removeprefix("key/")
    identifier = backend.get_key_id_from_alias(name) if name.startswith("alias/") else name
    return backend.keys.get(backend.get_key_id(identifier)) if identifier else None
