"""The check of Container Insights' log groups."""

from collections.abc import Iterator

from config import EksEnvironment, naming
from ops.preflight import names
from ops.preflight.check import CheckFinding
from ops.preflight.here import Here


def log_groups(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require that the names of Container Insights' log groups are free, or its own.

    AWS: logs DescribeLogGroups. Source: CloudWatch user guide, "Container-Insights-EKS-logs": agents create these
    groups, and nobody deletes them with the agents. CloudFormation refuses a name that exists.
    """
    if not here.environment.container_insights:
        return
    cluster, region = naming.eks_cluster(here.environment), here.environment.region
    wanted = [naming.container_insights_log_group(cluster, log) for log in naming.CONTAINER_INSIGHTS_LOGS]
    prefix = naming.container_insights_log_group(cluster, "")
    groups = here.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    existing = {group["logGroupName"] for group in groups}
    for name in wanted:
        fix = f"keep what you need of it, then: aws logs delete-log-group --log-group-name {name} --region {region}"
        yield names.is_free(here, "AWS::Logs::LogGroup", name, name in existing, fix)
