"""Turn errors of the AWS SDK and of the Kubernetes client into messages that say what to do."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import urllib3
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.exceptions import ConnectionError as AwsConnectionError
from kubernetes.client import ApiException

_LOG_IN_AGAIN: Final = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_THROTTLED: Final = {"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"}


class UnreachableError(Exception):
    """The account or the cluster cannot be reached; the message says which, why, and what to do."""


class NoAnswerError(UnreachableError):
    """This request got no usable answer; a retry may succeed."""


@contextmanager
def in_plain_words(access: str = "access.admins") -> Iterator[None]:
    """Raise UnreachableError for errors of both clients; `access` is the key that lists the allowed roles."""
    try:
        yield
    except ClientError as error:
        raise _aws_refusal(error) from error
    except NoCredentialsError as error:
        raise UnreachableError("there are no AWS credentials: log in, or set AWS_PROFILE") from error
    except (AwsConnectionError, HTTPClientError) as error:
        raise NoAnswerError(f"AWS does not answer: {error}") from error
    except BotoCoreError as error:
        raise UnreachableError(f"the AWS credentials cannot be used: {error}") from error
    except ApiException as error:
        raise _kubernetes_refusal(error, access) from error
    except urllib3.exceptions.HTTPError as error:
        raise NoAnswerError(
            f"the Kubernetes API does not answer ({_innermost(error)}); "
            "connect from the VPC, or add your address to eks.public_access_cidrs of the environment"
        ) from error


def _aws_refusal(error: ClientError) -> UnreachableError:
    answer = error.response["Error"]
    code, message = answer.get("Code", "Unknown"), answer.get("Message", "no reason given")
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    if code in _LOG_IN_AGAIN:
        return UnreachableError(f"AWS does not accept the credentials ({code}: {message}): log in again")
    if error.operation_name == "DescribeCluster" and code == "ResourceNotFoundException":
        return UnreachableError(f"there is no EKS cluster yet ({message.rstrip('.')}): deploy the eks stack")
    told = f"AWS refuses {error.operation_name} ({code}): {message}"
    return NoAnswerError(told) if status >= 500 or code in _THROTTLED else UnreachableError(told)


def _kubernetes_refusal(error: ApiException, access: str) -> UnreachableError:
    match error.status:
        case 401:
            return UnreachableError(
                f"the Kubernetes API does not recognise your IAM role (401): list it under {access} of the "
                "environment, then deploy the eks stack"
            )
        case 403:
            return UnreachableError(
                f"the Kubernetes API refuses this (403): {_message(error)}; "
                f"list your IAM role under {access} of the environment, then deploy the eks stack"
            )
        case status:
            told = f"the Kubernetes API answers {status} {error.reason}: {_message(error)}"
            return NoAnswerError(told) if not status or status >= 500 or status == 429 else UnreachableError(told)


def _message(error: ApiException) -> str:
    """Return the `message` of the Status object in the API server's answer."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.body or "no reason given")


def _innermost(error: BaseException) -> BaseException:
    reason = getattr(error, "reason", None)
    return _innermost(reason) if isinstance(reason, BaseException) else error
