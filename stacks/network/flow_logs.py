"""The flow log of a VPC."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.shared.log_group import declared_log_group


class FlowLogs(Construct):
    """A flow log of accepted and rejected connections of the whole VPC, in CloudWatch Logs."""

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, id)
        ec2.FlowLog(
            self,
            "Resource",
            resource_type=ec2.FlowLogResourceType.from_vpc(vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(declared_log_group(self, "Log")),
        )
