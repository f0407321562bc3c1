"""Runs one invocation of a Python function, as Lambda's own Python runtime would.

Usage: run_python.py RESULT MODULE FUNCTION, with the event on stdin. RESULT receives
{"error": bool, "payload": ...}. The Python is the rehearsal's own, whatever version the function asks for.
"""

import importlib
import json
import logging
import os
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def main(result_file: str, module: str, function: str) -> None:
    """Call the handler and write its outcome."""
    # The folder of this script is not part of a function's search path.
    sys.path.pop(0)
    logging.basicConfig(stream=sys.stdout, format="[%(levelname)s]\t%(message)s")
    event = json.load(sys.stdin)
    try:
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        outcome = {"error": False, "payload": handler(event, _context())}
        text = json.dumps(outcome)
    except BaseException as error:  # noqa: BLE001 - Lambda reports whatever ends a handler, SystemExit too
        traceback.print_exc()
        text = json.dumps({"error": True, "payload": _described(error)})
    unfinished = Path(result_file + ".part")
    unfinished.write_text(text)
    unfinished.rename(result_file)


def _described(error: BaseException) -> dict[str, Any]:
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": os.environ["REHEARSAL_REQUEST_ID"],
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def _context() -> SimpleNamespace:
    deadline = float(os.environ["REHEARSAL_DEADLINE"])
    return SimpleNamespace(
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        function_version=os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
        invoked_function_arn=os.environ["REHEARSAL_FUNCTION_ARN"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        aws_request_id=os.environ["REHEARSAL_REQUEST_ID"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        log_stream_name=os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
        identity=None,
        client_context=None,
        get_remaining_time_in_millis=lambda: max(0, int((deadline - time.time()) * 1000)),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
