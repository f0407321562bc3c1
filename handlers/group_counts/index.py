"""Entry point of the function: `{"counts": {"gpu": 4}}` sets counts, `{}` only reads.

The caller may do no more than invoke this function, so the ranges are checked here, whoever calls. The answer is
`{"cluster": "InService", "groups": {"gpu": {"target": 4, "current": 2}}, "refused": ""}`. `refused` says why HyperPod
takes no change now: ask again later. A request that is wrong in itself raises InvalidRequestError.

The environment variables are CLUSTER_NAME; RANGES, the allowed counts by group (`{"gpu": [0, 4]}`); and IMAGES, the
custom images by group, of all groups of the cluster (`{"gpu": "ami-…"}`).
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from .counts import Wanted, set_counts

MODELS: Final = Path(__file__).with_name("models")
SLEEPING_TAG: Final = "hyperpod-cluster:sleeping"
_LATER: Final = {"ConflictException", "ResourceLimitExceeded"}
"""Errors of UpdateCluster that pass: the cluster is being changed, or the account's quota is used up now."""
_CHECKING: Final = "DeepHealthCheckInProgress"

logging.getLogger().setLevel(logging.INFO)
_log = logging.getLogger(__name__)

Json = Mapping[str, Any]
Ranges = Mapping[str, tuple[int, int]]


class InvalidRequestError(Exception):
    """The request asks for something that is never allowed; the message says what is."""


def handle(event: Json, _: object) -> dict[str, Any]:
    """Set the counts that the event asks for, and return the state of the groups that sleep."""
    ranges: Ranges = {name: (least, most) for name, (least, most) in json.loads(os.environ["RANGES"]).items()}
    counts = _counts(event, ranges)
    sagemaker = _client()
    cluster = sagemaker.describe_cluster(ClusterName=os.environ["CLUSTER_NAME"])
    live = {
        group["InstanceGroupName"]: group for group in cluster["InstanceGroups"] if group.get("Status") != "Deleting"
    }
    changes = {name: count for name, count in counts.items() if name not in live or live[name]["TargetCount"] != count}
    refused = _change(sagemaker, cluster, live, changes) if changes else ""
    if changes:
        _log.info("counts %s: %s", changes, refused or "accepted")
    targets = {} if refused else changes
    groups = {
        name: {"target": targets.get(name, live[name]["TargetCount"]), "current": live[name]["CurrentCount"]}
        for name in ranges
        if name in live
    }
    return {"cluster": cluster["ClusterStatus"], "groups": groups, "refused": refused}


def _counts(event: Json, ranges: Ranges) -> dict[str, int]:
    """Return the counts that the event asks for; raise InvalidRequestError unless all are allowed."""
    unknown = sorted(event.keys() - {"counts"}) if isinstance(event, Mapping) else [str(event)]
    counts = {} if unknown else event.get("counts", {})
    if unknown or not isinstance(counts, Mapping):
        raise InvalidRequestError(f"{', '.join(unknown) or counts} is invalid. Allowed: counts, by instance group")
    for name, count in counts.items():
        if name not in ranges:
            raise InvalidRequestError(f"instance group {name} does not sleep. Allowed: {', '.join(sorted(ranges))}")
        least, most = ranges[name]
        if type(count) is not int or not least <= count <= most:
            raise InvalidRequestError(f"count {count} of instance group {name} is invalid. Allowed: {least} to {most}")
    return dict(counts)


def _change(sagemaker: Any, cluster: Json, live: Mapping[str, Json], changes: Mapping[str, int]) -> str:
    """Send one UpdateCluster; return why HyperPod does not take it now, or "" if it was accepted."""
    if missing := sorted(changes.keys() - live.keys()):
        return f"the cluster has no instance group {', '.join(missing)}"
    if cluster["ClusterStatus"] != "InService":
        return f"the cluster is {cluster['ClusterStatus']}"
    if _sleeping(sagemaker, cluster) != _fingerprint(json.loads(os.environ["RANGES"])):
        return "a deployment changes which groups sleep"
    checked = [node for node in _nodes(sagemaker, cluster) if node["InstanceStatus"]["Status"] == _CHECKING]
    if checked:
        # UpdateCluster does not work as expected meanwhile (API reference), whether it is refused or not.
        groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
        return f"{len(checked)} of its nodes are in deep health checks ({groups})"
    images: Mapping[str, str] = json.loads(os.environ.get("IMAGES", "{}"))
    wanted = {
        name: Wanted(group["TargetCount"], group.get("MinCount", 0), images[name])
        for name, group in live.items()
        if name in images
    }
    wanted |= {name: Wanted(count, image_id=images.get(name)) for name, count in changes.items()}
    try:
        set_counts(sagemaker, cluster, wanted)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _LATER:
            raise
        return f"it takes no update now: {error.response['Error'].get('Message', error.response['Error']['Code'])}"
    return ""


def _sleeping(sagemaker: Any, cluster: Json) -> str:
    """Return the fingerprint of the ranges in the newest template, which the cluster's handler keeps in a tag."""
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=cluster["ClusterArn"])
    return next((tag["Value"] for page in pages for tag in page["Tags"] if tag["Key"] == SLEEPING_TAG), "")


def _fingerprint(value: Any) -> str:
    """Return a short hash of a value of JSON, as the cluster's handler does."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _nodes(sagemaker: Any, cluster: Json) -> Iterator[Json]:
    for page in sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName=cluster["ClusterName"]):
        yield from page["ClusterNodeSummaries"]


@cache
def _client() -> Any:
    """Return a client with the service model packed beside this file, whichever botocore runs it."""
    session = botocore.session.Session()
    session.set_config_variable("data_path", str(MODELS))
    config = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 2})
    sdk: Any = boto3.Session(botocore_session=session)
    return sdk.client("sagemaker", config=config)
