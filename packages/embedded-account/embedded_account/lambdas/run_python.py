"""Serves the invocations of one execution environment of a Python function, as Lambda's own Python runtime would.

Usage: python -u -S run_python.py CHANNEL PACKAGES MODULE FUNCTION

CHANNEL is the file descriptor of a socket. Each line is JSON: first this process reports how loading the module went,
then it gets an invocation and reports its outcome, until the other end closes. A report has `error`, `payload`, and
`ended` when it is the process's last. PACKAGES is the folder with boto3. The Python is the rehearsal's own, whatever
version the function asks for.
"""

import importlib
import json
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Handler = Callable[[Any, SimpleNamespace], Any]


class InitError(Exception):
    """The module or its handler cannot be loaded; `kind` is Lambda's name of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main(channel_number: str, packages: str, module: str, function: str) -> None:
    """Load the handler once, then call it for each invocation."""
    channel = socket.socket(fileno=int(channel_number))
    channel.set_inheritable(False)
    # The folder of this script is not part of a function's search path. Packages come last and without `site`,
    # whose .pth files would bring this repository's own modules.
    sys.path.pop(0)
    sys.path.append(packages)
    logging.basicConfig(stream=sys.stdout, format="[%(levelname)s]\t%(message)s")
    lines = channel.makefile("rwb")

    def tell(message: str) -> None:
        lines.write(message.encode() + b"\n")
        lines.flush()

    try:
        handler = _load(module, function)
    except Exception as error:  # noqa: BLE001 - Lambda reports whatever a module raises
        traceback.print_exc()
        tell(json.dumps({"error": True, "payload": _described(error, ""), "ended": True}))
        sys.exit(1)
    tell(json.dumps({"error": False}))
    for line in lines:
        tell(_outcome(handler, json.loads(line)))


def _load(module: str, function: str) -> Handler:
    try:
        loaded = importlib.import_module(module.replace("/", "."))
    except ImportError as error:
        raise InitError("Runtime.ImportModuleError", f"Unable to import module '{module}': {error}") from error
    except SyntaxError as error:
        raise InitError("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module}': {error}") from error
    try:
        handler: Handler = getattr(loaded, function)
    except AttributeError as error:
        raise InitError("Runtime.HandlerNotFound", f"Handler '{function}' missing on module '{module}'") from error
    return handler


def _outcome(handler: Handler, invocation: dict[str, Any]) -> str:
    """Call the handler. SystemExit ends the process, as on Lambda."""
    os.environ["_X_AMZN_TRACE_ID"] = invocation["trace_id"]
    try:
        return json.dumps({"error": False, "payload": handler(invocation["event"], _context(invocation))})
    except Exception as error:  # noqa: BLE001 - Lambda reports whatever a handler raises
        traceback.print_exc()
        return json.dumps({"error": True, "payload": _described(error, invocation["request_id"])})


def _described(error: Exception, request_id: str) -> dict[str, Any]:
    return {
        "errorMessage": str(error),
        "errorType": error.kind if isinstance(error, InitError) else type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def _context(invocation: dict[str, Any]) -> SimpleNamespace:
    deadline = invocation["deadline"]
    return SimpleNamespace(
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        function_version=os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
        invoked_function_arn=invocation["function_arn"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        aws_request_id=invocation["request_id"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        log_stream_name=os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
        identity=None,
        client_context=None,
        get_remaining_time_in_millis=lambda: max(0, int((deadline - time.time()) * 1000)),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
