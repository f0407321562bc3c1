"""Build the command, folder and environment variables of a function's execution environment."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedded_account.context import Account
from embedded_account.lambdas.packages import FunctionPackage
from embedded_account.machine.isolation import child_environment, search_path

_HERE = Path(__file__).parent
_LAYER_PROGRAMS = ("bin", "kubectl", "helm", "awscli")
"""The folders of /opt whose programs a function finds: Lambda's own is `bin`, the others are from CDK's layers."""

_OWN: Final = ("HOME", "TMPDIR", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED")
_ISOLATED: Final = (*_OWN, "AWS_ENDPOINT_URL", "NO_PROXY")


@dataclass(frozen=True)
class Configuration:
    """The current deployment of a function. An environment serves invocations while this stays equal."""

    function: Any
    """moto's LambdaFunction: each deployment creates another one."""
    package: FunctionPackage
    timeout: float
    command: tuple[str, ...]
    """The runtime's command line. CHANNEL is replaced with the descriptor of the runtime's socket."""
    variables: Mapping[str, str]
    """The variables of all environments of the function, credentials included."""

    @property
    def name(self) -> str:
        return str(self.function.function_name)


CHANNEL: Final = "CHANNEL"


def configuration_of(
    account: Account, function: Any, package: FunctionPackage, credentials: Mapping[str, str], compiled: Path
) -> Configuration:
    """Return a function's configuration; Node.js caches compiled code in `compiled`.

    Raises ValueError for a runtime other than Python or Node.js.
    """
    programs = [package.opt / name for name in _LAYER_PROGRAMS]
    variables = {
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PATH": os.pathsep.join([*map(str, programs), search_path()]),
        "PYTHONPATH": os.pathsep.join([str(package.task), str(package.opt / "python")]),
        "NODE_COMPILE_CACHE": str(compiled),
        "NODE_PATH": os.pathsep.join([str(package.opt / "nodejs" / "node_modules"), str(account.node_modules)]),
        "AWS_REGION": account.region,
        "AWS_DEFAULT_REGION": account.region,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
        "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
        "LAMBDA_TASK_ROOT": str(package.task),
        "_HANDLER": function.handler,
        **credentials,
        **{name: str(value) for name, value in (function.environment_vars or {}).items()},
    }
    return Configuration(function, package, float(function.timeout), _command(function, package), variables)


def environment_variables(
    account: Account, configuration: Configuration, folder: Path, log_stream: str
) -> dict[str, str]:
    """Return all variables of one environment, whose home and /tmp are in `folder`."""
    isolated = child_environment(
        folder, endpoint=account.endpoint, region=account.region, account_id=account.account_id
    )
    own = {
        **{name: isolated[name] for name in _ISOLATED},
        # CDK's kubectl handler writes its files here instead of /tmp.
        "TEST_OUTDIR": isolated["TMPDIR"],
        "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
    }
    return own | dict(configuration.variables)


def _command(function: Any, package: FunctionPackage) -> tuple[str, ...]:
    runtime = str(function.run_time)
    module, _, name = function.handler.rpartition(".")
    if runtime.startswith("python"):
        packages = sysconfig.get_path("purelib")
        return sys.executable, "-u", "-S", str(_HERE / "run_python.py"), CHANNEL, packages, module, name
    if runtime.startswith("nodejs"):
        # A Node.js handler may be an object's member: the part after the last slash splits at its first dot.
        folder, _, member = function.handler.rpartition("/")
        module, _, name = member.partition(".")
        module = f"{folder}/{module}" if folder else module
        node = shutil.which("node", path=search_path())
        if node is None:
            raise FileNotFoundError("no Node.js beside this Python: install requirements.txt")
        return node, str(_HERE / "run_node.js"), CHANNEL, str(package.task), module, name
    raise ValueError(f"the rehearsal runs Python and Node.js functions, not {runtime}")
