"""Define CloudFormation's Lambda resources: functions, layers, permissions, settings of asynchronous invocation.

They replace moto's, which drop layers and tags, keep removed settings on an update, overwrite a function of the same
name, and cannot delete permissions and layers.
"""

import base64
import io
import json
import re
import uuid
import zipfile
from typing import Any, Self

from moto.awslambda.models import LambdaFunction, lambda_backends
from moto.utilities.utils import load_resource_as_str

from embedded_account.cloudformation.templates.constraints import runtime_end
from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.lambdas.role import missing_in_vpc
from embedded_account.services.iam.access import trusts
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)

_RUNTIMES = ("python3.", "nodejs")
_VARIABLES_BYTES = 4096
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_RESERVED = {
    "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_EXECUTION_ENV", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_RUNTIME_API", "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "LAMBDA_RUNTIME_DIR", "LAMBDA_TASK_ROOT", "_HANDLER",
    "_X_AMZN_TRACE_ID",
}  # fmt: skip
_UNABLE = (
    "Lambda was unable to configure your environment variables because the environment variables you have provided"
)


def install(account: Account) -> None:
    """Make the models use the account."""
    serve(account)


def _backend(account: Account) -> Any:
    return lambda_backends[account.account_id][account.region]


@cloudformation_model("AWS::Lambda::Function", name_property="FunctionName")
class FunctionResource(ResourceModel):
    """A function from a zip: Python or Node.js."""

    KNOWN = frozenset(
        [
            "Architectures",
            "Code",
            "Description",
            "Environment",
            "EphemeralStorage",
            "FunctionName",
            "Handler",
            "Layers",
            "LoggingConfig",
            "MemorySize",
            "Role",
            "Runtime",
            "Tags",
            "Timeout",
            "TracingConfig",
            "VpcConfig",
        ]
    )
    MUTABLE = (KNOWN - {"FunctionName", "LoggingConfig"}) | {"LoggingConfig.LogGroup"}

    @property
    def _function(self) -> Any:
        return _backend(self.account).get_function(self.physical_resource_id)

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        # CloudFormation cuts the start of a long generated name and keeps its random suffix.
        name = declaration.properties.get("FunctionName") or _shortened(declaration.name, 64)
        backend = _backend(declaration.account)
        if name in backend._lambdas._functions:
            raise ResourceError(f"Function already exist: {name} (ResourceConflictException)")
        resource = cls(declaration.account, name)
        function = resource._from(declaration)
        backend._lambdas.put_function(function)
        try:
            resource._attach_interfaces(function)
        except Exception:
            resource.remove()
            raise
        return resource

    def update(self, declaration: Declaration) -> None:
        """Replace the function with one made from the new properties."""
        old, new = self._function, self._from(declaration)
        new.policy.statements = old.policy.statements
        new.event_invoke_config = old.event_invoke_config
        new.code_or_config_updated = True
        _backend(self.account)._lambdas.put_function(new)
        if old._vpc_config != new._vpc_config:
            self.account.background.drop_all(new.function_arn)
            self._attach_interfaces(new)

    def remove(self) -> None:
        self.account.background.drop_all(self._function.function_arn)
        _backend(self.account).delete_function(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self._function.function_arn}

    def _from(self, declaration: Declaration) -> Any:
        properties = declaration.properties
        _check(self.account, properties)
        spec = {key: value for key, value in properties.items() if key not in ("LoggingConfig", "Code")}
        spec |= {
            "FunctionName": self.physical_resource_id,
            "Tags": declaration.tags(),
            "Code": _code(properties),
            "Timeout": int(properties.get("Timeout", 3)),
            "MemorySize": int(properties.get("MemorySize", 128)),
        }
        function = LambdaFunction(self.account.account_id, spec, self.account.region, version="$LATEST")
        if not zipfile.is_zipfile(io.BytesIO(function.code_bytes)):
            raise ResourceError("Could not unzip uploaded file. (InvalidParameterValueException)")
        log_group = properties.get("LoggingConfig", {}).get("LogGroup")
        function.logs_group_name = log_group or function.logs_group_name
        return function

    def _attach_interfaces(self, function: Any) -> None:
        """Create Lambda's interfaces in the function's subnets. On AWS functions with equal settings share them."""
        config = function._vpc_config or {}
        for subnet in config.get("SubnetIds", []):
            self.account.background.network_interface(
                maker_arn=function.function_arn,
                description=f"AWS Lambda VPC ENI-{function.function_name}-{uuid.uuid4()}",
                subnet_id=subnet,
                security_group_ids=config["SecurityGroupIds"],
                interface_type="lambda",
            )


def _shortened(name: str, limit: int) -> str:
    return name if len(name) <= limit else name[: limit - 13] + name[-13:]


def _check(account: Account, properties: dict[str, Any]) -> None:
    runtime, role = str(properties.get("Runtime", "")), properties["Role"]
    if not runtime.startswith(_RUNTIMES):
        raise ResourceError(f"Runtime {runtime!r}: the rehearsal runs zips for Python and Node.js only")
    if (end := runtime_end(runtime)) and account.clock.now().date() >= end:
        raise ResourceError(
            f"The runtime parameter of {runtime} is no longer supported for creating or updating AWS Lambda functions. "
            "We recommend you use a supported runtime while creating or updating functions. "
            "(InvalidParameterValueException)"
        )
    _check_variables(properties.get("Environment", {}).get("Variables", {}))
    if not properties.get("Handler"):
        raise ResourceError("Handler is required for a function from a zip (InvalidParameterValueException)")
    if not trusts(account, role, "lambda.amazonaws.com"):
        raise ResourceError(
            "The role defined for the function cannot be assumed by Lambda. (InvalidParameterValueException)"
        )
    for name, default, low, high in (("Timeout", 3, 1, 900), ("MemorySize", 128, 128, 10_240)):
        if not low <= int(properties.get(name, default)) <= high:
            raise ResourceError(f"{name} {properties[name]}: {low} to {high} is allowed")
    vpc = properties.get("VpcConfig", {})
    if bool(vpc.get("SubnetIds")) != bool(vpc.get("SecurityGroupIds")):
        raise ResourceError(
            "SubnetIds and SecurityIds must coexist or be both empty list. (InvalidParameterValueException)"
        )
    if vpc.get("SubnetIds") and (action := missing_in_vpc(account, role)):
        raise ResourceError(
            f"The provided execution role does not have permissions to call {action} on EC2 "
            "(InvalidParameterValueException)"
        )


def _check_variables(variables: dict[str, Any]) -> None:
    if sum(len(f"{name}{value}".encode()) for name, value in variables.items()) > _VARIABLES_BYTES:
        raise ResourceError(f"{_UNABLE} exceeded the 4KB limit. (InvalidParameterValueException)")
    if reserved := sorted(_RESERVED & variables.keys()):
        raise ResourceError(
            f"{_UNABLE} contains reserved keys that are currently not supported for modification. "
            f"Reserved keys used in this request: {', '.join(reserved)} (InvalidParameterValueException)"
        )
    if wrong := [name for name in variables if not re.fullmatch("[a-zA-Z]([a-zA-Z0-9_])+", name)]:
        raise ResourceError(
            f"1 validation error detected: Value '{wrong[0]}' at 'environment.variables' failed to satisfy constraint: "
            "Map keys must satisfy regular expression pattern: [a-zA-Z]([a-zA-Z0-9_])+ (ValidationException)"
        )


def _code(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the code in moto's form: inline text becomes a zip with the one file that Lambda makes of it."""
    code = dict(properties["Code"])
    if "ZipFile" in code:
        code["ZipFile"] = base64.b64encode(_inline_zip(code["ZipFile"], properties["Runtime"])).decode()
    elif "S3Bucket" not in code:
        raise ResourceError(f"Code of {sorted(code)}: the rehearsal takes S3Bucket and S3Key, or ZipFile")
    return code


def _inline_zip(text: str, runtime: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        if runtime.startswith("nodejs"):
            archive.writestr("index.js", text)
        else:
            archive.writestr("index.py", text)
            archive.writestr("cfnresponse.py", load_resource_as_str("awslambda/resources/cfnresponse.py.txt"))
    return buffer.getvalue()


@cloudformation_model("AWS::Lambda::LayerVersion", name_property="LayerName")
class LayerVersionResource(ResourceModel):
    """A version of a layer; `Ref` is its ARN."""

    MUTABLE = frozenset()
    KNOWN = frozenset(
        ["CompatibleArchitectures", "CompatibleRuntimes", "Content", "Description", "LayerName", "LicenseInfo"]
    )

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        name = properties.get("LayerName") or _shortened(declaration.name, 140)
        version = _backend(declaration.account).publish_layer_version(properties | {"LayerName": name})
        return cls(declaration.account, version.arn)

    def remove(self) -> None:
        *_, name, version = self.physical_resource_id.split(":")
        _backend(self.account).delete_layer_version(name, version)

    def attributes(self) -> dict[str, Any]:
        return {"LayerVersionArn": self.physical_resource_id}


@cloudformation_model("AWS::Lambda::Permission")
class PermissionResource(ResourceModel):
    """One statement of a function's resource policy."""

    MUTABLE = frozenset()
    KNOWN = frozenset(
        [
            "Action",
            "EventSourceToken",
            "FunctionName",
            "FunctionUrlAuthType",
            "Principal",
            "PrincipalOrgID",
            "SourceAccount",
            "SourceArn",
        ]
    )

    def __init__(self, account: Account, statement_id: str, function_name: str) -> None:
        super().__init__(account, statement_id)
        self._function_name = function_name

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        function = _backend(declaration.account).get_function(declaration.properties["FunctionName"])
        statement = declaration.properties | {"StatementId": declaration.name}
        function.policy.add_statement(json.dumps(statement))
        return cls(declaration.account, declaration.name, function.function_name)

    def remove(self) -> None:
        function = _backend(self.account).get_function(self._function_name)
        function.policy.del_statement(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}


@cloudformation_model("AWS::Lambda::EventInvokeConfig")
class EventInvokeConfigResource(ResourceModel):
    """The retries and the maximum event age of a function's asynchronous invocations."""

    MUTABLE = frozenset({"MaximumEventAgeInSeconds", "MaximumRetryAttempts"})
    KNOWN = MUTABLE | {"DestinationConfig", "FunctionName", "Qualifier"}

    def __init__(self, account: Account, physical_resource_id: str, function_name: str) -> None:
        super().__init__(account, physical_resource_id)
        self._function_name = function_name

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        name = declaration.properties["FunctionName"]
        resource = cls(declaration.account, f"{name}|{declaration.properties['Qualifier']}", name)
        resource.update(declaration)
        return resource

    def update(self, declaration: Declaration) -> None:
        backend = _backend(self.account)
        backend.get_function(self._function_name).event_invoke_config = []
        given = declaration.properties
        config = {key: given[key] for key in given if key not in ("FunctionName", "Qualifier")}
        for number in ("MaximumRetryAttempts", "MaximumEventAgeInSeconds"):
            if number in config:
                config[number] = int(config[number])
        backend.put_function_event_invoke_config(self._function_name, config)

    def remove(self) -> None:
        _backend(self.account).delete_function_event_invoke_config(self._function_name)
