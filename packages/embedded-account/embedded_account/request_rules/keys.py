"""The rules of KMS: pending windows, policies that lock their author out, keys that wait for their deletion.

https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.kms.models import kms_backends

from embedded_account.request_rules.call import CheckedCall, RequestRefusedError, document_of
from embedded_account.services.iam.access import backend_of, listed
from embedded_account.services.iam.policies import UnsupportedPolicyError, admits

_WINDOW_DAYS: Final = range(7, 31)
_MALFORMED: Final = "MalformedPolicyDocumentException"
_NEED_A_KEY: Final = (
    "CreateGrant", "Decrypt", "DisableKey", "DisableKeyRotation", "EnableKey", "EnableKeyRotation", "Encrypt",
    "GenerateDataKey", "GenerateDataKeyPair", "GenerateDataKeyWithoutPlaintext", "GenerateMac", "ReEncrypt", "Sign",
    "UpdateKeyDescription", "Verify", "VerifyMac",
)  # fmt: skip


def _check_window(call: CheckedCall) -> None:
    days = call.parameters.get("PendingWindowInDays")
    if days is not None and days not in _WINDOW_DAYS:
        raise RequestRefusedError(
            "ValidationException", f"PendingWindowInDays must be between 7 and 30 (inclusive), but is {days}"
        )


def _check_policy(call: CheckedCall) -> None:
    text = call.parameters.get("Policy")
    if text is None:
        return
    policy = document_of(str(text), _MALFORMED, "The new key policy is not valid JSON")
    known = {each.arn for each in (*backend_of(call.account).get_roles(), *backend_of(call.account).users.values())}
    own = tuple(f"arn:aws:iam::{call.account.account_id}:{kind}/" for kind in ("role", "user"))
    for statement in listed(policy.get("Statement")):
        principal = statement.get("Principal")
        for arn in listed(principal.get("AWS")) if isinstance(principal, dict) else []:
            if str(arn).startswith(own) and arn not in known:
                raise RequestRefusedError(
                    _MALFORMED, "Policy contains a statement with one or more invalid principals."
                )
    if not call.parameters.get("BypassPolicyLockoutSafetyCheck") and not _keeps_its_author(call, policy):
        raise RequestRefusedError(
            _MALFORMED, "The new key policy will not allow you to update the key policy in the future."
        )


def _keeps_its_author(call: CheckedCall, policy: Mapping[str, Any]) -> bool:
    own = call.account.account_id
    names = {"*", own, f"arn:aws:iam::{own}:root", call.caller_arn}
    try:
        return admits(policy, names, "kms:PutKeyPolicy", "*", {"kms:CallerAccount": own})
    except UnsupportedPolicyError as error:
        raise RequestRefusedError(
            _MALFORMED, f"The embedded account cannot evaluate the key's policy: {error}"
        ) from error


def _check_state(call: CheckedCall) -> None:
    backend = kms_backends[call.account.account_id][call.account.region]
    identifier = str(call.parameters.get("KeyId", ""))
    key: Any = backend.keys.get(backend.any_id_to_key_id(identifier)) if identifier else None
    if key is not None and key.key_state == "PendingDeletion":
        raise RequestRefusedError("KMSInvalidStateException", f"{key.arn} is pending deletion.")


def _check_alias(call: CheckedCall) -> None:
    if str(call.parameters["AliasName"]).startswith("alias/aws/"):
        raise RequestRefusedError("NotAuthorizedException", "Aliases that begin with alias/aws/ are reserved")


RULES: Final[Mapping[str, Callable[[CheckedCall], None]]] = {
    **dict.fromkeys(_NEED_A_KEY, _check_state),
    "ScheduleKeyDeletion": _check_window,
    "CreateKey": _check_policy,
    "PutKeyPolicy": _check_policy,
    "CreateAlias": _check_alias,
}
