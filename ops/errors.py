"""Turn errors of the AWS SDK and of the Kubernetes client into messages that say what to do."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import urlsplit

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
# SageMaker's requests about a cluster or its nodes; EKS answers ResourceNotFoundException instead.
_OF_A_CLUSTER: Final = {"DescribeCluster", "DescribeClusterNode", "ListClusterEvents", "ListClusterNodes"}
_THROTTLED: Final = {"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"}

_AGAIN: Final = "Fix: run the command again"


class UnreachableError(Exception):
    """The account or the cluster cannot be used; the message says which, why, and how to fix it."""


class NoAnswerError(UnreachableError):
    """There was no usable answer; a retry may succeed."""

    @property
    def what(self) -> str:
        """The message without its fix, for a command that retries by itself."""
        return re.split(r"\. (?:Allowed|Fix): ", str(self))[0]


class RefusedError(Exception):
    """The command is not allowed, not possible now, or not done in time; the message says why and what to do."""


@contextmanager
def in_plain_words(access: str = "access.admins") -> Iterator[None]:
    """Raise UnreachableError for errors of both clients; `access` is the key that lists the allowed roles."""
    try:
        yield
    except ClientError as error:
        raise _aws_refusal(error) from error
    except NoCredentialsError as error:
        raise UnreachableError("there are no AWS credentials. Fix: log in, or set AWS_PROFILE") from error
    except (AwsConnectionError, HTTPClientError) as error:
        raise NoAnswerError(f"AWS does not answer: {error}. Fix: {_connect()}, then run the command again") from error
    except BotoCoreError as error:
        raise UnreachableError(
            f"the AWS credentials cannot be used: {error}. Fix: log in again, or check AWS_PROFILE"
        ) from error
    except ApiException as error:
        raise _kubernetes_refusal(error, access) from error
    except urllib3.exceptions.HTTPError as error:
        raise NoAnswerError(
            f"the Kubernetes API does not answer ({_innermost(error)}). "
            "Fix: connect from the VPC, or add your address to eks.public_access_cidrs of the environment"
        ) from error


def _connect() -> str:
    address = os.environ.get("AWS_ENDPOINT_URL", "")
    if urlsplit(address).hostname in {"localhost", "127.0.0.1"}:
        return f"open another shell: this one's AWS is {address}, as a rehearsal that has ended"
    return "check the network"


as_viewer: Final = partial(in_plain_words, "access.viewers")
"""`in_plain_words` for requests that `access.viewers` allows."""


def _aws_refusal(error: ClientError) -> UnreachableError:
    answer = error.response["Error"]
    code, message = answer.get("Code", "Unknown"), answer.get("Message", "no reason given")
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    if code in _LOG_IN_AGAIN:
        return UnreachableError(f"AWS does not accept the credentials ({code}: {message}). Fix: log in again")
    if error.operation_name == "DescribeCluster" and code == "ResourceNotFoundException":
        return UnreachableError(f"there is no EKS cluster yet ({message.rstrip('.')}). Fix: deploy the eks stack")
    if error.operation_name in _OF_A_CLUSTER and code == "ResourceNotFound":
        return UnreachableError(
            f"there is no HyperPod cluster yet ({message.rstrip('.')}). Fix: deploy the hyperpod stack"
        )
    refusal = f"AWS refuses {error.operation_name} ({code}): {message.rstrip('.')}"
    if status >= 500 or code in _THROTTLED:
        return NoAnswerError(f"{refusal}. {_AGAIN}")
    return UnreachableError(f"{refusal}. Fix: use credentials that may do this, or correct what AWS names")


def _kubernetes_refusal(error: ApiException, access: str) -> UnreachableError:
    match error.status:
        case 401:
            return UnreachableError(
                "the Kubernetes API does not recognise your IAM role (401). "
                f"Fix: list it under {access} of the environment, then deploy the eks stack"
            )
        case 403:
            return UnreachableError(
                f"the Kubernetes API refuses this request (403): {_message(error)}. "
                f"Fix: list your IAM role under {access} of the environment, then deploy the eks stack"
            )
        case status:
            answer = f"the Kubernetes API answers {status} {error.reason}: {_message(error)}"
            if not status or status >= 500 or status == 429:
                return NoAnswerError(f"{answer}. {_AGAIN}")
            return UnreachableError(f"{answer}. Fix: correct what the answer names")


def _message(error: ApiException) -> str:
    """Return the `message` of the Status object in the API server's answer."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.body or "no reason given")


def _innermost(error: BaseException) -> BaseException:
    reason = getattr(error, "reason", None)
    return _innermost(reason) if isinstance(reason, BaseException) else error
