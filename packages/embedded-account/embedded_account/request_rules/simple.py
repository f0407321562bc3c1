"""The rules of CloudWatch Logs, Systems Manager and Step Functions that botocore's models do not contain."""

import json
from collections.abc import Callable, Mapping
from typing import Final

from embedded_account.errors import ResourceError, code_of
from embedded_account.request_rules.call import CheckedCall, RequestRefusedError
from embedded_account.services.logs import RETENTION_DAYS
from embedded_account.services.ssm import check_value


def _check_log_group(call: CheckedCall) -> None:
    if str(call.parameters["logGroupName"]).lower().startswith("aws/"):
        raise RequestRefusedError("InvalidParameterException", "Log groups starting with AWS/ are reserved for AWS.")


def _check_retention(call: CheckedCall) -> None:
    days = call.parameters["retentionInDays"]
    if days not in RETENTION_DAYS:
        allowed = ", ".join(map(str, sorted(RETENTION_DAYS)))
        raise RequestRefusedError(
            "InvalidParameterException",
            f"1 validation error detected: Value '{days}' at 'retentionInDays' failed to satisfy constraint: Member "
            f"must satisfy enum value set: [{allowed}]",
        )


def _check_parameter(call: CheckedCall) -> None:
    try:
        check_value(call.parameters)
    except ResourceError as error:
        raise RequestRefusedError(code_of(error) or "ValidationException", str(error)) from error


def _check_state_machine(call: CheckedCall) -> None:
    try:
        definition = json.loads(str(call.parameters.get("definition") or "{}"))
    except ValueError:
        definition = {}
    missing = [name for name in ("StartAt", "States") if name not in definition]
    if missing or definition["StartAt"] not in definition["States"]:
        raise RequestRefusedError(
            "InvalidDefinition",
            f"Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: {', '.join(missing) or 'StartAt'} is "
            "required at /'",
        )


RULES: Final[Mapping[str, Mapping[str, Callable[[CheckedCall], None]]]] = {
    "logs": {"CreateLogGroup": _check_log_group, "PutRetentionPolicy": _check_retention},
    "ssm": {"PutParameter": _check_parameter},
    "states": {"CreateStateMachine": _check_state_machine},
}
