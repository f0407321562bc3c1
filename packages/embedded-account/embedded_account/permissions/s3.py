"""List the permissions that calls of S3 need.

Source: S3 user guide, "Required permissions for Amazon S3 API operations".
"""

from collections.abc import Iterator, Mapping
from typing import Final

from moto.s3.models import s3_backends

from embedded_account.context import Account
from embedded_account.permissions.calls import AwsCall

_CONFIGURATIONS: Final = [
    "Accelerate",
    "Analytics",
    "Encryption",
    "IntelligentTiering",
    "Inventory",
    "Lifecycle",
    "Metrics",
    "Replication",
]
_VERBS: Final = {"Delete": "Put", "Get": "Get", "List": "Get", "Put": "Put"}
_BY_ACTION: Final = {
    "DeleteObject": "DeleteObjects",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "GetBucketObjectLockConfiguration": "GetObjectLockConfiguration",
    "GetBucketPublicAccessBlock": "GetPublicAccessBlock",
    "GetObject": "HeadObject SelectObjectContent",
    "ListAllMyBuckets": "ListBuckets",
    "ListBucket": "HeadBucket ListObjects ListObjectsV2",
    "ListBucketMultipartUploads": "ListMultipartUploads",
    "ListBucketVersions": "ListObjectVersions",
    "ListMultipartUploadParts": "ListParts",
    "PutBucketCORS": "DeleteBucketCors",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    "PutBucketObjectLockConfiguration": "PutObjectLockConfiguration",
    "PutBucketOwnershipControls": "DeleteBucketOwnershipControls",
    "PutBucketPublicAccessBlock": "DeletePublicAccessBlock PutPublicAccessBlock",
    "PutBucketTagging": "DeleteBucketTagging",
    "PutObject": "CompleteMultipartUpload CopyObject CreateMultipartUpload UploadPart UploadPartCopy",
}
ACTIONS: Final[Mapping[str, str]] = {
    operation: action for action, operations in _BY_ACTION.items() for operation in operations.split()
} | {
    f"{verb}Bucket{name}{ending}": f"{_VERBS[verb]}{name}Configuration"
    for name in _CONFIGURATIONS
    for verb in _VERBS
    for ending in ("", "Configuration", "Configurations")
}
"""The actions of operations that have another name."""
_KEYS: Final = {"delimiter": "s3:delimiter", "max-keys": "s3:max-keys", "prefix": "s3:prefix"}


def needs_of(account: Account, action: str, call: AwsCall) -> Iterator[tuple[str, str]]:
    """Yield the actions of a call, each with the bucket or object that it is about."""
    given = call.parameters
    bucket = f"arn:aws:s3:::{given['Bucket']}" if "Bucket" in given else "*"
    for key, version in given.get("Objects", ()):
        yield f"{action}Version" if version else action, f"{bucket}/{key}"
    if "Objects" in given:
        return
    one = f"{bucket}/{given['Key']}" if "Key" in given else bucket
    is_of_version = "versionId" in given and action in ("s3:DeleteObject", "s3:GetObject")
    yield f"{action}Version" if is_of_version else action, one
    if source := given.get("CopySource"):
        yield "s3:GetObject", f"arn:aws:s3:::{source.removeprefix('/').partition('?')[0]}"
    if "Tagging" in given:
        yield "s3:PutObjectTagging", one
    if "ACL" in given and "Key" in given:
        yield "s3:PutObjectAcl", one
    if call.operation in ("GetObject", "HeadObject") and not _exists(account, given["Bucket"], given["Key"]):
        # Without this right S3 answers 403 instead of 404.
        yield "s3:ListBucket", bucket


def conditions_of(call: AwsCall) -> dict[str, str]:
    """Return the condition keys of what a request lists."""
    return {key: str(call.parameters[name]) for name, key in _KEYS.items() if name in call.parameters}


def _exists(account: Account, bucket: str, key: str) -> bool:
    known = s3_backends[account.account_id]["aws"].buckets.get(bucket)
    return known is None or known.keys.get(key) is not None
