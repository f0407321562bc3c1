"""Serve the account's own routes beside AWS's: health, inventory, journal, faults, answers of custom resources.

They are below /_rehearsal/ on the account's port and use JSON. Each requires the run's secret, except routes whose URL
contains a secret of its own. Extensions add routes with `route`.
"""

import hmac
import json
import re
from dataclasses import dataclass
from typing import Any
from wsgiref.types import WSGIApplication

from werkzeug.exceptions import HTTPException, NotFound, Unauthorized
from werkzeug.wrappers import Request, Response

from embedded_account import error_responses
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
    """A WSGI layer in front of moto that answers /_rehearsal/ and passes all other requests on."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._routes: list[_Route] = []
        self.route("GET", "health", self._health)
        self.route("GET", "inventory", self._inventory)
        self.route("GET", "journal", self._journal)

    def route(self, method: str, path: str, handler: Handler, *, secret_address: bool = False) -> None:
        """Answer `method` /_rehearsal/`path` and all paths below it with `handler`.

        With `secret_address` the rest of the path is a secret that `handler` verifies, and the run's secret is not
        required.
        """
        pattern = re.compile(f"{re.escape(PREFIX + path)}(?:/(.*))?$")
        self._routes.append(_Route(method, pattern, handler, secret_address))

    def in_front_of(self, application: WSGIApplication) -> WSGIApplication:
        """Return `application` behind the account's own routes."""
        return error_responses.guarded(application, self._answer)

    def _answer(self, request: Request) -> Response | None:
        if not request.path.startswith(PREFIX):
            return None
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
            raise Unauthorized("the embedded account's own routes require the run's secret")

    def _health(self, _request: Request, _rest: str) -> Any:
        return {"ready": True, "account": self._account.account_id, "region": self._account.region}

    def _journal(self, request: Request, _rest: str) -> Any:
        return self._account.journal.entries(request.args.get("since", 0, int), request.args.get("kind"))

    def _inventory(self, _request: Request, _rest: str) -> Any:
        return [vars(item) for item in inventory.collect(self._account)]


def _json(body: Any, status: int) -> Response:
    return Response(json.dumps(body, default=str), status, mimetype="application/json")
