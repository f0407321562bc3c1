"""Lambda functions as local processes: the deployed zip, its layers, the role's credentials, the time-out.

Simulated, and different from Lambda: a function of any Python version runs under the rehearsal's own Python
(with boto3 from its environment), one of any Node.js version under the rehearsal's Node.js (with the SDK clients of
package.json); memory is not limited; every invocation is a cold start; permissions of the role are not
enforced. A function in a VPC reaches the services that its subnets have a way to (vpc_calls.py), and the Kubernetes
API like any other.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.logs.models import logs_backends

from rehearsal.account.context import Account
from rehearsal.account.lambdas import vpc_calls
from rehearsal.account.lambdas.credentials import RoleSessions
from rehearsal.account.lambdas.packages import Package, PackageStore
from rehearsal.isolation import child_environment, search_path
from rehearsal.paths import NODE_MODULES
from rehearsal.processes import end_with_parent

_HERE = Path(__file__).parent
_LAYER_PROGRAMS = ("bin", "kubectl", "helm", "awscli")
"""Folders of /opt whose programs a function finds: Lambda's own is `bin`, the others are CDK's layers'."""


@dataclass
class InvokeResult:
    """What an invocation returned: its JSON payload, whether it is an error, and what it printed."""

    payload: bytes
    error: bool
    logs: str


@dataclass(frozen=True)
class _Invocation:
    function: Any  # moto's LambdaFunction
    request_id: str
    log_stream: str
    folder: Path
    package: Package

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def output(self) -> Path:
        return self.folder / "output.log"


class LocalRuntime:
    """Runs the functions that are deployed in the account."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._folder = account.directory / "lambda"
        self._packages = PackageStore(self._folder / "packages")
        self._sessions = RoleSessions(account)

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> InvokeResult:
        """Run the function named by its ARN and wait for it.

        An error that the function raises, a time-out and a crash are results with `error` set; a function that
        does not exist is moto's UnknownFunctionException.
        """
        backend = lambda_backends[self._account.account_id][self._account.region]
        return self.run(backend.get_function(function_arn), event)

    def run(self, function: Any, event: Any) -> InvokeResult:
        """Run one of moto's LambdaFunctions with any JSON value as its event."""
        request_id = str(uuid.uuid4())
        now = self._account.clock.now()
        if why := self._cannot_answer(function, event):
            return InvokeResult(json.dumps({"errorType": vpc_calls.CODE, "errorMessage": why}).encode(), True, "")
        invocation = _Invocation(
            function=function,
            request_id=request_id,
            log_stream=f"{now:%Y/%m/%d}/[{function.version}]{uuid.uuid4().hex}",
            folder=self._folder / "invocations" / request_id,
            package=self._packages.unpack(function.code_bytes, self._layers(function)),
        )
        (invocation.folder / "tmp").mkdir(parents=True)
        started = time.monotonic()
        try:
            exit_code = self._execute(invocation, event)
            seconds = time.monotonic() - started
            payload, is_error = _outcome(invocation, exit_code)
            if is_error and (why := vpc_calls.refused_since(self._account, function, now.timestamp())):
                payload["errorMessage"] = f"{payload.get('errorMessage')} ({why})"
            logs = self._save_logs(invocation, seconds)
        finally:
            shutil.rmtree(invocation.folder, ignore_errors=True)
        self._account.journal.record(
            "lambda",
            function=function.function_name,
            request_id=request_id,
            seconds=round(seconds, 3),
            error=payload.get("errorMessage") if is_error else None,
        )
        return InvokeResult(json.dumps(payload).encode(), is_error, logs)

    def _cannot_answer(self, function: Any, event: Any) -> str:
        """CloudFormation takes answers in a bucket of S3: why a function in a VPC cannot give one, or ""."""
        if not (isinstance(event, Mapping) and "ResponseURL" in event):
            return ""
        return vpc_calls.why_unreachable(self._account, function, "s3")

    def _layers(self, function: Any) -> list[bytes]:
        backend = lambda_backends[self._account.account_id][self._account.region]
        return [backend.layers_versions_by_arn(layer["Arn"]).code_bytes for layer in function.layers]

    def _execute(self, invocation: _Invocation, event: Any) -> int | None:
        """Return the exit code, or None after a time-out. What the function leaves running is ended."""
        (invocation.folder / "event.json").write_text(json.dumps(event))
        with (invocation.folder / "event.json").open("rb") as stdin, invocation.output.open("wb") as output:
            process = subprocess.Popen(
                _command(invocation),
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(invocation),
                cwd=invocation.package.task,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one syscall
            )
            try:
                return process.wait(float(invocation.function.timeout))
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end_group(process)

    def _environment(self, invocation: _Invocation) -> dict[str, str]:
        function, package = invocation.function, invocation.package
        isolated = child_environment(
            invocation.folder,
            endpoint=self._account.endpoint,
            region=self._account.region,
            account_id=self._account.account_id,
        )
        kept = ("HOME", "TMPDIR", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED")
        programs = [package.opt / name for name in _LAYER_PROGRAMS]
        return {
            **{name: isolated[name] for name in (*kept, "AWS_ENDPOINT_URL", "NO_PROXY")},
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "PATH": os.pathsep.join([*map(str, programs), search_path()]),
            "PYTHONPATH": os.pathsep.join([str(package.task), str(package.opt / "python")]),
            # Compiled once, apart from the packages, which stay as they were deployed: the AWS CLI inside a layer
            # would otherwise be compiled anew at each of a deployment's hundred starts.
            "PYTHONPYCACHEPREFIX": str(self._folder / "compiled" / "python"),
            "NODE_COMPILE_CACHE": str(self._folder / "compiled" / "node"),
            "NODE_PATH": os.pathsep.join([str(package.opt / "nodejs" / "node_modules"), str(NODE_MODULES)]),
            # CDK's kubectl handler writes its files here instead of /tmp.
            "TEST_OUTDIR": isolated["TMPDIR"],
            "AWS_REGION": self._account.region,
            "AWS_DEFAULT_REGION": self._account.region,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
            "AWS_LAMBDA_LOG_STREAM_NAME": invocation.log_stream,
            "LAMBDA_TASK_ROOT": str(package.task),
            "_HANDLER": function.handler,
            "REHEARSAL_FUNCTION_ARN": function.function_arn,
            "REHEARSAL_REQUEST_ID": invocation.request_id,
            "REHEARSAL_DEADLINE": str(time.time() + float(function.timeout)),
            **self._sessions.environment(function.role, function.function_name),
            **{name: str(value) for name, value in (function.environment_vars or {}).items()},
        }

    def _save_logs(self, invocation: _Invocation, seconds: float) -> str:
        """Write the invocation's lines to its log group, which Lambda makes when it is missing; return them.

        A function that answered CloudFormation and was deleted before it ended makes no group any more: minutes lie
        between the two on AWS, milliseconds here.
        """
        function, request_id = invocation.function, invocation.request_id
        lines = [
            f"START RequestId: {request_id} Version: {function.version}",
            *invocation.output.read_text(errors="replace").splitlines(),
            f"END RequestId: {request_id}",
            f"REPORT RequestId: {request_id}\tDuration: {seconds * 1000:.2f} ms\t"
            f"Memory Size: {function.memory_size} MB",
        ]
        text = "\n".join(lines) + "\n"
        if not self._exists(function):
            return text
        group = function.logs_group_name
        self._account.background.log_group(maker_arn=function.function_arn, name=group)
        logs = logs_backends[self._account.account_id][self._account.region]
        logs.create_log_stream(group, invocation.log_stream)
        now = int(self._account.clock.now().timestamp() * 1000)
        events = [{"timestamp": now, "message": line} for line in lines if line]
        logs.put_log_events(group, invocation.log_stream, events)
        return text

    def _exists(self, function: Any) -> bool:
        backend = lambda_backends[self._account.account_id][self._account.region]
        return any(listed.function_name == function.function_name for listed in backend.list_functions())


def _command(invocation: _Invocation) -> list[str]:
    runtime, result = str(invocation.function.run_time), str(invocation.result)
    module, _, function = invocation.function.handler.rpartition(".")
    if runtime.startswith("python"):
        return [sys.executable, "-u", str(_HERE / "run_python.py"), result, module, function]
    if runtime.startswith("nodejs"):
        # A Node.js handler may be an object's member: what follows the last slash splits at its first dot.
        folder, _, name = invocation.function.handler.rpartition("/")
        module, _, function = name.partition(".")
        module = f"{folder}/{module}" if folder else module
        node = shutil.which("node", path=search_path())
        if node is None:
            raise FileNotFoundError("no Node.js beside this Python: install requirements.txt")
        task = str(invocation.package.task)
        return [node, str(_HERE / "run_node.js"), result, task, module, function]
    raise ValueError(f"the rehearsal runs Python and Node.js functions, not {runtime}")


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _outcome(invocation: _Invocation, exit_code: int | None) -> tuple[Any, bool]:
    """Return payload and whether it is an error, in the words of Lambda's runtime."""
    who = f"RequestId: {invocation.request_id}"
    if exit_code is None:
        seconds = float(invocation.function.timeout)
        message = f"{who} Error: Task timed out after {seconds:.2f} seconds"
        return {"errorType": "Sandbox.Timedout", "errorMessage": message}, True
    if not invocation.result.exists():
        ending = f"exit status {exit_code}" if exit_code >= 0 else f"signal: {signal.Signals(-exit_code).name}"
        message = f"{who} Error: Runtime exited with error: {ending}"
        return {"errorType": "Runtime.ExitError", "errorMessage": message}, True
    outcome = json.loads(invocation.result.read_text())
    return outcome["payload"], bool(outcome["error"])
