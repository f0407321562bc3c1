"""Exceptions from checkov's CloudFormation policies, with their reasons, in the metadata of each resource.

`tests/synth/test_checkov.py` runs the policies. It fails on a violation without a reason and on a reason without a
violation. Exceptions from cdk-nag's rules are in `nag_suppressions.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from aws_cdk import CfnResource
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from stacks.shared.resources import resources_of_type

_KEY: Final = "checkov"
_FUNCTION: Final = {
    "CKV_AWS_115": "It runs once in a deployment; a share of its own would be missing to the account's other functions",
    "CKV_AWS_116": "CloudFormation waits for its answer and reports its failure: nobody would read a dead letter queue",
}
_ON_ITS_OWN: Final = {
    "CKV_AWS_115": "One program calls it, once at a time; a share would be missing to the account's other functions",
    "CKV_AWS_116": "Its caller waits for its answer and asks again later: nobody would read a dead letter queue",
    "CKV_AWS_117": "It calls SageMaker's API only, and needs nothing of the VPC",
}
_OUTSIDE_A_VPC: Final = {
    "CKV_AWS_117": "It calls AWS's APIs only; in the VPC it would hold interfaces of what it helps to delete"
}
_VARIABLES: Final = {"CKV_AWS_173": "Its variables are names and ARNs, which Lambda encrypts with its own key"}
_LOG_GROUP: Final = {
    "CKV_AWS_158": "No secret is logged, and CloudWatch encrypts with its own key; one of ours would outlive the stack"
}


def explain(resource: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record in a resource's metadata the policies that it does not meet, by id, with the reasons; once for each.

    `resource` is a CfnResource, or a construct whose default child is one.
    """
    element = resource if isinstance(resource, CfnResource) else cast(CfnResource, resource.node.default_child)
    _record(element, reasons, [])


def _record(element: CfnResource, reasons: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> None:
    skipped = [{"id": policy, "comment": reason} for policy, reason in reasons.items()]
    element.add_metadata(_KEY, {"skip": [*known, *skipped]})


def explain_variables(scope: IConstruct) -> None:
    """Record the reason for environment variables of the functions below `scope`, which are all CDK's own.

    The caller decides which functions have variables: CDK reveals them only when it writes the template.
    """
    for function in resources_of_type(scope, lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME):
        if isinstance(function, lambda_.CfnFunction):
            explain(function, _VARIABLES)


def explain_on_its_own(function: IConstruct) -> None:
    """Record the exceptions of a function that no deployment calls, but a program in the cluster."""
    explain(function, _ON_ITS_OWN | _VARIABLES)


def explain_departures(scope: IConstruct, *, key_of_logs: bool) -> None:
    """Record the exceptions that all functions and all log groups in the tree share, CDK's own included.

    A reason that a function has already, of its own, stays.
    Call it once the tree is complete. `key_of_logs`: the company gives a key for the log groups.
    """
    for function in resources_of_type(scope, lambda_.CfnFunction.CFN_RESOURCE_TYPE_NAME):
        # CDK's older custom resources declare a plain CfnResource, always without a VPC.
        reasons = _FUNCTION if getattr(function, "vpc_config", None) else _FUNCTION | _OUTSIDE_A_VPC
        known = (function.get_metadata(_KEY) or {"skip": []})["skip"]
        own = {skip["id"] for skip in known}
        _record(function, {policy: reason for policy, reason in reasons.items() if policy not in own}, known)
    for log_group in () if key_of_logs else resources_of_type(scope, logs.CfnLogGroup.CFN_RESOURCE_TYPE_NAME):
        explain(log_group, _LOG_GROUP)
