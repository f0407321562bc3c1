"""Requests that are refused before a service sees them, and errors in the form that each service's clients read."""

import json
from collections.abc import Callable, Iterable
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

_QUERY: Final = "<ErrorResponse><Error><Type>Sender</Type>{}</Error></ErrorResponse>"
_XML: Final = {
    "s3": "<Error>{}</Error>",
    "ec2": "<Response><Errors><Error>{}</Error></Errors></Response>",
    **dict.fromkeys(("autoscaling", "cloudformation", "elasticloadbalancing", "iam", "sns", "sts"), _QUERY),
}


def guarded(application: WSGIApplication, refusal: Callable[[Request], Response | None]) -> WSGIApplication:
    """Return `application` behind a check: requests for which `refusal` returns a response do not reach it."""

    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return (refusal(Request(environ)) or application)(environ, start_response)

    return dispatch


def make(service: str, code: str, message: str, status: int) -> Response:
    """Return the response; `service` is the one that the request was signed for."""
    if form := _XML.get(service):
        error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
        return Response(form.format(error), status, mimetype="text/xml")
    body = {"__type": code, "message": message, "Message": message}
    return Response(json.dumps(body), status, {"x-amzn-ErrorType": code}, mimetype="application/json")
