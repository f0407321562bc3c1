"""Run deployed Lambda functions as local processes, for the CloudFormation engine and for moto's Invoke."""

import base64
import json
import threading
from typing import Any

from moto.awslambda.models import LambdaFunction

from embedded_account.context import Account
from embedded_account.lambdas.runtime import Invocation, LocalRuntime

_LOG_TAIL_BYTES = 4096
_DEFAULT_RETRIES = 2
_MINUTES_BEFORE_RETRY = (1, 2)


def install(account: Account) -> None:
    """Set the account's function runtime, and make moto's Lambda use it."""
    runtime = LocalRuntime(account)
    account.functions = runtime
    account.at_end.callback(runtime.close)
    _replace_invocation(account, runtime)


def _replace_invocation(account: Account, runtime: LocalRuntime) -> None:
    """Replace moto's invocation, which needs Docker, reports errors as handled and never runs asynchronously."""

    def run_and_unpack(function: Any, event: Any = None) -> tuple[str, bool, str]:
        result = runtime.run(function, event if event is not None else {})
        return result.payload.decode(), result.error, result.logs

    def invoke(function: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
        event = json.loads(body) if body else {}
        kind = request_headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if kind == "DryRun":
            return b""
        if kind == "Event":
            threading.Thread(target=_run_asynchronously, args=(account, runtime, function, event), daemon=True).start()
            return b""
        result = runtime.run(function, event)
        if result.error:
            response_headers["x-amz-function-error"] = "Unhandled"
        response_headers["x-amz-log-result"] = _tail(result)
        return result.payload

    LambdaFunction._invoke_lambda = run_and_unpack
    LambdaFunction.invoke = invoke


def _run_asynchronously(account: Account, runtime: LocalRuntime, function: Any, event: Any) -> None:
    """Run an event; while it fails, retry it after one and two minutes of simulated time, as Lambda does."""
    configured = [config.config.get("MaximumRetryAttempts") for config in function.event_invoke_config]
    retries = next((int(value) for value in configured if value is not None), _DEFAULT_RETRIES)
    for minutes in (*_MINUTES_BEFORE_RETRY[:retries], None):
        if not runtime.run(function, event).error or minutes is None:
            return
        account.clock.sleep(60 * minutes)


def _tail(result: Invocation) -> str:
    return base64.b64encode(result.logs.encode()[-_LOG_TAIL_BYTES:]).decode()
