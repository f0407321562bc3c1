"""The rules of IAM and STS: policy documents, quotas, reserved tags, the length of sessions.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.core.exceptions import ServiceException

from embedded_account.errors import ResourceError, code_of
from embedded_account.request_rules.call import CheckedCall, RequestRefusedError, document_of
from embedded_account.services.iam.access import (
    INLINE_POLICY_CHARACTERS,
    MANAGED_POLICY_CHARACTERS,
    POLICIES_PER_ROLE,
    backend_of,
    find_role,
    listed,
    trust_document,
)

_MALFORMED: Final = "MalformedPolicyDocument"
_LIMIT: Final = "LimitExceeded"
_SESSION_SECONDS: Final = 3600
"""How long a session lasts whose request does not say so."""


def _check_new_role(call: CheckedCall) -> None:
    name = str(call.parameters["RoleName"])
    if any(role.name.lower() == name.lower() for role in backend_of(call.account).get_roles()):
        raise RequestRefusedError("EntityAlreadyExists", f"Role with name {name} already exists.", 409)
    _check_trust(call, "AssumeRolePolicyDocument")


def _check_trust(call: CheckedCall, parameter: str = "PolicyDocument") -> None:
    text = str(call.parameters[parameter])
    policy = document_of(text, _MALFORMED, "This policy contains invalid Json")
    if any("Resource" in statement for statement in listed(policy.get("Statement"))):
        raise RequestRefusedError(_MALFORMED, "Has prohibited field Resource")
    try:
        trust_document(call.account, policy)
    except (ResourceError, ServiceException) as error:
        raise _refused(error) from error


def _check_inline(call: CheckedCall) -> None:
    text, name = _permissions(call), str(call.parameters["RoleName"])
    policies: Mapping[str, str] = getattr(_role(call, name), "policies", {})
    others = sum(len(each) for policy, each in policies.items() if policy != call.parameters["PolicyName"])
    if others + len(text) > INLINE_POLICY_CHARACTERS:
        raise RequestRefusedError(
            _LIMIT, f"Maximum policy size of {INLINE_POLICY_CHARACTERS} bytes exceeded for role {name}", 409
        )


def _check_managed(call: CheckedCall) -> None:
    if len(_permissions(call)) > MANAGED_POLICY_CHARACTERS:
        raise RequestRefusedError(_LIMIT, f"Cannot exceed quota for PolicySize: {MANAGED_POLICY_CHARACTERS}", 409)


def _permissions(call: CheckedCall) -> str:
    """Return a policy document without the white space, which IAM does not count."""
    policy = document_of(str(call.parameters["PolicyDocument"]), _MALFORMED, "Syntax errors in policy.")
    if any({"Principal", "NotPrincipal"} & statement.keys() for statement in listed(policy.get("Statement"))):
        raise RequestRefusedError(_MALFORMED, "Policy document should not specify a principal.")
    return json.dumps(policy, separators=(",", ":"))


def _check_attachment(call: CheckedCall) -> None:
    attached: Mapping[str, object] = getattr(_role(call, str(call.parameters["RoleName"])), "managed_policies", {})
    if call.parameters["PolicyArn"] not in attached and len(attached) >= POLICIES_PER_ROLE:
        raise RequestRefusedError(_LIMIT, f"Cannot exceed quota for PoliciesPerRole: {POLICIES_PER_ROLE}", 409)


def _role(call: CheckedCall, name: str) -> Any | None:
    return next((role for role in backend_of(call.account).get_roles() if role.name == name), None)


def _check_tags(call: CheckedCall) -> None:
    if any(str(tag["Key"]).lower().startswith("aws:") for tag in call.parameters.get("Tags", ())):
        raise RequestRefusedError("InvalidInput", "Tag keys that begin with aws: are reserved for AWS")


def _check_session(call: CheckedCall) -> None:
    role = find_role(call.account, str(call.parameters["RoleArn"]))
    seconds = int(call.parameters.get("DurationSeconds") or _SESSION_SECONDS)
    if role is not None and seconds > int(role.max_session_duration or _SESSION_SECONDS):
        raise RequestRefusedError(
            "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        )


def _refused(error: Exception) -> RequestRefusedError:
    code = code_of(error) or _MALFORMED
    return RequestRefusedError(code, getattr(error, "message", None) or str(error), 409 if code == _LIMIT else 400)


IAM: Final[Mapping[str, Callable[[CheckedCall], None]]] = {
    "CreateRole": _check_new_role,
    "UpdateAssumeRolePolicy": _check_trust,
    "PutRolePolicy": _check_inline,
    "CreatePolicy": _check_managed,
    "CreatePolicyVersion": _check_managed,
    "AttachRolePolicy": _check_attachment,
    "TagRole": _check_tags,
}
STS: Final[Mapping[str, Callable[[CheckedCall], None]]] = {"AssumeRole": _check_session}
