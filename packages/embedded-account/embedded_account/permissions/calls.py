"""Find out which operation a request calls, and with which parameters, from botocore's model of the service."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote
from xml.etree import ElementTree

from botocore.exceptions import UnknownServiceError
from moto.core.parse import PROTOCOL_PARSERS, RequestParserError
from moto.core.request import Request as MotoRequest
from moto.core.request import determine_request_protocol
from moto.core.routing import get_service_router
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Request

from embedded_account.admission.signatures import body_of

SIGNING_NAMES: Final = {
    "elasticloadbalancing": "elbv2",
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "states": "stepfunctions",
}
"""botocore's names of services that sign with another one."""
_S3_HEADERS: Final = {"ACL": "x-amz-acl", "CopySource": "x-amz-copy-source", "Tagging": "x-amz-tagging"}
_RPC: Final = re.compile(r"/service/\w+/operation/(\w+)")


class UnknownCallError(Exception):
    """The request calls no operation of the service's model; the message says why."""


@dataclass(frozen=True)
class AwsCall:
    """An operation of an AWS service, with the request's parameters. `service` is the name in the signature."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


def call_of(request: Request, service: str) -> AwsCall:
    """Return the call of a request that is signed for `service`. Raises UnknownCallError.

    S3's parameters are those of the path and the query, the headers of `_S3_HEADERS`, and the objects of DeleteObjects.
    """
    copy = MotoRequest({**request.environ, "wsgi.input": BytesIO(body_of(request))})
    if named := _RPC.fullmatch(request.path):
        # Smithy's RPC protocol names the operation in the path; the body is CBOR, which is not read.
        return AwsCall(service, named.group(1), {})
    try:
        operation, in_path = _router(SIGNING_NAMES.get(service, service)).match(copy)
        if service == "s3":
            return AwsCall(service, operation.name, {**copy.args, **in_path, **_s3_parameters(copy, operation.name)})
        return AwsCall(service, operation.name, _parameters(copy, operation, in_path))
    except (NotFound, NotImplementedError, RequestParserError, UnknownServiceError) as error:
        raise UnknownCallError(
            f"{request.method} {request.path} is no call of {service}. Allowed: operations of botocore's model: {error}"
        ) from error


def _s3_parameters(request: MotoRequest, operation: str) -> dict[str, Any]:
    """Return what headers and body name, as botocore names it; an object of DeleteObjects is a key and a version."""
    named: dict[str, Any] = {
        name: unquote(request.headers[header]) for name, header in _S3_HEADERS.items() if header in request.headers
    }
    if operation == "DeleteObjects":
        found = ElementTree.fromstring(request.get_data()).iterfind("{*}Object")  # noqa: S314 - a caller of this run signed it
        named["Objects"] = [(each.findtext("{*}Key", ""), each.findtext("{*}VersionId")) for each in found]
    return named


@cache
def _router(service: str) -> Any:
    return get_service_router(service)


def _parameters(request: MotoRequest, operation: Any, in_path: Mapping[str, str]) -> Mapping[str, Any]:
    protocol = determine_request_protocol(operation.service_model, request.content_type)
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    parsed: Mapping[str, Any] = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.get_data(),
            "url_path": request.path,
            "url_params": dict(in_path),
        }
    )
    return parsed
