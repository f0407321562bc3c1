"""Refuse what a person's policies do not allow.

Evaluated are users, and roles that principals of AWS accounts may assume: the roles of people, and those that they
assume next, such as CDK's bootstrap roles. Not evaluated are roles of services (HyperPod evaluates them for its own
calls), resource policies (services that use a KMS key evaluate its policy), and what CloudFormation does with the
caller's own rights.
"""

from collections.abc import Iterator
from typing import Any

from werkzeug.wrappers import Request

from embedded_account.admission.access_keys import AccessKeyOwner
from embedded_account.context import Account
from embedded_account.hyperpod.api.operations import CALLS, TAG_CALLS
from embedded_account.permissions import keys
from embedded_account.permissions.calls import AwsCall, UnknownCallError, call_of
from embedded_account.permissions.required import FREE, action_of, resources_of
from embedded_account.permissions.tags import tags_of
from embedded_account.services.iam.access import backend_of, find_role
from embedded_account.services.iam.grants import document, grants_of
from embedded_account.services.iam.policies import (
    Context,
    PolicyDecision,
    UnsupportedPolicyError,
    trusts_accounts,
    trusts_caller,
)

_Need = tuple[str, str, Context]
"""An action, a resource, and the condition keys."""


class AccessDeniedError(Exception):
    """The caller's policies do not allow the request; the message names the action and the resource."""


def authorize(account: Account, owner: AccessKeyOwner, request: Request, service: str) -> None:
    """Record which permissions a person's request needs, and raise AccessDeniedError if one is missing."""
    person = _person(account, owner)
    if person is None:
        return
    try:
        call = call_of(request, service)
        if call.operation in FREE.get(service, ()) or _is_of_hyperpod(call):
            return
        for action, resource, context in _needs(account, call):
            decision = grants_of(account.account_id, person).decide(action, resource, context)
            account.journal.record("iam", principal=owner.arn, action=action, resource=resource, decision=decision.name)
            if decision is not PolicyDecision.ALLOW:
                raise AccessDeniedError(_refusal(owner, action, resource, decision))
        if action_of(call) == "sts:AssumeRole":
            _require_trust(account, owner, call)
    except (UnknownCallError, UnsupportedPolicyError) as error:
        raise AccessDeniedError(f"The embedded account cannot evaluate this request of {owner.arn}: {error}") from error


def _person(account: Account, owner: AccessKeyOwner) -> Any | None:
    """Return moto's Role or User of a person; None for the account's root, and for roles of services."""
    if ":user/" in owner.arn:
        return next(user for user in backend_of(account).users.values() if user.arn == owner.arn)
    role = find_role(account, owner.arn)
    if ":role/" in owner.arn and role is None:
        raise AccessDeniedError(f"The role of the session no longer exists: {owner.arn}")
    return role if role and trusts_accounts(document(role.assume_role_policy_document)) else None


def _is_of_hyperpod(call: AwsCall) -> bool:
    """Return whether HyperPod's simulator answers the call: it evaluates every caller itself."""
    if call.service != "sagemaker" or call.operation not in CALLS:
        return False
    return call.operation not in TAG_CALLS or ":cluster/" in str(call.parameters.get("ResourceArn"))


def _needs(account: Account, call: AwsCall) -> Iterator[_Need]:
    own = dict.fromkeys(("aws:PrincipalAccount", "aws:ResourceAccount", "s3:ResourceAccount"), account.account_id)
    context = {**own, "aws:RequestedRegion": account.region}
    for resource in resources_of(account, call):
        yield action_of(call), resource, context | tags_of(account, call.service, resource)
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
        raise AccessDeniedError(_refusal(owner, "sts:AssumeRole", parameters["RoleArn"], PolicyDecision.IMPLICIT_DENY))


def _refusal(owner: AccessKeyOwner, action: str, resource: str, decision: PolicyDecision) -> str:
    because = (
        "with an explicit deny in an identity-based policy"
        if decision is PolicyDecision.EXPLICIT_DENY
        else f"because no identity-based policy allows the {action} action"
    )
    who = owner.arn.replace(":role/", ":assumed-role/").replace(":iam:", ":sts:") if owner.session_name else owner.arn
    session = f"/{owner.session_name}" if owner.session_name else ""
    return f"User: {who}{session} is not authorized to perform: {action} on resource: {resource} {because}"
