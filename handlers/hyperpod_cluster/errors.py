"""Errors of AWS's APIs, and whether a retry helps."""

from http.client import INTERNAL_SERVER_ERROR, TOO_MANY_REQUESTS

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

_TRANSIENT = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "InternalServiceError",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
# CreateCluster's messages while the execution role's policy has not reached IAM in every region yet.
_PROPAGATION = ("sts:AssumeRole", "could not assume role", "cannot be assumed", "Unable to retrieve subnets")


class RefusedRequestError(Exception):
    """The request cannot be carried out; the text says why, and what to do instead."""


class TransientError(Exception):
    """The API could not answer now: throttling, no connection, or an internal error of the service."""


def code(error: ClientError) -> str:
    """Return the service's error code, such as ResourceNotFound."""
    return error.response["Error"]["Code"]


def is_transient(error: ClientError | BotoCoreError) -> bool:
    """Return whether the same call may succeed later: throttling, no connection, an internal error."""
    if isinstance(error, ClientError):
        # A load balancer in between answers without an error code of the service.
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code(error) in _TRANSIENT or status == TOO_MANY_REQUESTS or status >= INTERNAL_SERVER_ERROR
    return isinstance(error, (ConnectionError, HTTPClientError))


def is_propagation(error: ClientError | BotoCoreError) -> bool:
    """Return whether the cause may be a new role or policy that IAM, eventually consistent, does not know yet."""
    if not isinstance(error, ClientError):
        return False
    if code(error) in {"AccessDenied", "AccessDeniedException"}:
        return True
    message = error.response["Error"].get("Message", "")
    return code(error) == "ValidationException" and any(words in message for words in _PROPAGATION)


def in_words(operation: str, error: ClientError | BotoCoreError) -> RefusedRequestError | TransientError:
    """Return an error whose text names the call: TransientError if the same call may succeed later."""
    if isinstance(error, ClientError):
        text = f"{operation} failed ({code(error)}): {error.response['Error'].get('Message', 'no message')}"
    else:
        text = f"{operation} got no answer: {error}"
    return TransientError(text) if is_transient(error) else RefusedRequestError(text)
