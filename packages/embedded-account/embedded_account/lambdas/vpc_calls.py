"""Refuse calls of functions in a VPC if their subnets have no route to the service.

Simulated: on AWS such a call hangs until the function times out. Here it is refused at once, with the reason.
"""

import re
from functools import partial
from typing import Any, Final
from wsgiref.types import WSGIApplication

from moto.awslambda.models import lambda_backends
from moto.ec2.models import ec2_backends
from moto.sts.models import sts_backends
from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
from embedded_account.context import Account
from embedded_account.services.ec2.reach import NetworkLocation, unreachable

CODE: Final = "RehearsalNoRoute"
_CREDENTIAL: Final = re.compile(r"(\w+)/\d{8}/[a-z0-9-]+/([a-z0-9-]+)/aws4_request")
_ENDPOINTS: Final = {"ecr": "ecr.api", "sagemaker": "sagemaker.api"}
"""Services whose endpoint name differs from the name in signed requests."""


def guarded(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind this check."""
    return error_responses.guarded(application, partial(_refusal, account))


def why_unreachable(account: Account, function: Any, service: str) -> str:
    """Return why one of a function's subnets has no route to the service, or "". `function` is moto's."""
    config = function._vpc_config or {}
    groups = tuple(config.get("SecurityGroupIds", ()))
    ec2 = ec2_backends[account.account_id][account.region]
    reasons = (unreachable(ec2, NetworkLocation(subnet, groups), [service]) for subnet in config.get("SubnetIds", ()))
    return next(filter(None, reasons), "")


def refused_since(account: Account, function: Any, since: float) -> str:
    """Return the reason of the last refused call of a function since a time (seconds since the epoch), or ""."""
    reasons = [
        entry["no_route"]
        for entry in account.journal.entries(kind="lambda")
        if entry["function"] == function.function_name and entry["time"] >= since and "no_route" in entry
    ]
    return str(reasons[-1]) if reasons else ""


def _refusal(account: Account, request: Request) -> Response | None:
    signed = _CREDENTIAL.search(request.headers.get("Authorization") or request.args.get("X-Amz-Credential", ""))
    if not signed or not (function := _function_of(account, signed.group(1))):
        return None
    service = signed.group(2)
    why = why_unreachable(account, function, _ENDPOINTS.get(service, service))
    if not why:
        return None
    account.journal.record("lambda", function=function.function_name, no_route=why)
    return error_responses.make(service, CODE, why, 400)


def _function_of(account: Account, access_key: str) -> Any:
    """Return the function in a VPC that received these credentials of its role (credentials.py), or None."""
    session = sts_backends[account.account_id]["aws"].get_assumed_role_from_access_key(access_key)
    if session is None:
        return None
    functions = lambda_backends[account.account_id][account.region].list_functions()
    return next(
        (
            each
            for each in functions
            if each._vpc_config and (each.function_name[:64], each.role) == (session.session_name, session.role_arn)
        ),
        None,
    )
