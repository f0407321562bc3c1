"""Whom the account answers: callers on this machine that hold keys of the run, and no web page.

Each request must name one of the account's own hosts and come from no page of a browser (no `Origin`). A request for a
service of AWS must be signed with a key that the account has issued; the account's own routes ask for their secret
(control_routes.py). Of unsigned requests STS takes one, as on AWS: AssumeRoleWithWebIdentity, whose token it checks.
"""

import re
from functools import partial
from typing import Final
from urllib.parse import parse_qsl
from wsgiref.types import WSGIApplication

from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
from embedded_account.admission.access_keys import UnknownKeyError, owner_of
from embedded_account.admission.signatures import Signature, SignatureRefusedError, UnsignedError, body_of
from embedded_account.context import Account

# S3's JavaScript client puts a bucket's name before a host that is a name; no DNS gives *.localhost to anyone.
_NAMES: Final = r"(127\.0\.0\.1|([a-z0-9][a-z0-9.-]*\.)?localhost):{port}"
_UNSIGNED: Final = "AssumeRoleWithWebIdentity"


def only_own_hosts(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind a check of `Host` and `Origin`: no name that points here, no page, gets in."""
    own = re.compile(_NAMES.format(port=account.port))

    def refusal(request: Request) -> Response | None:
        host = request.headers.get("Host", "")
        if not own.fullmatch(host):
            return _refused(f"{host!r} is no host of the embedded account")
        if "Origin" in request.headers:
            return _refused("the embedded account answers no web pages (Origin)")
        return None

    return error_responses.guarded(application, refusal)


def only_issued_keys(account: Account, application: WSGIApplication) -> WSGIApplication:
    """Return `application` behind a check of signatures."""
    return error_responses.guarded(application, partial(_refusal, account))


def _refusal(account: Account, request: Request) -> Response | None:
    service = ""
    try:
        signature = Signature(request)
        service = signature.service
        owner = owner_of(account, signature.access_key_id, signature.session_token)
        signature.verify(owner.credentials, account.clock.now())
    except UnsignedError as error:
        if _proves_itself(request):
            return None
        return error_responses.make("", "MissingAuthenticationToken", str(error), 403)
    except (SignatureRefusedError, UnknownKeyError) as error:
        return error_responses.make(service, error.code, str(error), 403)
    return None


def _proves_itself(request: Request) -> bool:
    if request.method != "POST" or request.full_path != "/?" or "X-Amz-Target" in request.headers:
        return False
    fields = parse_qsl(body_of(request).decode(errors="replace"))
    return [value for name, value in fields if name == "Action"] == [_UNSIGNED]


def _refused(reason: str) -> Response:
    return Response(f"{reason}\n", 403, mimetype="text/plain")
