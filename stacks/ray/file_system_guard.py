"""The guard that waits until the CSI driver has deleted its file systems."""

from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from config import Environment, naming
from stacks.shared.nag_suppressions import acknowledge, wildcard
from stacks.shared.waiting_provider import RUNTIME, waiting_provider

HANDLERS: Final = Path(__file__).resolve().parents[2] / "handlers" / "file_system_guard"
RESOURCE_TYPE: Final = "Custom::FileSystemGuard"
# Longer than the handler's own limit, because the handler's error names the remaining file systems.
TOTAL_TIMEOUT: Final = Duration.minutes(45)


class FileSystemGuard(Construct):
    """A resource that acts only on its own deletion: it waits until the driver's file systems are deleted.

    The driver deletes a file system some time after its claim. Until then the driver and its role must exist, and the
    network stack cannot be deleted. So the claim depends on the guard, and the guard's stack is deleted before the
    driver's.
    """

    def __init__(self, scope: Construct, id: str, *, environment: Environment) -> None:
        super().__init__(scope, id)
        on_event, is_complete = self._function("on_event"), self._function("is_complete")
        # DescribeFileSystems has no resource type. Its answer includes each file system's tags.
        is_complete.add_to_role_policy(iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"]))
        provider = waiting_provider(self, on_event=on_event, is_complete=is_complete, total_timeout=TOTAL_TIMEOUT)
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
        acknowledge(self, "fsx:DescribeFileSystems has no resource type", wildcard("*"))

    def _function(self, handler: str) -> lambda_.Function:
        return lambda_.Function(
            self,
            handler.title().replace("_", ""),
            description=f"File systems that the CSI driver made for this environment: {handler}",
            runtime=RUNTIME,
            code=lambda_.Code.from_asset(str(HANDLERS), exclude=["__pycache__", "*.pyc"]),
            handler=f"index.{handler}",
            timeout=Duration.minutes(1),
        )
