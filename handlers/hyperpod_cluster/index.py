"""Entry points of the two Lambda functions behind CDK's provider framework.

CloudFormation shows the text of an exception. Its first line is short and says what to do. The whole text stays below
the 4,096 bytes that a response may have, because the framework appends the location of the logs.
"""

import json
import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from botocore.exceptions import ClientError

from .cluster import PATIENCE_SECONDS, ClusterHandler
from .errors import RefusedRequestError, TransientError, in_words
from .request import CustomResourceRequest
from .service import HyperPodClient, make_client
from .teardown import TeardownHandler

CLUSTER = "Custom::HyperPodCluster"
TEARDOWN = "Custom::HyperPodClusterTeardown"
MESSAGE_BYTES = 2000
FIRST_LINE = 240
"""Most characters of a message's first line: what fits beside a resource's name in CloudFormation's events."""

Answer = dict[str, Any]
Verb = Callable[[], Answer]

_HANDLERS: Mapping[str, type[ClusterHandler] | type[TeardownHandler]] = {
    CLUSTER: ClusterHandler,
    TEARDOWN: TeardownHandler,
}

logging.getLogger().setLevel(logging.INFO)
_log = logging.getLogger(__name__)


class LambdaContext(Protocol):
    """The part of Lambda's context object that the handlers use."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends this invocation."""


def on_event(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Start the request; return at least the physical id (the cluster's name)."""
    request, hyperpod = CustomResourceRequest.from_event(event), _hyperpod(context)
    start, _ = _verbs(event["ResourceType"], request, hyperpod)
    return _run(start, request) | {"AcceptedAt": hyperpod.now()}


def is_complete(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Return whether the request is done.

    A transient fault of the API counts as "not yet": the framework polls again, until PATIENCE_SECONDS have passed.
    """
    request, hyperpod = CustomResourceRequest.from_event(event), _hyperpod(context)
    _, check = _verbs(event["ResourceType"], request, hyperpod)
    try:
        answer = _run(check, request)
    except TransientError as fault:
        answer = {"IsComplete": False, "Waiting": str(fault)}
    # A request without `AcceptedAt` was started by an older version of this code.
    if not answer["IsComplete"] and request.accepted_at and hyperpod.now() - request.accepted_at > PATIENCE_SECONDS:
        raise RefusedRequestError(
            _shortened(
                f"{request.type} of {request.physical_id} has not ended after {PATIENCE_SECONDS // 60} minutes, and "
                f"CloudFormation's one-hour limit is near: {answer['Waiting'].rstrip('.')}. Try again afterwards"
            )
        )
    if "Waiting" in answer:
        _log.info("not yet: %s", answer["Waiting"])
    return answer


def _verbs(resource_type: str, request: CustomResourceRequest, hyperpod: HyperPodClient) -> tuple[Verb, Verb]:
    """Return the two functions for a request: the one that starts it, and the one that checks whether it is done."""
    handler = _HANDLERS[resource_type](request, hyperpod)
    return {
        "Create": (handler.create, handler.is_created),
        "Update": (handler.update, handler.is_updated),
        "Delete": (handler.delete, handler.is_deleted),
    }[request.type]


def _run(verb: Verb, request: CustomResourceRequest) -> Answer:
    """Call the function and return its answer; raise its errors again with a readable, shortened message."""
    _log.info("%s %s of %s", request.type, request.physical_id or "", request.logical_id)
    try:
        return verb()
    except (RefusedRequestError, TransientError) as refusal:
        raise type(refusal)(_shortened(str(refusal))) from None
    except ClientError as error:
        failed = in_words(error.operation_name, error)
        raise type(failed)(_shortened(str(failed))) from error


def _shortened(text: str) -> str:
    """Return the text in at most MESSAGE_BYTES, its first line in at most FIRST_LINE; the rest moves to line two.

    A character that cannot be printed becomes a space: JSON writes some of them in six bytes.
    """
    text = "".join(each if each.isprintable() or each == "\n" else " " for each in text)
    first, _, rest = text.partition("\n")
    if len(first) > FIRST_LINE:
        cut = first.rfind(" ", 0, FIRST_LINE - 2)
        cut = cut if cut > 0 else FIRST_LINE - 2
        text = f"{first[:cut]} …\n… {first[cut:].lstrip()}\n{rest}".rstrip("\n")
    room = MESSAGE_BYTES
    for position, each in enumerate(text):
        room -= len(json.dumps(each, ensure_ascii=False).encode()) - 2
        if room < 0:
            return text[:position] + " …"
    return text


def _hyperpod(context: LambdaContext) -> HyperPodClient:
    return HyperPodClient(
        _client("sagemaker"),
        cloudformation=lambda: _client("cloudformation"),
        time_left=lambda: context.get_remaining_time_in_millis() / 1000,
    )


# One client per execution environment: parsing the service model takes longer than most calls.
_client = cache(make_client)
