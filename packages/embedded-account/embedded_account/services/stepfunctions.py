"""Run Step Functions state machines: CDK's provider framework needs their executions in order to wait.

The framework polls with Wait states and with the pauses between retries. Both follow the account's clock.
"""

import time
import uuid
from types import SimpleNamespace
from typing import Any, Final, Self

import boto3
import moto.stepfunctions.models as moto_models
from botocore.config import Config
from moto.core.config import default_user_config
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.iam.access import trusts
from embedded_account.services.iam.role_sessions import RoleSessions
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)

_LEAST_PAUSE_SECONDS: Final = 0.1
"""The shortest pause between two tries, in real seconds.

Each try invokes a function; a warm function answers in less time.
"""

_NO_LOGS: Final = {"Level": "OFF", "IncludeExecutionData": False, "Destinations": []}
_NO_TRACES: Final = {"Enabled": False}

_CALLS: Final = Config(parameter_validation=False, retries={"total_max_attempts": 1}, read_timeout=900)
"""The client settings of states that call services.

The read timeout (seconds) is the longest time that a Lambda function can run.
"""


def install(account: Account) -> None:
    """Use moto's executing backend everywhere, and make it accept executions without a name."""
    serve(account)
    default_user_config["stepfunctions"]["execute_state_machine"] = True
    # moto's other modules look up state machines here, by default in the backend that does not execute them.
    moto_models.stepfunctions_backends = stepfunctions_parser_backends
    _name_executions()
    _scale_waits(account)
    _scale_retries(account)
    _call_with_roles(account)


def _name_executions() -> None:
    """Give a random name to executions that are started without one; moto would name them None."""
    start = StepFunctionsParserBackend.start_execution

    def start_execution(backend: Any, state_machine_arn: str, name: str | None = None, *rest: Any) -> Any:
        return start(backend, state_machine_arn, name or str(uuid.uuid4()), *rest)

    StepFunctionsParserBackend.start_execution = start_execution


def _scale_waits(account: Account) -> None:
    """Make Wait states follow the account's clock; moto's own wait for real seconds."""

    def wait(_function: Any, env: Any, wait_seconds: float) -> None:
        deadline = time.monotonic() + wait_seconds / account.clock.scale
        while env.is_running() and (left := deadline - time.monotonic()) > 0:
            env.program_state_event.wait(left)

    WaitFunction._wait_interval = wait


def _scale_retries(account: Account) -> None:
    """Make the pause between two tries of a task follow the account's clock.

    A pause is never shorter than `_LEAST_PAUSE`, to limit the load on the machine.
    """

    def sleep(seconds: float) -> None:
        time.sleep(max(_LEAST_PAUSE_SECONDS, seconds / account.clock.scale))

    retrier_decl.time = SimpleNamespace(sleep=sleep)


def _call_with_roles(account: Account) -> None:
    """Let states call services with a session of their state machine's role.

    moto signs these calls with a key that the account never issued.
    """
    sessions = RoleSessions(account)

    def client(region: str, service: str, state_credentials: Any = None) -> Any:
        keys = sessions.environment(state_credentials.role_arn, "states")
        make: Any = boto3.client  # its type stubs accept only literal service names
        return make(
            service,
            region_name=region,
            endpoint_url=account.endpoint,
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=keys["AWS_SESSION_TOKEN"],
            config=_CALLS,
        )

    lambda_eval_utils.boto_client_for = client


@cloudformation_model("AWS::StepFunctions::StateMachine", name_property="StateMachineName")
class StateMachineResource(ResourceModel):
    """A state machine; its definition is parsed when it is created."""

    KNOWN = frozenset(
        [
            "DefinitionString",
            "LoggingConfiguration",
            "RoleArn",
            "StateMachineName",
            "StateMachineType",
            "Tags",
            "TracingConfiguration",
        ]
    )
    MUTABLE = frozenset({"DefinitionString", "LoggingConfiguration", "RoleArn", "Tags", "TracingConfiguration"})

    @property
    def _backend(self) -> Any:
        return stepfunctions_parser_backends[self.account.account_id][self.account.region]

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        resource = cls(declaration.account, "")
        _require_definition(properties)
        resource._require_trusted(properties["RoleArn"])
        machine = resource._backend.create_state_machine(
            name=properties.get("StateMachineName", declaration.name[-80:]),
            definition=properties["DefinitionString"],
            roleArn=properties["RoleArn"],
            tags=_tags(declaration),
            loggingConfiguration=_api_shape({**_NO_LOGS, **properties.get("LoggingConfiguration", {})}),
            tracingConfiguration=_api_shape({**_NO_TRACES, **properties.get("TracingConfiguration", {})}),
            sm_type=properties.get("StateMachineType", "STANDARD"),
        )
        resource.physical_resource_id = machine.arn
        return resource

    def update(self, declaration: Declaration) -> None:
        properties = declaration.properties
        _require_definition(properties)
        self._require_trusted(properties["RoleArn"])
        self._backend.update_state_machine(
            self.physical_resource_id,
            definition=properties["DefinitionString"],
            role_arn=properties["RoleArn"],
            logging_configuration=_api_shape({**_NO_LOGS, **properties.get("LoggingConfiguration", {})}),
            tracing_configuration=_api_shape({**_NO_TRACES, **properties.get("TracingConfiguration", {})}),
        )
        self._backend.tagger.delete_all_tags_for_resource(self.physical_resource_id)
        self._backend.tagger.tag_resource(self.physical_resource_id, _tags(declaration))

    def remove(self) -> None:
        self._backend.delete_state_machine(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        machine = self._backend.describe_state_machine(self.physical_resource_id)
        return {"Arn": machine.arn, "Name": machine.name}

    def _require_trusted(self, role_arn: str) -> None:
        if not trusts(self.account, role_arn, f"states.{self.account.region}.amazonaws.com") and not trusts(
            self.account, role_arn, "states.amazonaws.com"
        ):
            raise ResourceError(
                f"Neither the global service principal states.amazonaws.com, nor the regional one is authorized to "
                f"assume the provided role {role_arn}. (AccessDeniedException)"
            )


def _require_definition(properties: dict[str, Any]) -> None:
    if "DefinitionString" not in properties:
        raise ResourceError("AWS::StepFunctions::StateMachine: the embedded account accepts only a DefinitionString")


def _tags(declaration: Declaration) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in declaration.tags().items()]


def _api_shape(value: Any) -> Any:
    """Return a setting in the API's spelling: LogGroupArn becomes logGroupArn."""
    if isinstance(value, list):
        return [_api_shape(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name[0].lower() + name[1:]: _api_shape(each) for name, each in value.items()}
