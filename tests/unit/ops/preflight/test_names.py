"""A bucket of another account fails: its name is taken, and S3 refuses to show more."""

from io import StringIO
from typing import Any

from botocore.exceptions import ClientError
from rich.console import Console

import config
from config import naming
from ops.preflight.check import CheckStatus
from ops.preflight.checks import CHECKS
from ops.preflight.here import Here
from ops.preflight.run import run


class AnotherOwners:
    """S3 as it answers for buckets of other accounts; the embedded account has no other account."""

    def head_bucket(self, Bucket: str) -> None:
        answer: Any = {"Error": {"Code": "403", "Message": Bucket}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise ClientError(answer, "HeadBucket")


def test_a_bucket_of_another_account_fails() -> None:
    environment = config.load("small")
    [check] = [check for check in CHECKS if check.title == "names of the buckets"]
    rows = run(Here(environment, lambda _: AnotherOwners()), [check], Console(file=StringIO()))
    assert [(row.check, row.verdict, row.found) for row in rows] == [
        (f"names of the buckets: {name}", CheckStatus.FAIL, "a bucket of this name exists, and you may not use it")
        for name in (naming.data_bucket(environment), naming.lifecycle_bucket(environment))
    ]
