"""An embedded S3 (moto, from the project's own environment) that answers real requests."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

from tests.jobs.support.paths import REPOSITORY
from tests.support.waiting import wait_until

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What a client of it needs, beside AWS_ENDPOINT_URL."""


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Yield the address of an S3 without buckets; its log is in `directory`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (directory / "log.txt").open("wb")
    argv = [str(REPOSITORY / ".venv" / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: _listens(port), "moto_server, listening")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        log.close()


def store(address: str) -> pyarrow.fs.S3FileSystem:
    """Return a client that may create buckets."""
    return pyarrow.fs.S3FileSystem(
        endpoint_override=address.removeprefix("http://"),
        scheme="http",
        access_key="testing",
        secret_key="testing",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
