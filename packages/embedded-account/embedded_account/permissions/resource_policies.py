"""Find the policy of the resource that a request is about. Buckets are the only resources whose policy is evaluated."""

import json
from typing import Final

from moto.s3.models import s3_backends

from embedded_account.context import Account
from embedded_account.services.iam.policies import ResourcePolicy

_BUCKETS: Final = "arn:aws:s3:::"


def resource_policy(account: Account, resource: str, caller_arn: str) -> ResourcePolicy | None:
    """Return the policy of a bucket, or of the bucket of an object, with the names that it can have for a role."""
    if not resource.startswith(_BUCKETS):
        return None
    name = resource.removeprefix(_BUCKETS).partition("/")[0]
    bucket = s3_backends[account.account_id]["aws"].buckets.get(name)
    if bucket is None or not bucket.policy:
        return None
    # A statement for the account itself leaves the decision to the policies of its identities.
    return ResourcePolicy(f"{_BUCKETS}{name}", json.loads(bucket.policy), frozenset({caller_arn, "*"}))
