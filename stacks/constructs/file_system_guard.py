"""The guard that leaves no file system of the CSI driver behind."""

from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as cr
from constructs import Construct

from config import Environment, naming, versions
from stacks.constructs.acknowledge import acknowledge, attribute_arn, managed_policy, wildcard

HANDLERS: Final = Path(__file__).resolve().parents[2] / "handlers" / "file_system_guard"
RESOURCE_TYPE: Final = "Custom::FileSystemGuard"
QUERY_INTERVAL: Final = Duration.seconds(15)
# More than the handler's own patience: it is the one that names what is left.
TOTAL_TIMEOUT: Final = Duration.minutes(45)


class FileSystemGuard(Construct):
    """Does nothing until it is deleted; then waits until the driver's file systems of this environment are gone.

    The driver deletes a file system some time after its claim. Until then driver and role must live, and the network
    stack could not go: so the claim depends on the guard, and the guard's stack goes before the driver's.
    """

    def __init__(self, scope: Construct, id: str, *, environment: Environment) -> None:
        super().__init__(scope, id)
        on_event, is_complete = self._function("on_event"), self._function("is_complete")
        # It has no resource type; file systems come with their tags.
        is_complete.add_to_role_policy(iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"]))
        provider = cr.Provider(
            self,
            "Framework",
            on_event_handler=on_event,
            is_complete_handler=is_complete,
            query_interval=QUERY_INTERVAL,
            total_timeout=TOTAL_TIMEOUT,
        )
        CustomResource(
            self,
            "Resource",
            resource_type=RESOURCE_TYPE,
            service_token=provider.service_token,
            properties={
                "TagKey": naming.ENVIRONMENT_TAG,
                "TagValue": naming.environment_tag(environment),
                "ReclaimPolicy": environment.fsx.reclaim_policy or "Delete",
            },
        )
        self._acknowledge(provider, on_event, is_complete)

    def _function(self, handler: str) -> lambda_.Function:
        return lambda_.Function(
            self,
            handler.title().replace("_", ""),
            description=f"File systems that the CSI driver made for this environment: {handler}",
            runtime=lambda_.Runtime(f"python{versions.LAMBDA_PYTHON}", lambda_.RuntimeFamily.PYTHON),
            code=lambda_.Code.from_asset(str(HANDLERS), exclude=["__pycache__", "*.pyc"]),
            handler=f"index.{handler}",
            timeout=Duration.minutes(1),
        )

    def _acknowledge(self, provider: cr.Provider, *handlers: lambda_.Function) -> None:
        framework = [provider.node.find_child(f"framework-{part}") for part in ("isComplete", "onTimeout")]
        functions = [wildcard(f"{attribute_arn(function)}:*") for function in (*handlers, *framework)]
        basic = managed_policy("service-role/AWSLambdaBasicExecutionRole")
        acknowledge(self, "It writes the function's own logs", basic)
        acknowledge(self, "The handlers are tested for the Python version that is pinned", "L1")
        acknowledge(self, "The waiter's log would carry CloudFormation's pre-signed response address", "SF1", "SF2")
        acknowledge(self, "CDK's grant to invoke any version of the handlers", *functions)
        acknowledge(self, "fsx:DescribeFileSystems knows no resource", wildcard("*"))
