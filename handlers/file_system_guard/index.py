"""Entry points of the two Lambda functions behind CDK's provider framework.

CloudFormation shows an exception's text, which stays well below the 4,096 bytes of a response.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from functools import cache
from http.client import INTERNAL_SERVER_ERROR
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

PATIENCE_SECONDS = 30 * 60.0
"""The driver requests a deletion within minutes (its retries pause for up to five), and FSx needs about ten."""

NAMED = 5
"""Maximum number of file systems that a message names."""

logging.getLogger().setLevel(logging.INFO)
_log = logging.getLogger(__name__)

Answer = dict[str, Any]
FileSystem = dict[str, Any]


class FileSystemsRemainError(Exception):
    """File systems remain; the text names them and says what to do."""


def on_event(event: Mapping[str, Any], _: object) -> Answer:
    """Return the resource's id and the time of the request; `is_complete` receives both."""
    id = event.get("PhysicalResourceId") or f"file-system-guard-{event['LogicalResourceId']}"
    return {"PhysicalResourceId": id, "AskedAt": time.time()}


def is_complete(event: Mapping[str, Any], _: object) -> Answer:
    """Return whether no file system has the environment's tag any longer; Create and Update are complete at once.

    Raises:
        FileSystemsRemainError: a file system remains that nobody will delete, or the time limit has passed.
    """
    if event["RequestType"] != "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    try:
        left = list(_tagged(_client(), properties["TagKey"], properties["TagValue"]))
    except (BotoCoreError, ClientError) as error:
        if not _is_passing(error):
            raise
        _log.warning("asking again later: %s", error)
        return {"IsComplete": False}
    _log.info("left: %s", [(each["FileSystemId"], each["Lifecycle"]) for each in left])
    kept = [each for each in left if each["Lifecycle"] != "DELETING"]
    if kept and properties["ReclaimPolicy"] == "Retain":
        raise FileSystemsRemainError(_text(kept, properties["TagKey"], "reclaim policy Retain keeps"))
    if left and time.time() - event["AskedAt"] > PATIENCE_SECONDS:
        raise FileSystemsRemainError(_text(left, properties["TagKey"], "the CSI driver did not delete"))
    return {"IsComplete": not left}


def _tagged(client: Any, key: str, value: str) -> Iterator[FileSystem]:
    for page in client.get_paginator("describe_file_systems").paginate():
        for each in page["FileSystems"]:
            if {"Key": key, "Value": value} in each.get("Tags", []):
                yield each


def _text(left: list[FileSystem], key: str, why: str) -> str:
    """Return a message that names the file systems, with the commands that delete or keep the first one."""
    region = os.environ["AWS_REGION"]
    names = ", ".join(f"{each['FileSystemId']} ({each['Lifecycle']})" for each in left[:NAMED])
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    first = left[0]
    return (
        f"{why} {names}{more}. "
        f"To delete: aws fsx delete-file-system --region {region} --file-system-id {first['FileSystemId']} ; "
        f"to keep it, and with it the network stack whose subnet and security group it uses: "
        f"aws fsx untag-resource --region {region} --resource-arn {first['ResourceARN']} --tag-keys {key} . "
        "Then delete the stack again."
    )


def _is_passing(error: BotoCoreError | ClientError) -> bool:
    """Return whether the same call may succeed later: throttling, no connection, an internal error."""
    if isinstance(error, BotoCoreError):
        return isinstance(error, (ConnectionError, HTTPClientError))
    passing = ("Throttling", "TooManyRequests", "RequestLimit", "InternalServerError", "ServiceUnavailable")
    # A load balancer in between answers without an error code of the service.
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return error.response["Error"]["Code"].startswith(passing) or status >= INTERNAL_SERVER_ERROR


@cache
def _client() -> Any:
    config = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client("fsx", config=config)
