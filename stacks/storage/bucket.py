"""A private S3 bucket."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.shared.checkov_skips import explain
from stacks.shared.nag_suppressions import acknowledge
from stacks.storage.removal import data_removal_policy

# How long an overwritten or deleted version can be restored.
SUPERSEDED_KEPT: Final = Duration.days(30)
NO_ACCESS_LOGS: Final = (
    "Server access logs would need a third bucket that is not destroyed with the environment; CloudTrail data events "
    "are an account's own decision"
)


class PrivateBucket(Construct):
    """An encrypted, versioned bucket: TLS only, no public access; emptied with its stack unless protected.

    Below the prefixes in `rewritten`, programs create and delete big files all the time, so a superseded version is
    kept for a day only. S3 user guide, "How Amazon S3 handles conflicts in lifecycle configurations": the shorter
    period is honored. Objects below the prefixes in `expiring` are deleted at the age that it gives.

    With `key`, S3 asks KMS for a bucket now and then, not for each object (bucket key).
    """

    bucket: s3.IBucket

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        protect: bool,
        key: kms.IKey | None = None,
        rewritten: Sequence[str] = (),
        expiring: Mapping[str, Duration] | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Resource",
            bucket_name=name,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=SUPERSEDED_KEPT,
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                ),
                *(_rewritten(prefix) for prefix in rewritten),
                *(s3.LifecycleRule(prefix=prefix, expiration=age) for prefix, age in (expiring or {}).items()),
            ],
            removal_policy=data_removal_policy(protect=protect),
            auto_delete_objects=not protect,
        )
        acknowledge(self.bucket, NO_ACCESS_LOGS, "S1")
        explain(self.bucket, {"CKV_AWS_18": NO_ACCESS_LOGS})


def _rewritten(prefix: str) -> s3.LifecycleRule:
    # A deletion leaves a delete marker, which does not expire with the noncurrent versions and would stay forever.
    return s3.LifecycleRule(
        prefix=prefix, noncurrent_version_expiration=Duration.days(1), expired_object_delete_marker=True
    )
