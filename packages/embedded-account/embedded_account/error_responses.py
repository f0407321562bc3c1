"""Refuse requests before a service handles them, with errors in the form that the service's clients parse."""

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


def guarded(application: WSGIApplication, answer: Callable[[Request], Response | None]) -> WSGIApplication:
    """Return `application` behind a check: a request for which `answer` returns a response does not reach it."""

    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return (answer(Request(environ)) or application)(environ, start_response)

    return dispatch


def make(service: str, code: str, message: str, status: int) -> Response:
    """Return an error response in the form of `service`, the service that the request was signed for."""
    if form := _XML.get(service):
        error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
        return Response(form.format(error), status, mimetype="text/xml")
    body = {"__type": code, "message": message, "Message": message}
    return Response(json.dumps(body), status, {"x-amzn-ErrorType": code}, mimetype="application/json")
