"""Run Lambda functions as local processes: the deployed zip, its layers, the role's credentials, the timeout.

Execution environments are reused as on Lambda (environments.py). Differences from Lambda: functions of every Python
version run under the rehearsal's own Python (with boto3 from its environment), and those of every Node.js version under
the rehearsal's Node.js (with the SDK clients of package.json). Memory is not limited. A layer's AWS CLI is loaded once
for all its calls (aws_cli.py). A function in a VPC reaches the services to which its subnets have a route
(vpc_calls.py), and the Kubernetes API like any other function.
"""

import json
import secrets
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.logs.models import logs_backends

from embedded_account.context import Account
from embedded_account.lambdas import vpc_calls
from embedded_account.lambdas.aws_cli import AwsClis
from embedded_account.lambdas.configuration import Configuration, configuration_of
from embedded_account.lambdas.environments import IDLE_SECONDS, Environment, EnvironmentEndedError, Environments
from embedded_account.lambdas.packages import PackageStore
from embedded_account.lambdas.role import may_log
from embedded_account.services.iam.role_sessions import RoleSessions


@dataclass
class Invocation:
    """The outcome of an invocation: its JSON payload, whether that is an error, and the printed lines."""

    payload: bytes
    error: bool
    logs: str


class LocalRuntime:
    """Runs the functions that are deployed in the account."""

    def __init__(self, account: Account, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.environments = Environments(account, account.directory / "lambda" / "environments", idle_seconds)
        self._account = account
        self._folder = account.directory / "lambda"
        self._packages = PackageStore(self._folder / "packages")
        self._sessions = RoleSessions(account)
        self._aws_clis = AwsClis(account.directory / "logs" / "aws-cli.log")

    def close(self) -> None:
        """End all processes, also those of running functions."""
        self.environments.close()
        self._aws_clis.close()

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> Invocation:
        """Run the function with this ARN and wait for it.

        An error that the function raises, a timeout and a crash are results with `error` set. A missing function raises
        moto's UnknownFunctionException.
        """
        backend = lambda_backends[self._account.account_id][self._account.region]
        return self.run(backend.get_function(function_arn), event)

    def run(self, function: Any, event: Any) -> Invocation:
        """Run one of moto's LambdaFunctions with any JSON value as its event; return the result."""
        began = self._account.clock.now()
        if why := self._cannot_answer(function, event):
            return Invocation(json.dumps({"errorType": vpc_calls.CODE, "errorMessage": why}).encode(), True, "")
        request_id = str(uuid.uuid4())
        with self.environments.borrowed(self._configuration(function)) as environment:
            started = time.monotonic()
            is_cold = not environment.initialized
            outcome, init_lines = _execute(environment, request_id, event)
            seconds = time.monotonic() - started
            payload, is_error = outcome["payload"], bool(outcome["error"])
            if is_error and (why := vpc_calls.refused_since(self._account, function, began.timestamp())):
                payload["errorMessage"] = f"{payload.get('errorMessage')} ({why})"
            lines = [*init_lines, *_log_lines(function, request_id, environment.new_output(), seconds)]
            self._save_logs(function, environment.log_stream, lines)
        self._account.journal.record(
            "lambda",
            function=function.function_name,
            request_id=request_id,
            seconds=round(seconds, 3),
            cold=is_cold,
            error=payload.get("errorMessage") if is_error else None,
        )
        return Invocation(json.dumps(payload).encode(), is_error, "\n".join(lines) + "\n")

    def _cannot_answer(self, function: Any, event: Any) -> str:
        """Return why a function in a VPC cannot answer CloudFormation, whose answers go to an S3 bucket, or ""."""
        if not (isinstance(event, Mapping) and "ResponseURL" in event):
            return ""
        return vpc_calls.why_unreachable(self._account, function, "s3")

    def _layers(self, function: Any) -> list[bytes]:
        backend = lambda_backends[self._account.account_id][self._account.region]
        return [backend.layers_versions_by_arn(layer["Arn"]).code_bytes for layer in function.layers]

    def _configuration(self, function: Any) -> Configuration:
        package = self._packages.unpack(function.code_bytes, self._layers(function))
        self._aws_clis.ensure(package.opt)
        credentials = self._sessions.environment(function.role, function.function_name)
        return configuration_of(self._account, function, package, credentials, self._folder / "compiled")

    def _save_logs(self, function: Any, stream: str, lines: Sequence[str]) -> None:
        """Write an invocation's lines to its log group, which Lambda creates if it is missing.

        A function may answer CloudFormation and be deleted before it ends. It then creates no log group: on AWS there
        are minutes between the two, here milliseconds.
        """
        if not self._exists(function):
            return
        group = function.logs_group_name
        logs = logs_backends[self._account.account_id][self._account.region]
        known = logs.groups.get(group)
        is_new = known is None or stream not in known.streams
        if not may_log(self._account, function, stream, new_group=known is None, new_stream=is_new):
            return
        self._account.background.log_group(maker_arn=function.function_arn, name=group)
        if stream not in logs.groups[group].streams:
            logs.create_log_stream(group, stream)
        now = int(self._account.clock.now().timestamp() * 1000)
        logs.put_log_events(group, stream, [{"timestamp": now, "message": line} for line in lines if line])

    def _exists(self, function: Any) -> bool:
        backend = lambda_backends[self._account.account_id][self._account.region]
        return any(listed.function_name == function.function_name for listed in backend.list_functions())


def _execute(environment: Environment, request_id: str, event: Any) -> tuple[dict[str, Any], list[str]]:
    """Run one invocation; return its outcome and the lines that loading the code printed."""
    function = environment.configuration.function
    lines: list[str] = []
    try:
        if not environment.initialized:
            outcome = environment.initialize()
            if outcome["error"]:
                return outcome, lines
            lines = environment.new_output()
        outcome = environment.invoke(
            {
                "event": event,
                "request_id": request_id,
                "function_arn": function.function_arn,
                "deadline": time.time() + environment.configuration.timeout,
                "trace_id": f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)};Sampled=0",
            }
        )
    except TimeoutError:
        seconds = environment.configuration.timeout
        outcome = _failure(request_id, "Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")
    except EnvironmentEndedError as error:
        outcome = _failure(request_id, "Runtime.ExitError", _ending(error.exit_code))
    return outcome, lines


def _ending(exit_code: int) -> str:
    if exit_code == 0:
        return "Runtime exited without providing a reason"
    how = f"exit status {exit_code}" if exit_code > 0 else f"signal: {signal.Signals(-exit_code).name}"
    return f"Runtime exited with error: {how}"


def _failure(request_id: str, kind: str, message: str) -> dict[str, Any]:
    """Return an error that Lambda reports instead of the function."""
    payload = {"errorType": kind, "errorMessage": f"RequestId: {request_id} Error: {message}"}
    return {"error": True, "payload": payload}


def _log_lines(function: Any, request_id: str, printed: Sequence[str], seconds: float) -> list[str]:
    return [
        f"START RequestId: {request_id} Version: {function.version}",
        *printed,
        f"END RequestId: {request_id}",
        f"REPORT RequestId: {request_id}\tDuration: {seconds * 1000:.2f} ms\tMemory Size: {function.memory_size} MB",
    ]
