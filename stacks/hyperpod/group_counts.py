"""The function by which the sleeper, and nobody else, sets the counts of instance groups that sleep."""

import json
from pathlib import Path
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from config import Environment, naming
from config.facts.hyperpod_permissions import GROUP_COUNTS_CALLS
from stacks.hyperpod.call_permissions import CallPermissions
from stacks.hyperpod.provider import packed
from stacks.shared.checkov_skips import explain_on_its_own
from stacks.shared.nag_suppressions import acknowledge, managed_policy, wildcard
from stacks.shared.waiting_provider import RUNTIME

HANDLERS: Final = Path(__file__).resolve().parents[2] / "handlers" / "group_counts"


class GroupCounts(Construct):
    """A function that reads and sets these counts, each within the range of the environment.

    Its name is fixed: an export of the stack could not be removed together with the last group that sleeps.
    """

    def __init__(self, scope: Construct, id: str, *, environment: Environment, permissions: CallPermissions) -> None:
        super().__init__(scope, id)
        settings = environment.hyperpod
        images = {group.name: group.image_id for group in settings.instance_groups if group.image_id}
        with packed(HANDLERS) as code:
            function = lambda_.Function(
                self,
                "Function",
                function_name=naming.group_counts(environment),
                description="Counts of the instance groups that sleep",
                runtime=RUNTIME,
                code=code,
                handler="group_counts.index.handle",
                # Three calls, each with one retry, and the start of the function.
                timeout=Duration.minutes(3),
                memory_size=256,
                environment={
                    "CLUSTER_NAME": settings.cluster_name,
                    "RANGES": json.dumps(settings.sleeping_groups),
                    **({"IMAGES": json.dumps(images)} if images else {}),
                },
            )
        permissions.grant(function, GROUP_COUNTS_CALLS)
        permissions.acknowledge(self)
        explain_on_its_own(function)
        acknowledge(
            self, "It writes the function's own logs", managed_policy("service-role/AWSLambdaBasicExecutionRole")
        )
        acknowledge(self, "The handlers are tested for the Python version that is pinned", "L1")
        if images:
            acknowledge(self, "DescribeImages and DescribeSnapshots have no resource type", wildcard("*"))
