"""The statements that the policy of the company's KMS key needs."""

from typing import Any

from config import naming
from config.container_insights import alarms_of
from config.model import Environment

_USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]


def auto_scaling_role(account: str) -> str:
    """Return the ARN of the service-linked role that launches the system nodes."""
    return f"arn:aws:iam::{account}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"


def named_principals(environment: Environment) -> list[str]:
    """Return what the key's policy names: the account, and services and roles without other rights to the key."""
    services = [f"logs.{environment.region}.amazonaws.com"]
    services += ["events.amazonaws.com"] if environment.notifications else []
    services += ["budgets.amazonaws.com"] if environment.has_budget else []
    services += ["cloudwatch.amazonaws.com"] if alarms_of(environment) else []
    return [_owner(environment), *services, auto_scaling_role(environment.account)]


def _owner(environment: Environment) -> str:
    return f"arn:aws:iam::{environment.account}:root"


def key_policy(environment: Environment) -> dict[str, Any]:
    """Return a key policy with these statements.

    The first lets IAM decide: EKS, ECR, FSx, HyperPod and S3 use the key with the rights of the role that calls them,
    which the stacks limit to the service that needs it. The others name principals without policies of their own.
    Sources: KMS developer guide, "Key policies"; CloudWatch Logs user guide, "Encrypt log data"; EC2 Auto Scaling user
    guide, "Required AWS KMS key policy for use with encrypted volumes"; FSx for Lustre user guide, "Working with
    server-side encrypted Amazon S3 buckets"; SNS developer guide, "Enable compatibility between event sources from AWS
    services and encrypted topics"; SageMaker AI developer guide, smcluster-cmk (no encryption context).
    """
    account, region = environment.account, environment.region
    logs = f"arn:aws:logs:{region}:{account}:log-group:*"
    role = f"arn:aws:iam::{account}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com"
    through_s3 = {"kms:CallerAccount": account, "kms:ViaService": f"s3.{region}.amazonaws.com"}
    auto_scaling = {"AWS": auto_scaling_role(account)}
    statements = [
        _allow("RolesOfTheAccount", {"AWS": _owner(environment)}, ["kms:*"]),
        _allow(
            "LogGroups",
            {"Service": f"logs.{region}.amazonaws.com"},
            _USE,
            {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
        ),
        _allow("VolumesOfSystemNodes", auto_scaling, _USE),
        _allow(
            "GrantsForVolumesOfSystemNodes",
            auto_scaling,
            ["kms:CreateGrant"],
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        # FSx makes a role for each file system, and a principal with a wildcard is none: conditions name the roles.
        _allow(
            "DataRepositoriesOfFileSystems",
            {"AWS": "*"},
            _USE,
            {
                "ArnLike": {"aws:PrincipalArn": f"{role}/AWSServiceRoleForFSxS3Access_fs-*"},
                "StringEquals": through_s3,
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": f"arn:aws:s3:::{naming.data_bucket(environment)}*"},
            },
        ),
    ]
    if environment.notifications:
        use = ["kms:Decrypt", "kms:GenerateDataKey*"]
        statements.append(_allow("Notifications", {"Service": "events.amazonaws.com"}, use))
    if environment.has_budget:
        use = ["kms:Decrypt", "kms:GenerateDataKey*"]
        for_account = {
            "StringEquals": {"aws:SourceAccount": account},
            "ArnLike": {"aws:SourceArn": f"arn:aws:budgets::{account}:*"},
        }
        statements.append(_allow("Budget", {"Service": "budgets.amazonaws.com"}, use, for_account))
    if alarms_of(environment):
        use = ["kms:Decrypt", "kms:GenerateDataKey*"]
        statements.append(_allow("Alarms", {"Service": "cloudwatch.amazonaws.com"}, use))
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(
    sid: str, principal: dict[str, str], actions: list[str], condition: dict[str, dict[str, str]] | None = None
) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Principal": principal, "Action": actions, "Resource": "*"}
    return statement | ({"Condition": condition} if condition else {})
