"""List the permissions that calls need: actions and their resources, by service and operation.

Source: the service authorization reference, which lists the actions, resource types and ARNs of each service. An
operation without a row needs the action of its name on every resource: a caller whose policies name resources is
refused.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from embedded_account.context import Account
from embedded_account.permissions import s3
from embedded_account.permissions.calls import AwsCall

PREFIXES: Final = {"monitoring": "cloudwatch"}
"""The prefixes of the actions of services that sign with another name."""
FREE: Final = {"sts": frozenset({"AssumeRoleWithWebIdentity", "GetCallerIdentity"})}
"""Operations that need no permission (STS API reference)."""

_PARAMETER: Final = re.compile(r"{(\w+)}")
_ON_STACKS: Final = (
    "ContinueUpdateRollback CreateChangeSet CreateStack DeleteChangeSet DeleteStack DescribeChangeSet DescribeEvents "
    "DescribeStackEvents DescribeStackResource DescribeStackResourceDrifts DescribeStackResources DescribeStacks "
    "DetectStackDrift DetectStackResourceDrift ExecuteChangeSet GetTemplate ListChangeSets ListStackResources "
    "RollbackStack SetStackPolicy UpdateStack UpdateTerminationProtection"
)
_ON_TRACKING_SERVERS: Final = (
    "CreateMlflowTrackingServer DeleteMlflowTrackingServer DescribeMlflowTrackingServer UpdateMlflowTrackingServer"
)
_LOG_GROUP: Final = "log-group:{%s}:log-stream:"
"""CloudWatch Logs checks a log group with the suffix of its streams."""


def _same(names: str, template: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), template)


RESOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "budgets": _same("ModifyBudget ViewBudget", "budget/{BudgetName}"),
    "cloudformation": _same(_ON_STACKS, "stack/{StackName}"),
    "ec2": {
        "DeleteNetworkInterface": "network-interface/{NetworkInterfaceId}",
        "DeleteSecurityGroup": "security-group/{GroupId}",
        "DeleteSnapshot": "snapshot/{SnapshotId}",
        "DeleteVolume": "volume/{VolumeId}",
        "DeleteVpcEndpoints": "vpc-endpoint/{VpcEndpointIds}",
        "DescribeVpcAttribute": "vpc/{VpcId}",
    },
    "ecr": {
        **_same("CreateRepository DeleteRepository DescribeImages", "repository/{repositoryName}"),
        "DescribeRepositories": "repository/{repositoryNames}",
        "ListTagsForResource": "{resourceArn}",
    },
    "eks": {
        "DescribeAccessEntry": "access-entry/{clusterName}/role/000000000000/name/00000000",
        "DescribeAddon": "addon/{clusterName}/{addonName}/00000000",
        "DescribeCluster": "cluster/{name}",
        "ListAddons": "cluster/{clusterName}",
        "DescribeNodegroup": "nodegroup/{clusterName}/{nodegroupName}/00000000",
    },
    "fsx": {
        "CreateDataRepositoryTask": "file-system/{FileSystemId} task/*",
        "DeleteFileSystem": "file-system/{FileSystemId}",
    },
    "kms": _same("DescribeKey GetKeyPolicy ListResourceTags ScheduleKeyDeletion", "key/{KeyId}"),
    "lambda": _same("GetFunction InvokeFunction", "function:{FunctionName}"),
    "logs": {
        "DeleteLogGroup": _LOG_GROUP % "logGroupName",
        "FilterLogEvents": _LOG_GROUP % "logGroupName",
    },
    "monitoring": {
        **_same("GetDashboard PutDashboard", "dashboard/{DashboardName}"),
        "DeleteDashboards": "dashboard/{DashboardNames}",
    },
    "sagemaker": {
        "DescribeTrainingPlan": "training-plan/{TrainingPlanName}",
        **_same(_ON_TRACKING_SERVERS, "mlflow-tracking-server/{TrackingServerName}"),
    },
    "sns": {"Publish": "{TopicArn}"},
    "ssm": {
        **_same("DeleteParameter GetParameter PutParameter", "parameter/{Name}"),
        "GetParameters": "parameter/{Names}",
    },
    "states": {"StartExecution": "{stateMachineArn}"},
    "sts": {"AssumeRole": "{RoleArn}"},
}
"""The resources of an action, by service and action: an ARN after the account's id, with parameters of the request.

Spaces part resources that the action needs together, also one that the call makes and whose id is not known yet. A
list gives one resource for each of its items; a parameter that is an ARN gives itself. A missing parameter is `*`:
the call is about every resource of its kind. S3 has a module of its own, `s3`, HyperPod's calls are checked in
`embedded_account.hyperpod`.
"""
_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "budgets": {
        **_same("CreateBudget CreateNotification CreateSubscriber", "ModifyBudget"),
        **_same("DeleteBudget DeleteNotification DeleteSubscriber", "ModifyBudget"),
        **_same("UpdateBudget UpdateNotification UpdateSubscriber", "ModifyBudget"),
        **_same("DescribeBudget DescribeBudgets DescribeBudgetNotificationsForAccount", "ViewBudget"),
        **_same("DescribeBudgetPerformanceHistory DescribeNotificationsForBudget", "ViewBudget"),
        "DescribeSubscribersForNotification": "ViewBudget",
    },
    "lambda": _same("Invoke InvokeAsync InvokeWithResponseStream", "InvokeFunction"),
    "s3": s3.ACTIONS,
    "sns": {"PublishBatch": "Publish"},
}
"""The actions of operations that have another name, by service."""


def action_of(call: AwsCall) -> str:
    """Return the IAM action of a call, such as s3:ListBucket."""
    name = _ACTIONS.get(call.service, {}).get(call.operation, call.operation)
    return f"{PREFIXES.get(call.service, call.service)}:{name}"


def needs_of(account: Account, call: AwsCall) -> Iterator[tuple[str, str]]:
    """Yield the actions of a call, each with the ARNs that it is checked on; `*` if it has no row."""
    if call.service == "s3":
        yield from s3.needs_of(account, action_of(call), call)
        return
    templates = RESOURCES.get(call.service, {}).get(action_of(call).partition(":")[2])
    if templates is None:
        yield action_of(call), "*"
        return
    for template in templates.split():
        fields = _PARAMETER.findall(template)
        for values in product(*(_values(call.parameters.get(field)) for field in fields)):
            given = next((value for value in values if value.startswith("arn:")), None)
            named = template.format(**dict(zip(fields, values, strict=True)))
            yield action_of(call), given or _arn(account, call.service, named)


def _values(given: Any) -> list[str]:
    if isinstance(given, list) and given:
        return [str(each) for each in given]
    return [str(given)] if given else ["*"]


def _arn(account: Account, service: str, name: str) -> str:
    if service == "cloudformation":
        stack = account.stacks.find(name.partition("/")[2])
        if stack:
            return stack.stack_id
        name = f"{name}/*"
    if service == "monitoring":
        return f"arn:aws:cloudwatch::{account.account_id}:{name}"
    # A parameter's name may begin with a slash, which its ARN has once; a snapshot's ARN has no account.
    name = name.replace("parameter//", "parameter/")
    owner = "" if name.startswith("snapshot/") else account.account_id
    region = "" if service == "budgets" else account.region
    return f"arn:aws:{service}:{region}:{owner}:{name}"
