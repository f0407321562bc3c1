"""Classify the API's errors: can the same call succeed later?"""

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
# Messages of CreateCluster while a new policy of the execution role has not reached every region's IAM yet.
_PROPAGATION = ("sts:AssumeRole", "could not assume role", "cannot be assumed", "Unable to retrieve subnets")


class RefusedRequestError(Exception):
    """The request cannot be carried out; the message says why, and what to do instead."""


class TransientError(Exception):
    """The API cannot answer now: it throttles, is unreachable, or has an internal error."""


def code(error: ClientError) -> str:
    """Return the service's error code, such as ResourceNotFound."""
    return error.response["Error"]["Code"]


def is_transient(error: ClientError | BotoCoreError) -> bool:
    """Return whether the same call may succeed a little later: throttled, unreachable, an internal error."""
    if isinstance(error, ClientError):
        # An error of a load balancer in between has none of the service's codes.
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code(error) in _TRANSIENT or status == TOO_MANY_REQUESTS or status >= INTERNAL_SERVER_ERROR
    return isinstance(error, (ConnectionError, HTTPClientError))


def is_propagation(error: ClientError | BotoCoreError) -> bool:
    """Return whether IAM may not know a new role or policy yet: IAM is eventually consistent."""
    if not isinstance(error, ClientError):
        return False
    if code(error) in {"AccessDenied", "AccessDeniedException"}:
        return True
    message = error.response["Error"].get("Message", "")
    return code(error) == "ValidationException" and any(words in message for words in _PROPAGATION)


def in_words(operation: str, error: ClientError | BotoCoreError) -> RefusedRequestError | TransientError:
    """Return the error with a message that names the call; a TransientError if the same call may succeed later."""
    if isinstance(error, ClientError):
        text = f"{operation} failed ({code(error)}): {error.response['Error'].get('Message', 'no message')}"
    else:
        text = f"{operation} got no answer: {error}"
    return TransientError(text) if is_transient(error) else RefusedRequestError(text)
