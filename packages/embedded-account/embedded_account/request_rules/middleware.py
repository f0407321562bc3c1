"""Check each request against botocore's model of its service, and against the rules of its operation."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final
from wsgiref.types import WSGIApplication

import botocore.session
from botocore.model import ServiceModel
from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
from embedded_account.admission.middleware import CALLER, SignedCaller
from embedded_account.admission.signatures import body_of
from embedded_account.context import Account
from embedded_account.permissions.calls import SIGNING_NAMES, UnknownCallError, call_of
from embedded_account.request_rules import identity, keys, s3, simple
from embedded_account.request_rules.call import CheckedCall, RequestRefusedError
from embedded_account.services.shared.shapes import error_text, violations

_INVALID: Final = {
    "events": "ValidationException",
    "iam": "ValidationError",
    "kms": "ValidationException",
    "logs": "InvalidParameterException",
    "ssm": "ValidationException",
    "sts": "ValidationError",
}
"""The error codes of services whose requests are compared with botocore's model; other services compare their own."""
_RULES: Final[Mapping[str, Mapping[str, Callable[[CheckedCall], None]]]] = {
    "iam": identity.IAM,
    "kms": keys.RULES,
    "s3": s3.RULES,
    "sts": identity.STS,
    **simple.RULES,
}
_READS: Final = ("Describe", "Filter", "Get", "List", "PutEvents", "PutLogEvents")
"""How operations begin that need no check: they change nothing, or their callers are the account's own functions."""


def only_valid(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind the checks, which follow those of permissions."""
    return error_responses.guarded(application, partial(_refusal, account))


def _refusal(account: Account, request: Request) -> Response | None:
    caller: SignedCaller | None = request.environ[CALLER]
    if caller is None or caller.service not in {*_RULES, *_INVALID} or _is_unchecked(request, caller.service):
        return None
    try:
        call = call_of(request, caller.service)
        if call.operation.startswith(_READS):
            return None
        if found := list(_violations(call.service, call.operation, call.parameters)):
            raise RequestRefusedError(_INVALID[call.service], error_text(found))
        if rule := _RULES.get(call.service, {}).get(call.operation):
            rule(CheckedCall(account, caller.owner.arn, call.operation, call.parameters, body_of(request)))
    except UnknownCallError:
        return None  # the service says so
    except RequestRefusedError as error:
        return error_responses.make(caller.service, error.code, str(error), error.status)
    return None


def _is_unchecked(request: Request, service: str) -> bool:
    """Return whether a look at the request's head shows that no rule is about it: objects of S3 can be large."""
    if service == "s3":
        return request.method != "PUT" or "/" in request.path.strip("/")
    return request.headers.get("X-Amz-Target", "").rpartition(".")[2].startswith(_READS)


def _violations(service: str, operation: str, parameters: Mapping[str, object]) -> Iterator[str]:
    if service in _INVALID and (shape := _model(service).operation_model(operation).input_shape):
        yield from violations(shape, parameters)


@cache
def _model(service: str) -> ServiceModel:
    return botocore.session.Session().get_service_model(SIGNING_NAMES.get(service, service))
