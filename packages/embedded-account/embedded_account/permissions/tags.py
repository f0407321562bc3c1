"""Read the tags of a resource, for conditions on aws:ResourceTag."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.services.shared.api_model import client

_Tags = Iterable[tuple[str, str]]


def _ec2(ec2: Any, arn: str) -> _Tags:
    of_one = [{"Name": "resource-id", "Values": [arn.rpartition("/")[2]]}]
    return ((tag["Key"], tag["Value"]) for tag in ec2.describe_tags(Filters=of_one)["Tags"])


def _ecr(ecr: Any, arn: str) -> _Tags:
    return ((tag["Key"], tag["Value"]) for tag in ecr.list_tags_for_resource(resourceArn=arn)["tags"])


def _fsx(fsx: Any, arn: str) -> _Tags:
    found = fsx.describe_file_systems(FileSystemIds=[arn.rpartition("/")[2]])["FileSystems"]
    return ((tag["Key"], tag["Value"]) for each in found for tag in each.get("Tags", []))


def _kms(kms: Any, arn: str) -> _Tags:
    return ((tag["TagKey"], tag["TagValue"]) for tag in kms.list_resource_tags(KeyId=arn)["Tags"])


_READ: Final[Mapping[str, Callable[[Any, str], _Tags]]] = {"ec2": _ec2, "ecr": _ecr, "fsx": _fsx, "kms": _kms}


_PREFIX: Final = "aws:ResourceTag/"


def tags_of(account: Account, service: str, arn: str) -> dict[str, str]:
    """Return the condition keys of the resource's tags; empty if it does not exist, or its service is not read."""
    if service not in _READ or "*" in arn:
        return {}
    try:
        found = dict(_READ[service](client(account, service), arn))
        return {f"{_PREFIX}{key}": value for key, value in {**_of_stack(account, arn), **found}.items()}
    except ClientError:
        return {}


def _of_stack(account: Account, arn: str) -> dict[str, str]:
    """Return the tag of the owning stack, which CloudFormation sets, also where the simulator shows none."""
    own = arn.rpartition("/")[2]
    owner = next((stack for stack, resource in account.stacks.owners() if resource.physical_id == own), None)
    return {"aws:cloudformation:stack-name": owner.name} if owner else {}
