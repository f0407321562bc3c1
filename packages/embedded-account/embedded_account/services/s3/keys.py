"""S3 asks KMS for every object that it encrypts: an object whose key cannot be used is refused.

As on AWS, a bucket takes any key as its default: S3 reads the key only with the first object. The caller's own rights
are checked where the caller is known: `embedded_account.permissions` for people, the stand-ins for their pods.
"""

from typing import Any, Final

from moto.s3.exceptions import S3ClientError
from moto.s3.models import S3Backend, s3_backends
from moto.utilities.utils import get_partition

from embedded_account.services.keys import context_of, unusable

_CODES: Final = {"does not exist": "KMS.NotFoundException", "is Disabled": "KMS.DisabledException"}
_put_object: Final = S3Backend.put_object
_create_multipart_upload: Final = S3Backend.create_multipart_upload


def refuse_unusable_keys() -> None:
    """Check the key of each new object: the request's, else the bucket's default."""
    S3Backend.put_object, S3Backend.create_multipart_upload = _put, _start


def default_key(account_id: str, region: str, bucket: str) -> str:
    """Return the ARN of the customer managed key that encrypts the bucket's new objects, or ""."""
    known = s3_backends[account_id][get_partition(region)].buckets.get(bucket)
    return _default(known) if known else ""


def key_of_object(account_id: str, region: str, bucket: str, key: str) -> str:
    """Return the ARN of the customer managed key that an object is encrypted with, or ""."""
    known = s3_backends[account_id][get_partition(region)].buckets.get(bucket)
    stored = known.keys.get(key) if known else None
    # A delete marker has no key.
    return str(getattr(stored, "kms_key_id", None) or "")


def key_context(account_id: str, region: str, bucket: str, key: str, action: str) -> dict[str, str]:
    """Return the condition keys of a call of KMS that S3 makes for a caller about the object `key`.

    S3 user guide, "Protecting data with SSE-KMS": the encryption context is the bucket's ARN with an S3 bucket key,
    the object's without.
    """
    known = s3_backends[account_id][get_partition(region)].buckets.get(bucket)
    by_bucket = known is not None and str(_rule(known).get("BucketKeyEnabled", False)).lower() == "true"
    arn = f"arn:{get_partition(region)}:s3:::{bucket}" + ("" if by_bucket else f"/{key}")
    return context_of(account_id, region, action, "s3") | {"kms:EncryptionContext:aws:s3:arn": arn}


def _put(backend: Any, bucket_name: str, key_name: str, *arguments: Any, **options: Any) -> Any:
    _check(backend, bucket_name, key_name, options.get("kms_key_id"), "kms:GenerateDataKey")
    return _put_object(backend, bucket_name, key_name, *arguments, **options)


def _start(backend: Any, bucket_name: str, key_name: str, *arguments: Any, **options: Any) -> Any:
    _check(backend, bucket_name, key_name, options.get("kms_key_id"), "kms:GenerateDataKey", "kms:Decrypt")
    return _create_multipart_upload(backend, bucket_name, key_name, *arguments, **options)


def _check(backend: Any, bucket_name: str, key_name: str, given: str | None, *actions: str) -> None:
    bucket = backend.get_bucket(bucket_name)
    key, where = given or _default(bucket), (backend.account_id, bucket.region_name)
    if not key:
        return
    for action in actions:
        context = key_context(*where, bucket_name, key_name, action)
        if why := unusable(*where, key, action, via="s3", context=context):
            raise S3ClientError(_CODES.get(why, "KMS.KMSInvalidStateException"), f"The KMS key {key} {why}")


def _default(bucket: Any) -> str:
    return str(_rule(bucket).get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID", ""))


def _rule(bucket: Any) -> dict[str, Any]:
    rule: dict[str, Any] = (bucket.encryption or {}).get("Rule", {})
    return rule
