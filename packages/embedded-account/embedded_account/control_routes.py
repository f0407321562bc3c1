"""The account's own routes, beside AWS's: health, inventory, journal, faults, answers of custom resources.

They live under /_rehearsal/ of the account's port and speak JSON. Each asks for the run's secret, except routes whose
own address is one. Other extensions add theirs with `route`.
"""

import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.exceptions import HTTPException, NotFound, Unauthorized
from werkzeug.wrappers import Request, Response

from embedded_account.context import Account, Handler
from embedded_account.inventory import report as inventory

PREFIX = "/_rehearsal/"


@dataclass(frozen=True)
class _Route:
    method: str
    path: re.Pattern[str]
    handler: Handler
    secret_address: bool


class ControlRoutes:
    """A WSGI layer in front of moto that answers /_rehearsal/ and passes everything else on."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._routes: list[_Route] = []
        self.route("GET", "health", self._health)
        self.route("GET", "inventory", self._inventory)
        self.route("GET", "journal", self._journal)

    def route(self, method: str, path: str, handler: Handler, *, secret_address: bool = False) -> None:
        """Answer `method` /_rehearsal/`path` and everything below it with `handler`.

        With `secret_address` what follows the path is a secret that `handler` checks; the run's own is not asked for.
        """
        pattern = re.compile(f"{re.escape(PREFIX + path)}(?:/(.*))?$")
        self._routes.append(_Route(method, pattern, handler, secret_address))

    def in_front_of(self, application: WSGIApplication) -> WSGIApplication:
        """Return `application` with the account's own routes before it."""

        def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            if environ.get("PATH_INFO", "").startswith(PREFIX):
                return self._answer(Request(environ))(environ, start_response)
            return application(environ, start_response)

        return dispatch

    def _answer(self, request: Request) -> Response:
        try:
            body = self._find(request)
        except HTTPException as refusal:
            return _json({"error": refusal.description}, refusal.code or 500)
        return _json(body, 200)

    def _find(self, request: Request) -> Any:
        for route in self._routes:
            match = route.path.match(request.path)
            if match and route.method == request.method:
                if not route.secret_address:
                    self._require_secret(request)
                return route.handler(request, match.group(1) or "")
        self._require_secret(request)
        raise NotFound(f"no route {request.method} {request.path}")

    def _require_secret(self, request: Request) -> None:
        wanted = self._account.keys.control_headers["Authorization"]
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), wanted.encode()):
            raise Unauthorized("the embedded account's own routes ask for the run's secret")

    def _health(self, _request: Request, _rest: str) -> Any:
        return {"ready": True, "account": self._account.account_id, "region": self._account.region}

    def _journal(self, request: Request, _rest: str) -> Any:
        return self._account.journal.entries(request.args.get("since", 0, int), request.args.get("kind"))

    def _inventory(self, _request: Request, _rest: str) -> Any:
        return [vars(item) for item in inventory.collect(self._account)]


def _json(body: Any, status: int) -> Response:
    return Response(json.dumps(body, default=str), status, mimetype="application/json")
