"""Entry points of the two Lambda functions behind CDK's provider framework.

An exception's text is what CloudFormation shows: its first line is short and says what to do, and the whole stays
below the 4,096 bytes that a response may have (the framework appends where the logs are).
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from . import cluster, teardown
from .errors import Refused, is_transient
from .request import Request
from .service import HyperPod, make_client

CLUSTER = "Custom::HyperPodCluster"
TEARDOWN = "Custom::HyperPodClusterTeardown"
MESSAGE_BYTES = 2000

Answer = dict[str, Any]
Verb = Callable[[Request, HyperPod], Answer]

_VERBS: Mapping[str, Mapping[str, tuple[Verb, Verb]]] = {
    CLUSTER: {
        "Create": (cluster.create, cluster.is_created),
        "Update": (cluster.update, cluster.is_updated),
        "Delete": (cluster.delete, cluster.is_deleted),
    },
    TEARDOWN: {
        "Create": (teardown.keep, teardown.is_kept),
        "Update": (teardown.keep, teardown.is_kept),
        "Delete": (teardown.delete, teardown.is_deleted),
    },
}

logging.getLogger().setLevel(logging.INFO)
_log = logging.getLogger(__name__)


class LambdaContext(Protocol):
    """What the handlers need of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends this invocation."""


def on_event(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Start what CloudFormation asks for; return at least the physical id (the cluster's name)."""
    start, _ = _VERBS[event["ResourceType"]][event["RequestType"]]
    return run(start, Request.from_event(event), _hyperpod(context))


def is_complete(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Say whether that is done. A passing fault of the API is "not yet": the framework asks again."""
    _, check = _VERBS[event["ResourceType"]][event["RequestType"]]
    try:
        return run(check, Request.from_event(event), _hyperpod(context))
    except Passing as fault:
        _log.warning("asking again later: %s", fault)
        return {"IsComplete": False}


class Passing(Exception):
    """The API could not answer now: throttled, unreachable, or an internal error of the service."""


def run(verb: Verb, request: Request, hyperpod: HyperPod) -> Answer:
    """Call the verb; turn what it raises into one readable message."""
    _log.info("%s %s of %s", request.type, request.physical_id or "", request.logical_id)
    try:
        return verb(request, hyperpod)
    except Refused as refusal:
        raise Refused(_shortened(str(refusal))) from None
    except ClientError as error:
        text = f"{error.operation_name} failed ({error.response['Error']['Code']}): "
        text += error.response["Error"].get("Message", "no message")
        raise (Passing if is_transient(error) else Refused)(_shortened(text)) from error
    except BotoCoreError as error:
        raise (Passing if is_transient(error) else Refused)(_shortened(str(error))) from error


def _shortened(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return text
    return encoded[:MESSAGE_BYTES].decode(errors="ignore") + " …"


def _hyperpod(context: LambdaContext) -> HyperPod:
    return HyperPod(_client(), time_left=lambda: context.get_remaining_time_in_millis() / 1000)


# Made once per execution environment: parsing the service model takes longer than most calls.
_client = cache(make_client)
