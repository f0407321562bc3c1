"""Bring a large working directory into the data bucket, from where the job fetches it with the role of its pods.

Its key is the digest of its content: what is there is not uploaded again. The bucket deletes it some time later
(`stacks/storage/stack.py`).
"""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError
from rich.console import Console

from config import Environment, naming
from k8s_charts.shared.names import RAY_PACKAGES_PREFIX
from ops.counted import Counted
from ops.jobs.packing import FETCHER, LargePackage
from ops.progress import Bytes, Say, size

_PART_BYTES: Final = 16 * 1024 * 1024
_CONFIG: Final = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES)
_DIGEST: Final = "sha256"
FRESH: Final = timedelta(days=30)
"""An older object is uploaded again: the bucket deletes it by its age, and a run may need it for months."""

_NOT_FOUND: Final = 404


class WorkingDirUpload:
    """The upload of a package to the environment's data bucket."""

    def __init__(self, environment: Environment, package: LargePackage) -> None:
        self._package = package
        self._bucket = naming.data_bucket(environment)
        self._key = f"{RAY_PACKAGES_PREFIX}/{package.digest}.zip"
        self._address = f"s3://{self._bucket}/{self._key}"

    def fetch(self, folder: str) -> str:
        """Return the shell command that fetches the package to `folder`, and becomes the words after it."""
        return shlex.join(["python", FETCHER.name, self._address, self._package.digest, folder])

    def run(self, s3: Any, console: Console, say: Say) -> None:
        """Upload the package unless the bucket has it. Raises the errors of the AWS SDK."""
        package = self._package
        if self._is_there(s3):
            say(f"{self._address} has the working directory already ({size(package.size)})")
            return
        say(f"uploading the working directory to {self._address} ({size(package.size)})")
        package.file.seek(0)
        shown = Bytes("upload of the working directory", package.size, console, say)
        # Ctrl-C cancels the upload, and its parts are deleted.
        with shown, create_transfer_manager(s3, _CONFIG) as manager:
            extra = {"Metadata": {_DIGEST: package.digest}}
            manager.upload(
                package.file, self._bucket, self._key, extra_args=extra, subscribers=[Counted(shown)]
            ).result()

    def _is_there(self, s3: Any) -> bool:
        try:
            found: Mapping[str, Any] = s3.head_object(Bucket=self._bucket, Key=self._key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == _NOT_FOUND:
                return False
            raise
        package = self._package
        same = (found["ContentLength"], found["Metadata"].get(_DIGEST)) == (package.size, package.digest)
        return same and datetime.now(UTC) - found["LastModified"] < FRESH
