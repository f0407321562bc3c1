"""The engine behind moto's HTTP server: moto parses requests and writes answers by AWS's service model."""

from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import camelcase_to_underscores

from rehearsal.account.cloudformation.api import Api
from rehearsal.account.cloudformation.faults import Refusal


def response_class(api: Api) -> Any:
    """Return moto's kind of request handler, answering from `api`."""

    class CloudFormationResponse(BaseResponse):  # type: ignore[misc]  # moto publishes no types
        def __init__(self) -> None:
            super().__init__(service_name="cloudformation")
            self.automated_parameter_parsing = True

        def call_action(self) -> Any:
            """Answer any operation. moto's own version looks for a method of this class per operation."""
            try:
                operation = api.operation(camelcase_to_underscores(self._get_action()))
                outcome: object = operation(self.params)
            except Refusal as refusal:
                outcome = ServiceException(refusal.code, str(refusal))
            status, headers, body = self.serialized(ActionResult(outcome))
            headers, body = self._enrich_response(headers, body)
            return status, headers, body

    return CloudFormationResponse
