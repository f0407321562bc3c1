"""Refuse what a person's policies do not allow, before the service sees the request."""

from functools import partial
from typing import Final
from wsgiref.types import WSGIApplication

from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
from embedded_account.admission.middleware import CALLER, SignedCaller
from embedded_account.context import Account
from embedded_account.permissions.check import AccessDeniedError, authorize

_CODES: Final = {
    **dict.fromkeys(("cloudformation", "iam", "monitoring", "s3", "sns", "sts"), "AccessDenied"),
    "ec2": "UnauthorizedOperation",
}
"""The error codes of services that refuse with another one than AccessDeniedException."""


def only_permitted(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind a check of people's permissions, which follows `only_issued_keys`."""
    return error_responses.guarded(application, partial(_refusal, account))


def _refusal(account: Account, request: Request) -> Response | None:
    caller: SignedCaller | None = request.environ[CALLER]
    if caller is None:
        # STS verifies the token of AssumeRoleWithWebIdentity, the only unsigned request that is admitted.
        return None
    try:
        authorize(account, caller.owner, request, caller.service)
    except AccessDeniedError as error:
        code = _CODES.get(caller.service, "AccessDeniedException")
        return error_responses.make(caller.service, code, str(error), 403)
    return None
