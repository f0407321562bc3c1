"""Entry points of the two Lambda functions behind CDK's provider framework.

CloudFormation shows the text of an exception. The first line is short and says what to do. The whole text stays below
the 4,096 bytes of a response, to which the framework adds the place of the logs.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from botocore.exceptions import ClientError

from . import cluster, teardown
from .errors import RefusedRequestError, TransientError, in_words
from .request import Request
from .service import HyperPod, make_client

CLUSTER = "Custom::HyperPodCluster"
TEARDOWN = "Custom::HyperPodClusterTeardown"
MESSAGE_BYTES = 2000
FIRST_LINE = 240
"""Maximum length of a message's first line, which fits beside a resource's name in CloudFormation's events."""
PATIENCE_SECONDS = 3000
"""How long a request may take after `on_event`.

It is less than the 3,600 seconds that CloudFormation waits, counted from before `on_event`: the framework's timeout
says only "Operation timed out", and the last check may take as long as its function may run.
"""

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
    """The part of Lambda's context object that the handlers use."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends this invocation."""


def on_event(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Start what CloudFormation requests; return at least the physical id (the cluster's name)."""
    start, _ = _VERBS[event["ResourceType"]][event["RequestType"]]
    hyperpod = _hyperpod(context)
    return _run(start, Request.from_event(event), hyperpod) | {"AcceptedAt": hyperpod.now()}


def is_complete(event: Mapping[str, Any], context: LambdaContext) -> Answer:
    """Return whether the request is complete; after a transient error of the API the framework asks again.

    Raises:
        RefusedRequestError: the request failed or took longer than PATIENCE_SECONDS.
    """
    _, check = _VERBS[event["ResourceType"]][event["RequestType"]]
    request, hyperpod = Request.from_event(event), _hyperpod(context)
    try:
        answer = _run(check, request, hyperpod)
    except TransientError as fault:
        answer = {"IsComplete": False, "Waiting": str(fault)}
    # Without `accepted_at` the request was started by an earlier version of this code, which did not return it.
    if not answer["IsComplete"] and request.accepted_at and hyperpod.now() - request.accepted_at > PATIENCE_SECONDS:
        raise RefusedRequestError(
            _shortened(
                f"{request.type} of {request.physical_id} has not ended after {PATIENCE_SECONDS // 60} minutes, and "
                f"CloudFormation waits no longer: {answer['Waiting'].rstrip('.')}. Try again when that is over"
            )
        )
    if "Waiting" in answer:
        _log.info("not yet: %s", answer["Waiting"])
    return answer


def _run(verb: Verb, request: Request, hyperpod: HyperPod) -> Answer:
    """Call the verb and return its answer; turn an exception into one readable message."""
    _log.info("%s %s of %s", request.type, request.physical_id or "", request.logical_id)
    try:
        return verb(request, hyperpod)
    except (RefusedRequestError, TransientError) as refusal:
        raise type(refusal)(_shortened(str(refusal))) from None
    except ClientError as error:
        failed = in_words(error.operation_name, error)
        raise type(failed)(_shortened(str(failed))) from error


def _shortened(text: str) -> str:
    """Return the text in MESSAGE_BYTES at most; what does not fit into the first line (FIRST_LINE) follows below it."""
    first, _, rest = text.partition("\n")
    if len(first) > FIRST_LINE:
        cut = first.rfind(" ", 0, FIRST_LINE - 2)
        cut = cut if cut > 0 else FIRST_LINE - 2
        text = f"{first[:cut]} …\n… {first[cut:].lstrip()}\n{rest}".rstrip("\n")
    encoded = text.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return text
    return encoded[:MESSAGE_BYTES].decode(errors="ignore") + " …"


def _hyperpod(context: LambdaContext) -> HyperPod:
    return HyperPod(
        _client("sagemaker"),
        cloudformation=lambda: _client("cloudformation"),
        time_left=lambda: context.get_remaining_time_in_millis() / 1000,
    )


# Created once per execution environment: parsing the service model takes longer than most calls.
_client = cache(make_client)
