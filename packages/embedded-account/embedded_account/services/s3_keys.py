"""S3 asks KMS for every object that it encrypts: an object whose key cannot be used is refused.

As on AWS, a bucket takes any key as its default: S3 reads the key only with the first object.
"""

from typing import Any

from moto.s3.exceptions import S3ClientError
from moto.s3.models import S3Backend

from embedded_account.context import Account
from embedded_account.services.keys import unusable

_CODES = {"does not exist": "KMS.NotFoundException", "is Disabled": "KMS.DisabledException"}


def refuse_unusable_keys(account: Account) -> None:
    """Check the key of each new object: the request's, else the bucket's default."""
    put_object, create_upload = S3Backend.put_object, S3Backend.create_multipart_upload

    def put(backend: Any, bucket_name: str, *arguments: Any, **options: Any) -> Any:
        _check(account, backend.get_bucket(bucket_name), options.get("kms_key_id"))
        return put_object(backend, bucket_name, *arguments, **options)

    def start(backend: Any, bucket_name: str, *arguments: Any, **options: Any) -> Any:
        _check(account, backend.get_bucket(bucket_name), options.get("kms_key_id"))
        return create_upload(backend, bucket_name, *arguments, **options)

    S3Backend.put_object, S3Backend.create_multipart_upload = put, start


def _check(account: Account, bucket: Any, given: str | None) -> None:
    default = (bucket.encryption or {}).get("Rule", {}).get("ApplyServerSideEncryptionByDefault", {})
    key = given or default.get("KMSMasterKeyID")
    if key and (why := unusable(account.account_id, account.region, key)):
        raise S3ClientError(_CODES.get(why, "KMS.KMSInvalidStateException"), f"The KMS key {key} {why}")
