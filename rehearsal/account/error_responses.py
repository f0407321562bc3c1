"""Errors of AWS's services in the form in which each service's clients read them."""

import json
from typing import Final
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

_QUERY: Final = "<ErrorResponse><Error><Type>Sender</Type>{}</Error></ErrorResponse>"
_XML: Final = {
    "s3": "<Error>{}</Error>",
    "ec2": "<Response><Errors><Error>{}</Error></Errors></Response>",
    **dict.fromkeys(("autoscaling", "cloudformation", "elasticloadbalancing", "iam", "sns", "sts"), _QUERY),
}


def make(service: str, code: str, message: str, status: int) -> Response:
    """Return the response; `service` is the one that the request was signed for."""
    if form := _XML.get(service):
        error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
        return Response(form.format(error), status, mimetype="text/xml")
    body = {"__type": code, "message": message, "Message": message}
    return Response(json.dumps(body), status, {"x-amzn-ErrorType": code}, mimetype="application/json")
