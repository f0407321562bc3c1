"""A call of a service as the rules see it, and its refusal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from embedded_account.context import Account


class RequestRefusedError(Exception):
    """A service refuses a request with an error code and an HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(frozen=True)
class CheckedCall:
    """An operation with its parameters; `caller_arn` is the caller's user, role or root, `body` the request's body."""

    account: Account
    caller_arn: str
    operation: str
    parameters: Mapping[str, Any]
    body: bytes


def document_of(text: str, code: str, message: str) -> dict[str, Any]:
    """Return a policy document. Raises RequestRefusedError with this code and message unless it is a JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise RequestRefusedError(code, message) from error
    if not isinstance(found, dict):
        raise RequestRefusedError(code, message)
    return found
