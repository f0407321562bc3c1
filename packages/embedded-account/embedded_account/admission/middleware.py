"""Admit only callers on this machine that hold keys of this run, and no web pages.

Each request must name one of the account's own hosts and must not come from a web page (no `Origin` header). A request
for an AWS service must be signed with a key that the account issued. The account's own routes require their secret
instead (control_routes.py). As on AWS, STS accepts one unsigned request: AssumeRoleWithWebIdentity, whose token STS
verifies.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qsl
from wsgiref.types import WSGIApplication

from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
from embedded_account.admission.access_keys import AccessKeyOwner, UnknownKeyError, owner_of
from embedded_account.admission.signatures import Signature, SignatureRefusedError, UnsignedError, body_of
from embedded_account.context import Account

# S3's JavaScript client puts the bucket's name before a host name. Nobody can register a name under *.localhost in DNS.
_NAMES: Final = r"(127\.0\.0\.1|([a-z0-9][a-z0-9.-]*\.)?localhost):{port}"
CALLER: Final = "embedded_account.caller"
"""The key of an admitted request's Caller in its environment; the value is None for the unsigned request."""
_UNSIGNED: Final = "AssumeRoleWithWebIdentity"
_MOTO: Final = "moto-api"
"""Moto's own API shows all resources, and resets them."""


@dataclass(frozen=True)
class SignedCaller:
    """Who signed a request, and the service that it was signed for."""

    owner: AccessKeyOwner
    service: str


def only_own_hosts(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind a check of `Host` and `Origin`.

    The check refuses foreign host names that resolve to this machine (DNS rebinding), and web pages.
    """
    own = re.compile(_NAMES.format(port=account.port))

    def refusal(request: Request) -> Response | None:
        host = request.headers.get("Host", "")
        if not own.fullmatch(host):
            return _refused(f"{host!r} is not a host of the embedded account")
        if "Origin" in request.headers:
            return _refused("the embedded account refuses requests of web pages (header Origin)")
        return None

    return error_responses.guarded(application, refusal)


def only_issued_keys(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind a check that each request is signed with a key that the account issued.

    Moto's own API answers nobody.
    """
    return error_responses.guarded(application, partial(_refusal, account))


def _refusal(account: Account, request: Request) -> Response | None:
    service = ""
    try:
        signature = Signature(request)
        service = signature.service
        owner = owner_of(account, signature.access_key_id, signature.session_token)
        signature.verify(owner.credentials, account.clock.now())
        request.environ[CALLER] = SignedCaller(owner, service)
    except UnsignedError as error:
        if _proves_itself(request):
            request.environ[CALLER] = None
            return None
        return error_responses.make("", "MissingAuthenticationToken", str(error), 403)
    except SignatureRefusedError as error:
        return error_responses.make(service, error.code, str(error), error.status)
    except UnknownKeyError as error:
        return error_responses.make(service, error.code, str(error), 403)
    if request.path.lstrip("/").startswith(_MOTO):
        return error_responses.make(service, "UnknownOperationException", "no API of AWS has this path", 404)
    return None


def _proves_itself(request: Request) -> bool:
    if request.method != "POST" or request.full_path != "/?" or "X-Amz-Target" in request.headers:
        return False
    fields = parse_qsl(body_of(request).decode(errors="replace"))
    return [value for name, value in fields if name == "Action"] == [_UNSIGNED]


def _refused(reason: str) -> Response:
    return Response(f"{reason}\n", 403, mimetype="text/plain")
