"""Say what a property of a resource stands for, by its name: a role, a security group, code, a policy.

CloudFormation's types name alike what is alike, so that types which this project does not know are reviewed too.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final


class Concept(Enum):
    """What a property names."""

    ROLE = "The resource acts with another role."
    LOGIN = "Who has the key may log in."
    POLICY = "Others may do something else with the resource."
    GROUP = "The rules of the added security group hold for it too."
    SUBNET = "Other routes and another network ACL hold for it."
    ADDRESSES = "More addresses are trusted."
    KEY = "What is written from now on is readable only with another key."
    CODE = "Another program runs, or the same one from another place."
    TARGET = "Something else is started or written to."
    ENDPOINT = "Somebody else gets what is sent."


# The first one that fits the whole name.
_NAMES: Final = tuple(
    (concept, re.compile(names))
    for concept, names in (
        (
            # What only describes a thing, or retries, keeps and scales.
            None,
            r"Tags|TagSpecifications|\w*Description|(Retry|Redrive|Delivery|Lifecycle|Scaling|Filter|Archive|Upgrade"
            r"|DataProtection|AutoExport|AutoImport|Backup|Placement|Rollout|Deployment|Renewal|Instance\w*)Policy",
        ),
        (
            Concept.ROLE,
            r"\w*Role(s|Arns?|ARN|Name|Id)?|\w*InstanceProfile(Name|Arn)?|\w*PermissionArn|PodIdentityAssociations",
        ),
        (Concept.LOGIN, r"KeyName|\w*SshKey\w*|KeyPair(Name|Id)?"),
        (Concept.KEY, r"\w*(Kms|KMS)\w*(Key|Id|Arn)\w*|TargetKeyId|KeyArn|\w*EncryptionKey\w*"),
        (
            Concept.POLICY,
            r"\w*Polic(y|ies)(Document|Text|Arns?)?|Principals?|\w*Permissions?|Statements?|Authoriz\w+",
        ),
        (Concept.GROUP, r"\w*SecurityGroup(s|Ids?|IdList|Arns|Names)?|GroupSet|Groups"),
        (Concept.SUBNET, r"\w*Subnet(s|Ids?|IdList|Mappings|GroupName)?|VPCZoneIdentifier"),
        (Concept.ADDRESSES, r"\w*Cidr(s|Ips?|List|Blocks?)?|IpSet\w*|AllowedIps?"),
        (
            Concept.CODE,
            r"Handler|Layers|Image(Uri|Id|Config)?|UserData|Command|EntryPoint|\w*Script\w*|Definition\w*|BuildSpec"
            r"|FileSystemConfigs|ServiceToken|Code(S3\w+|Uri)?|DocumentName|Proxy\w*",
        ),
        (
            Concept.TARGET,
            r"Targets?|Target(Arn|Id|Parameters)s?|Function(Arn|Name)?|Queue(Arn)?|Topic(Arn)?|\w+Actions",
        ),
        (Concept.ENDPOINT, r"Endpoint|\w*Destinations?|\w*Destination(Config|Arn)|Url|\w*Uri|BucketName|S3Bucket\w*"),
    )
)


def concept(path: Sequence[str]) -> Concept | None:
    """Return what the innermost known name of a path stands for."""
    for name in reversed(path):
        for found, names in _NAMES:
            if names.fullmatch(name):
                return found
    return None
