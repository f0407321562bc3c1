"""What all models share, and the formats of single values."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints


class Model(BaseModel):
    """Frozen, and without keys that nothing reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# Patterns name ASCII's letters and digits: pydantic's \w and \d also take those of all other scripts.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$")]
# SageMaker CreateCluster: InstanceGroupName.
HyperPodName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$")]
AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
ZoneId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}[0-9]-az[0-9]$")]
RoleArn = Annotated[str, StringConstraints(pattern=r"^arn:aws:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$")]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\s]*[^/\s]$")]
# Kubernetes: names of environment variables, of objects, keys and values of labels.
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
    ),
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]
