"""Refuse what CloudFormation's caller, or the stack's role, has no right to."""

from dataclasses import dataclass

from botocore.credentials import Credentials
from flask import has_request_context, request

from embedded_account.admission.access_keys import AccessKeyOwner
from embedded_account.admission.middleware import CALLER
from embedded_account.cloudformation.handlers import Properties, ResourceHandler, Target
from embedded_account.cloudformation.rights import needs
from embedded_account.cloudformation.stack import Handle
from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.permissions.check import identity_of, refusal
from embedded_account.services.iam.grants import grants_of
from embedded_account.services.iam.policies import PolicyDecision


def caller() -> str:
    """Return the ARN of who made the request that is being answered; "" outside of a request."""
    signed = request.environ.get(CALLER) if has_request_context() else None
    return signed.owner.arn if signed else ""


@dataclass(frozen=True)
class PermittedHandler:
    """A handler whose actions need the rights of `principal`, a role's or user's ARN; the account's root has all."""

    handler: ResourceHandler
    account: Account
    principal: str

    def create(self, target: Target, properties: Properties) -> Handle:
        self._require("create", target, properties, {})
        return self.handler.create(target, properties)

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        self._require("update", target, new, old)
        return self.handler.update(target, handle, old, new)

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        self._require("delete", target, properties, {})
        self.handler.delete(target, handle, properties)

    def _require(self, operation: str, target: Target, properties: Properties, before: Properties) -> None:
        if not self.principal:
            return
        owner = AccessKeyOwner(self.principal, "AWSCloudFormation", Credentials("", ""))
        identity = identity_of(self.account, owner)
        if identity is None:
            return
        grants = grants_of(self.account.account_id, identity, self.account.journal)
        for action, resource, context in needs(self.account, target, operation, properties, before):
            decision = grants.decide(action, resource, context)
            if decision is not PolicyDecision.ALLOW:
                raise ResourceError(refusal(owner, action, resource, decision))
