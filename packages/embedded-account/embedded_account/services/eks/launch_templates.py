"""Read the settings of a managed node group from its launch template: security groups and root volume size.

The rules are those of "Customize managed nodes with launch templates" in the EKS user guide. A template must not name
an instance profile or subnets. With a template, the node group must not set the disk size or remote access.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.services.eks.errors import invalid_parameter, invalid_request
from embedded_account.services.keys import CREATE_GRANT, unusable

_NEEDED = (CREATE_GRANT, "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
_AUTO_SCALING_ROLE = "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
_FORBIDDEN = ("IamInstanceProfile", "HibernationOptions", "InstanceMarketOptions")


@dataclass(frozen=True)
class LaunchSettings:
    """The settings of a launch template; `root_volume_gib` is None if the template does not set the volume size."""

    security_groups: tuple[str, ...]
    root_volume_gib: int | None


def read(account: Account, specification: Mapping[str, Any], request: Mapping[str, Any]) -> LaunchSettings:
    """Return the settings of a CreateNodegroup request's template; raise EKS's error if it cannot be used."""
    templates = ec2_backends[account.account_id][account.region].launch_templates
    template = templates.get(specification.get("id", ""))
    if template is None:
        raise invalid_request(f"You must specify an existing launch template, not {dict(specification)}")
    wanted = str(specification.get("version", template.default_version_number))
    version = next((each for each in template.versions if str(each.number) == wanted), None)
    if version is None:
        raise invalid_request(f"Launch template {specification['id']} has no version {wanted}")
    data = version.data
    for key in _FORBIDDEN:
        if data.get(key):
            raise invalid_parameter(f"Launch template {specification['id']} must not have {key}")
    if request.get("diskSize"):
        raise invalid_parameter("Disk size must be specified within the launch template.")
    if request.get("remoteAccess"):
        raise invalid_parameter("Remote access configuration cannot be specified with a launch template.")
    _check_keys(account, data)
    return LaunchSettings(_listed(data, "SecurityGroupId"), _root_volume(data))


def _check_keys(account: Account, data: Mapping[str, Any]) -> None:
    """Raise EKS's error if Auto Scaling could not launch an instance whose volumes have these keys.

    Source: EC2 Auto Scaling user guide, "Required AWS KMS key policy for use with encrypted volumes".
    """
    role = f"arn:aws:iam::{account.account_id}:role/{_AUTO_SCALING_ROLE}"
    for mapping in data.get("BlockDeviceMappings") or []:
        key = mapping.get("Ebs", {}).get("KmsKeyId")
        if key and (why := unusable(account.account_id, account.region, key, *_NEEDED, via="ec2", principal=role)):
            raise invalid_request(
                "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. Client.InvalidKMSKey.InvalidState: "
                f"the KMS key {key} {why}"
            )


def _root_volume(data: Mapping[str, Any]) -> int | None:
    sizes = [mapping["Ebs"]["VolumeSize"] for mapping in data.get("BlockDeviceMappings") or [] if "Ebs" in mapping]
    return int(sizes[0]) if sizes else None


def _listed(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of the template: EC2's query protocol names it in the singular, CloudFormation in the plural."""
    return tuple(data.get(name) or data.get(f"{name}s") or ())
