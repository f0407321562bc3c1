"""Block public access to each new bucket, as S3 does since April 2023; moto's new buckets have no such block.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
"""

from typing import Any, Final

from moto.s3.models import PublicAccessBlock, S3Backend

_create: Final = S3Backend.create_bucket


def block_public_access() -> None:
    """Correct moto's creation of buckets."""
    S3Backend.create_bucket = _create_bucket


def _create_bucket(backend: Any, *args: Any, **kwargs: Any) -> Any:
    bucket = _create(backend, *args, **kwargs)
    bucket.public_access_block = PublicAccessBlock("true", "true", "true", "true")
    return bucket
