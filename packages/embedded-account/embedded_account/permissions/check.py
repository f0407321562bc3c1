"""Refuse what a caller's policies do not allow.

Evaluated is every caller but the account's root: users, and sessions of roles, whether a person assumed the role, a
function, a state machine or a pod. Of resource policies those of buckets count; services that use a KMS key evaluate
its policy. HyperPod evaluates the callers of its own calls. What CloudFormation does with its role, or with the
caller's own rights, is evaluated for the types of `cloudformation.rights`.
"""

from collections.abc import Iterator
from typing import Any

from werkzeug.wrappers import Request

from embedded_account.admission.access_keys import AccessKeyOwner
from embedded_account.context import Account
from embedded_account.hyperpod.api.operations import CALLS, TAG_CALLS
from embedded_account.permissions import keys, s3
from embedded_account.permissions.calls import AwsCall, UnknownCallError, call_of
from embedded_account.permissions.required import FREE, action_of, needs_of
from embedded_account.permissions.resource_policies import resource_policy
from embedded_account.permissions.tags import tags_of
from embedded_account.services.iam.access import backend_of, find_role
from embedded_account.services.iam.grants import document, grants_of
from embedded_account.services.iam.policies import (
    Context,
    PolicyDecision,
    UnsupportedPolicyError,
    trusts_caller,
)

_Need = tuple[str, str, Context]
"""An action, a resource, and the condition keys."""


class AccessDeniedError(Exception):
    """The caller's policies do not allow the request; the message names the action and the resource."""


def authorize(account: Account, owner: AccessKeyOwner, request: Request, service: str) -> None:
    """Record which permissions a request needs, and raise AccessDeniedError if one is missing."""
    identity = identity_of(account, owner)
    if identity is None:
        return
    try:
        call = call_of(request, service)
        if call.operation in FREE.get(service, ()) or _is_of_hyperpod(call):
            return
        grants = grants_of(account.account_id, identity, account.journal)
        for action, resource, context in _needs(account, call):
            own = resource_policy(account, resource, owner.arn)
            decision = grants.decide(action, resource, context, own)
            if decision is not PolicyDecision.ALLOW:
                raise AccessDeniedError(refusal(owner, action, resource, decision))
        if action_of(call) == "sts:AssumeRole":
            _require_trust(account, owner, call)
    except (UnknownCallError, UnsupportedPolicyError) as error:
        raise AccessDeniedError(f"The embedded account cannot evaluate this request of {owner.arn}: {error}") from error


def identity_of(account: Account, owner: AccessKeyOwner) -> Any | None:
    """Return moto's Role or User of the caller; None for the account's root."""
    if ":user/" in owner.arn:
        return next(user for user in list(backend_of(account).users.values()) if user.arn == owner.arn)
    role = find_role(account, owner.arn)
    if ":role/" in owner.arn and role is None:
        raise AccessDeniedError(f"The role of the session no longer exists: {owner.arn}")
    return role


def _is_of_hyperpod(call: AwsCall) -> bool:
    """Return whether HyperPod's simulator answers the call: it evaluates every caller itself."""
    if call.service != "sagemaker" or call.operation not in CALLS:
        return False
    return call.operation not in TAG_CALLS or ":cluster/" in str(call.parameters.get("ResourceArn"))


def _needs(account: Account, call: AwsCall) -> Iterator[_Need]:
    own = dict.fromkeys(("aws:PrincipalAccount", "aws:ResourceAccount", "s3:ResourceAccount"), account.account_id)
    context = {**own, "aws:RequestedRegion": account.region, "aws:SecureTransport": "true"}
    if call.service == "s3":
        context |= s3.conditions_of(call)
    for action, resource in needs_of(account, call):
        yield action, resource, context | tags_of(account, call.service, resource)
    for action, key, own_context in keys.needs(account, call):
        yield action, key, {**context, **own_context}
    if call.service == "cloudformation" and (role := call.parameters.get("RoleARN")):
        yield "iam:PassRole", role, context | {"iam:PassedToService": "cloudformation.amazonaws.com"}


def _require_trust(account: Account, owner: AccessKeyOwner, call: AwsCall) -> None:
    parameters = call.parameters
    if parameters.get("Policy") or parameters.get("PolicyArns"):
        raise AccessDeniedError("The embedded account does not evaluate session policies")
    role = find_role(account, parameters["RoleArn"])
    context = {"sts:ExternalId": parameters["ExternalId"]} if parameters.get("ExternalId") else {}
    if role is None or not trusts_caller(document(role.assume_role_policy_document), owner.arn, context):
        raise AccessDeniedError(refusal(owner, "sts:AssumeRole", parameters["RoleArn"], PolicyDecision.IMPLICIT_DENY))


def refusal(owner: AccessKeyOwner, action: str, resource: str, decision: PolicyDecision) -> str:
    """Return AWS's sentence about a missing permission."""
    because = (
        "with an explicit deny in an identity-based policy"
        if decision is PolicyDecision.EXPLICIT_DENY
        else f"because no identity-based policy allows the {action} action"
    )
    who = owner.arn
    if owner.session_name and ":role/" in owner.arn:
        # The ARN of a session has no path.
        account, name = owner.arn.split(":")[4], owner.arn.rpartition("/")[2]
        who = f"arn:aws:sts::{account}:assumed-role/{name}/{owner.session_name}"
    return f"User: {who} is not authorized to perform: {action} on resource: {resource} {because}"
