"""The names that CloudFormation gives to resources whose template names none."""

import secrets
import string

_LIMITS = {
    "AWS::EKS::Cluster": 100,
    "AWS::EKS::Nodegroup": 63,
    "AWS::IAM::InstanceProfile": 128,
    "AWS::IAM::ManagedPolicy": 128,
    "AWS::IAM::Policy": 128,
    "AWS::IAM::Role": 64,
    "AWS::Events::Rule": 64,
    "AWS::Lambda::Function": 64,
    "AWS::S3::Bucket": 63,
    "AWS::SQS::Queue": 80,
    "AWS::StepFunctions::StateMachine": 80,
}
"""Longest name by type, in characters (each service's API reference); others are longer than any result here."""

_LOWER_CASE = {"AWS::S3::Bucket", "AWS::ECR::Repository"}

_SUFFIX_LENGTH = 12
_LONGEST = 128


def suffix() -> str:
    """Return CloudFormation's random ending: twelve capital letters and digits."""
    return "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(_SUFFIX_LENGTH))


def physical_name(resource_type: str, stack_name: str, logical_id: str) -> str:
    """Return `<stack>-<logical id>-<random>`, cut to what the type allows."""
    limit = _LIMITS.get(resource_type, _LONGEST)
    room = limit - _SUFFIX_LENGTH - 2
    stack_part = stack_name[: max(room - len(logical_id), room // 2)]
    name = f"{stack_part}-{logical_id[: room - len(stack_part)]}-{suffix()}"
    return name.lower() if resource_type in _LOWER_CASE else name
