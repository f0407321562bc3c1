"""Put the engine behind moto's HTTP server: moto parses requests and writes answers by AWS's service model."""

import logging
from collections.abc import Callable
from typing import Any

from moto.cloudformation.exceptions import CloudFormationError
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import camelcase_to_underscores

from embedded_account.cloudformation.api.operations import Answer, CloudFormationApi
from embedded_account.cloudformation.api.requests import Request
from embedded_account.cloudformation.faults import RefusedCallError
from embedded_account.errors import reason_of

_log = logging.getLogger(__name__)


class _Response(BaseResponse):  # type: ignore[misc]  # moto publishes no types
    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    def call_action(self) -> Any:
        """Answer unsupported operations with an error; moto would fail with a 500."""
        name = self._get_action()
        if hasattr(type(self), camelcase_to_underscores(name)):
            return super().call_action()
        refusal = CloudFormationError(
            "UnsupportedOperation", f"The embedded account's CloudFormation does not offer {name}"
        )
        status, headers, body = self.serialized(ActionResult(refusal))
        return status, headers, body


def response_class(api: CloudFormationApi) -> Any:
    """Return a request handler class for moto with one method for each operation of `api`."""
    return type("CloudFormationResponse", (_Response,), {n: _method(op) for n, op in api.operations().items()})


def _method(operation: Callable[[Request], Answer]) -> Callable[[_Response], Any]:
    def answer(self: _Response) -> Any:
        try:
            return ActionResult(operation(self.params))
        except RefusedCallError as refusal:
            raise CloudFormationError(refusal.code, str(refusal)) from refusal
        except Exception as error:
            # Clients would retry after a plain 500 for half a minute, and its text would be lost.
            _log.exception("CloudFormation %s", operation.__name__)
            raise CloudFormationError("InternalFailure", reason_of(error)) from error

    return answer
