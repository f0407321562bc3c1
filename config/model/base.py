"""The base class of all models, and the formats of single values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints


class UnknownValueError(AttributeError):
    """A key of a partial environment has no value, because the file's is missing or of a wrong kind."""


class Model(BaseModel):
    """Base of all models: frozen, strict, and without unknown keys."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    # Type checkers would otherwise take any attribute for declared.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise UnknownValueError for a key without a value, so that it differs from a misspelt attribute."""
            if name in type(self).model_fields:
                raise UnknownValueError(name)
            return super().__getattr__(name)


@dataclass(frozen=True, kw_only=True)
class Shape(StringConstraints):
    """A pattern of a text, and the words that messages use for it."""

    what: str
    """Such a text in words: "the id of a zone"."""
    like: str
    """An example."""
    fix: str
    """Where to find the right text, or how to write it."""
    mistakes: tuple[tuple[str, str], ...] = ()
    """Patterns of frequent mistakes, each with its reason in words."""


# Patterns list ASCII letters and digits: \w and \d of pydantic also match those of all other scripts.
Name = Annotated[
    str,
    Shape(
        pattern=r"^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$",
        what="a name of 1 to 32 lowercase letters, digits and inner hyphens that begins with a letter",
        like="gpu-group",
        fix="use lowercase letters, and hyphens instead of other characters",
    ),
]
# SageMaker CreateCluster: InstanceGroupName.
HyperPodName = Annotated[
    str,
    Shape(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        what="a name of 1 to 63 letters, digits and inner hyphens",
        like="worker-group-1",
        fix="use hyphens instead of other characters",
    ),
]
AccountId = Annotated[
    str,
    Shape(
        pattern=r"^[0-9]{12}$",
        what="an AWS account id, twelve digits in quotes",
        like="111122223333",
        fix="copy it from `aws sts get-caller-identity --query Account`",
        mistakes=(
            (r"[0-9]{4}-[0-9]{4}-[0-9]{4}", "it has the hyphens that the console shows"),
            (r"arn:.*", "it is an ARN"),
            (r"[0-9]+", "it does not have twelve digits"),
        ),
    ),
]
Region = Annotated[
    str,
    Shape(
        pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$",
        what="the code of an AWS region",
        like="us-west-2",
        fix="`aws ec2 describe-regions` lists the codes",
        mistakes=(
            (r"[a-z]{2}(-[a-z]+)+-[0-9][a-z]", "it is the name of a zone"),
            (r"[a-z]{3,4}[0-9](-az[0-9])?", "it is an abbreviation that zone ids use"),
        ),
    ),
]
ZoneId = Annotated[
    str,
    Shape(
        pattern=r"^[a-z]{3,4}[0-9]-az[0-9]$",
        what="the id of an availability zone",
        like="usw2-az2",
        fix="`aws ec2 describe-availability-zones --region REGION` shows the ZoneId of each ZoneName",
        mistakes=(
            (
                r"[a-z]{2}(-[a-z]+)+-[0-9][a-z]",
                "it is the name of a zone, and names mean different zones in each account",
            ),
        ),
    ),
]
RoleArn = Annotated[
    str,
    Shape(
        # IAM user guide, IAM identifiers: a name has 1 to 64 characters, after a path of any number of parts.
        pattern=r"^arn:aws:iam::[0-9]{12}:role/([A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,64}$",
        what="the ARN of an IAM role",
        like="arn:aws:iam::111122223333:role/PlatformAdmin",
        fix="copy it from `aws iam get-role --role-name NAME --query Role.Arn`",
        mistakes=(
            (r"arn:aws:iam::[0-9]{12}:user/.*", "it is the ARN of a user"),
            (r"arn:aws:iam::[0-9]{12}:(root|group/.*)", "it is not a role"),
            (r"arn:aws:sts::[0-9]{12}:assumed-role/.*", "it is the ARN of a session, not of its role"),
            (r"[A-Za-z0-9_+=,.@/-]+", "it is a name without the account"),
        ),
    ),
]
AbsolutePath = Annotated[
    str,
    Shape(
        pattern=r"^/[^\s]*[^/\s]$",
        what="an absolute path without spaces and without a slash at its end",
        like="/fsx",
        fix="write a slash at the beginning and none at the end",
    ),
]
# Kubernetes: names of environment variables, of objects, keys and values of labels.
VariableName = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        what="the name of an environment variable: letters, digits and underscores, with no digit first",
        like="NCCL_DEBUG",
        fix="use underscores instead of other characters",
    ),
]
ObjectName = Annotated[
    str,
    Shape(
        pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        what="the name of a Kubernetes object: lowercase letters, digits, and inner hyphens and dots",
        like="hub-token",
        fix="copy it from `kubectl get`",
    ),
]
LabelKey = Annotated[
    str,
    Shape(
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
        what="the key of a Kubernetes label: at most 63 letters, digits, and inner hyphens, dots and underscores, "
        "optionally after a domain and a slash",
        like="example.com/team",
        fix="shorten it, or use hyphens instead of other characters",
    ),
]
LabelValue = Annotated[
    str,
    Shape(
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$",
        what="the value of a Kubernetes label: at most 63 letters, digits, and inner hyphens, dots and underscores",
        like="research",
        fix="shorten it, or use hyphens instead of other characters",
    ),
]
Email = Annotated[
    str,
    Shape(
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        what="one e-mail address",
        like="ml-platform@example.com",
        fix="write one address without spaces",
    ),
]
