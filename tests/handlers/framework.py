"""CDK's provider framework as the handlers meet it, over the HyperPod simulator and its clock; and a CloudFormation.

`Framework` follows `custom-resources/lib/provider-framework` of aws-cdk-lib 2.275.0: what on_event returns is merged
into is_complete's event; an error in on_event of a Create leaves a marker id whose Delete never reaches the handler;
an error in is_complete answers with the real id; a function that Lambda ends is an error as any other.
`CloudFormation` sends it single requests; `engine` puts it behind the embedded account's CloudFormation.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from config.facts.hyperpod_permissions import HANDLER_CALLS
from embedded_account.hyperpod.api.operations import HyperPodApi
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.errors import ApiError
from embedded_account.machine import isolation
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.ownership import ADDED_TAG
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG
from handlers.hyperpod_cluster.service import CONNECT_SECONDS, READ_SECONDS, HyperPod

REGISTRATION = "AddTags (its own)"
"""How `calls` lists an AddTags that writes nothing but what the handlers must know later."""
MARKER = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
HANDLERS_TAGS = {ADDED_TAG, REQUESTS_TAG}
"""The tags in which the handlers keep what they need to know later."""
STACK_ID = "arn:aws:cloudformation:us-west-2:111122223333:stack/rayhp-dev-hyperpod/0b1f6c1a-0000-0000-0000-000000000001"
OTHER_STACK = STACK_ID[:-1] + "2"
POLLS = 240
POLL_SECONDS = 15.0
RESPONSE_BYTES = 4096
CLOUDFORMATION_SECONDS = 3600.0
INVOCATION_SECONDS = {"on_event": 180.0, "is_complete": 120.0}
"""Lambda's limits of one invocation (stacks/hyperpod/provider.py)."""
# The SDK's own retries sleep for real; the handlers' are what is tested.
NO_RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 1})

Properties = dict[str, Any]
Event = dict[str, Any]


class Killed(BaseException):
    """Lambda ended the function in the middle: no handler code may run on it."""


@dataclass(frozen=True)
class Response:
    """What CloudFormation learns."""

    succeeded: bool
    physical_id: str
    reason: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    polls: int = 0


Interruption = Callable[[str, bool], None]
"""Called with the operation before (False) and after (True) a call was carried out; what it raises ends the call."""


class DirectClient:
    """A SageMaker client that asks the simulator itself: a hundred times faster than through botocore and moto."""

    def __init__(self, bench: HyperPodBench, access_key: str = isolation.DUMMY_ACCESS_KEY) -> None:
        self._api = HyperPodApi(bench.hyperpod)
        self._access_key = access_key
        self.meta = bench.client("sagemaker").meta

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = self.meta.method_to_api_mapping[name]

        def call(**request: Any) -> dict[str, Any]:
            try:
                return self._api.answer(operation, request, self._access_key)
            except ApiError as error:
                raise ClientError({"Error": {"Code": error.code, "Message": error.message}}, operation) from None

        return call


class Client:
    """A boto3 client that tells who watches of each call."""

    def __init__(self, client: Any, framework: "Framework") -> None:
        self._client = client
        self._framework = framework
        self.meta = client.meta

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        operation: str = self._client.meta.method_to_api_mapping[name]

        def call(**request: Any) -> Any:
            own = operation == "AddTags" and {tag["Key"] for tag in request["Tags"]} <= HANDLERS_TAGS
            self._framework.watch(operation, after=False, listed=REGISTRATION if own else operation)
            answer = method(**request)
            self._framework.watch(operation, after=True)
            return answer

        return call


class Stacks:
    """CloudFormation's client in front of one stack: its status, told by whoever plays CloudFormation."""

    class meta:
        method_to_api_mapping = {"describe_stacks": "DescribeStacks"}

    def __init__(self, status: Callable[[str], str]) -> None:
        self._status = status

    def describe_stacks(self, **request: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": self._status(request["StackName"])}]}


Pause = Callable[[], None]
"""Called whenever time passes for a request: in a sleep of a function, or between two polls."""


class Framework:
    """Runs the handlers.

    `calls` lists the API calls they made, `carried_out` counts those that the service answered, by request and
    operation; `invocation_seconds` is Lambda's limit if it is not the deployed one; `interruptions` are asked at every
    call, `pauses` whenever time passes; `running` is the entry point that runs now.
    """

    def __init__(self, bench: HyperPodBench, status: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = bench
        self.calls: list[str] = []
        self.invocation_seconds: float | None = None
        self.interruptions: list[Interruption] = []
        self.pauses: list[Pause] = []
        self.carried_out: Counter[tuple[str, str]] = Counter()
        self._request_id = ""
        self._seconds_left = 0.0
        self.running = ""
        self._stacks: Any = Stacks(status)
        self._clients: dict[str, Any] = {}
        self.use(DirectClient(bench))
        monkeypatch.setattr(index, "_hyperpod", self._hyperpod)

    def use(self, client: Any, poll_client: Any = None, stacks: Any = None) -> None:
        """Run the handlers with these clients: on_event's and is_complete's of SageMaker, and CloudFormation's."""
        self._clients = {"on_event": client, "is_complete": poll_client or client}
        self._stacks = stacks or self._stacks

    def watch(self, operation: str, *, after: bool, listed: str = "") -> None:
        """List a call, refuse one that the handler has no permission for, and let what is planned interrupt it."""
        if after:
            self.carried_out[self._request_id, operation] += 1
        else:
            assert operation in HANDLER_CALLS[self.running], f"{self.running} may not call {operation}"
            self.calls.append(listed)
        for interruption in list(self.interruptions):
            # One may have happened within the one before it.
            if interruption in self.interruptions:
                interruption(operation, after)

    def interrupt(
        self, position: int, deed: Callable[[str], None], *, after: bool, since: Collection[str] = ()
    ) -> None:
        """Do something at the `position`-th call from now on, counted from 0: before it is carried out, or after it.

        With `since`, counted from the first call of one of these operations.
        """
        left, begun = position, not since

        def interruption(call: str, carried_out: bool) -> None:
            nonlocal left, begun
            begun = begun or call in since
            left -= begun and carried_out is after
            if left < 0 and carried_out is after:
                self.interruptions.remove(interruption)
                deed(call)

        self.interruptions.append(interruption)

    def at_pause(self, position: int, deed: Callable[[], None]) -> None:
        """Do something at the `position`-th moment from now on at which time passes, counted from 0."""
        left = position

        def pause() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.pauses.remove(pause)
                deed()

        self.pauses.append(pause)

    def kill(self, position: int, *, after: bool) -> None:
        """Let Lambda end the function at this call."""

        def deed(_: str) -> None:
            raise Killed("Task timed out after 120.00 seconds")

        self.interrupt(position, deed, after=after)

    def time_out(self, error: type[BotoCoreError] = ReadTimeoutError) -> None:
        """Let a call end as one whose answer does not come."""
        self.sleep(CONNECT_SECONDS + READ_SECONDS)
        raise error(endpoint_url="https://api.sagemaker.us-west-2.amazonaws.com/")

    def handle(self, event: Event) -> Response:
        """Answer one request of CloudFormation; simulated time goes on meanwhile."""
        physical_id = event.get("PhysicalResourceId", "")
        if event["RequestType"] == "Delete" and physical_id == MARKER:
            return Response(True, MARKER)
        started = self.now()
        try:
            answer = self.invoke("on_event", event)
        except AssertionError:  # a test's own
            raise
        except (Exception, Killed) as error:  # noqa: BLE001 - the framework reports whatever ends a handler
            return self._answer(False, physical_id or MARKER, reason=str(error))
        # What goes to Step Functions is JSON.
        response = self._poll(json.loads(json.dumps(event | answer)))
        assert self.now() - started < CLOUDFORMATION_SECONDS, "CloudFormation gave up before the answer came"
        return response

    def _poll(self, event: Event) -> Response:
        physical_id = event["PhysicalResourceId"]
        for polls in itertools.count(1):
            if polls > 1:
                self._pass(POLL_SECONDS)
            try:
                answer = self.invoke("is_complete", event)
            except AssertionError:
                raise
            except (Exception, Killed) as error:  # noqa: BLE001 - as above
                return self._answer(False, physical_id, reason=str(error), polls=polls)
            if answer["IsComplete"]:
                return self._answer(True, physical_id, data=answer.get("Data", {}), polls=polls)
            assert not answer.get("Data"), "Data is only allowed when IsComplete is true"
            assert polls < POLLS, "the framework would say `Operation timed out` and nothing else"
        raise AssertionError("not reached")

    def _answer(self, succeeded: bool, physical_id: str, **rest: Any) -> Response:
        response = Response(succeeded, physical_id, **rest)
        size = len(
            json.dumps([response.physical_id, response.reason, dict(response.data)], ensure_ascii=False).encode()
        )
        assert size < RESPONSE_BYTES - 1500, "no room for the framework's own text"
        assert len(response.reason.partition("\n")[0]) <= index.FIRST_LINE, "the first line is too long to be read"
        return response

    def invoke(self, entry_point: str, event: Event) -> dict[str, Any]:
        """Run one function once, as Lambda does; also from within a call of another invocation."""
        outer = (self.running, self._request_id, self._seconds_left)
        self.running, self._request_id = entry_point, event["RequestId"]
        self._seconds_left = self.invocation_seconds or INVOCATION_SECONDS[entry_point]
        try:
            answer: dict[str, Any] = getattr(index, entry_point)(event, None)
            return answer
        finally:
            self.running, self._request_id, self._seconds_left = outer

    def now(self) -> float:
        return self.bench.clock.present.timestamp()

    def sleep(self, seconds: float) -> None:
        """Let time pass within an invocation; Lambda ends it when its time is over."""
        self._seconds_left -= seconds
        self._pass(seconds)
        if self._seconds_left < 0:
            raise Killed(f"Task timed out after {INVOCATION_SECONDS[self.running]:.2f} seconds")

    def _pass(self, seconds: float) -> None:
        self.bench.advance(minutes=seconds / 60)
        for pause in list(self.pauses):
            pause()

    def _hyperpod(self, _: object) -> HyperPod:
        return HyperPod(
            Client(self._clients[self.running], self),
            cloudformation=lambda: Client(self._stacks, self),
            time_left=lambda: self._seconds_left,
            now=self.now,
            sleep=self.sleep,
        )


_DURING = {"Create": "CREATE_IN_PROGRESS", "Update": "UPDATE_IN_PROGRESS", "Delete": "DELETE_IN_PROGRESS"}


class CloudFormation:
    """Sends requests for the resources of one stack; `stack_status` is what DescribeStacks tells meanwhile."""

    def __init__(self, bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = bench
        self.stack_status = "REVIEW_IN_PROGRESS"
        self.framework = Framework(bench, self.status, monkeypatch)
        self.calls = self.framework.calls
        self._requests = itertools.count(1)

    def status(self, stack_id: str) -> str:
        """The status that DescribeStacks tells."""
        assert stack_id in {STACK_ID, OTHER_STACK}
        return self.stack_status

    def kill(self, operation: str, *, after: bool = True) -> None:
        """Let Lambda end the handler right after (or before) its next call of this operation."""

        def interrupt(called: str, carried_out: bool) -> None:
            if (called, carried_out) == (operation, after):
                self.framework.interruptions.remove(interrupt)
                raise Killed("Task timed out after 120.00 seconds")

        self.framework.interruptions.append(interrupt)

    def create(self, properties: Properties, **changes: str) -> Response:
        return self.send("Create", properties, "", **changes)

    def update(self, physical_id: str, properties: Properties, old: Properties, **changes: Any) -> Response:
        return self.send("Update", properties, physical_id, OldResourceProperties=strings(old), **changes)

    def roll_back(self, physical_id: str, properties: Properties, old: Properties) -> Response:
        """The Update with which CloudFormation takes a failed update back to `properties`."""
        return self.update(physical_id, properties, old, during="UPDATE_ROLLBACK_IN_PROGRESS")

    def delete(self, physical_id: str, properties: Properties | None = None, **changes: Any) -> Response:
        return self.send("Delete", properties or {}, physical_id, **changes)

    def send(
        self, request_type: str, properties: Properties, physical_id: str, *, during: str = "", **changes: Any
    ) -> Response:
        """Send a request while the stack is in the status that it has then, or in `during`."""
        self.stack_status = during or _DURING[request_type]
        return self.framework.handle(self.event(request_type, properties, physical_id, **changes))

    def event(self, request_type: str, properties: Properties, physical_id: str, **changes: Any) -> Event:
        """The request as CloudFormation sends it."""
        event: Event = {
            "RequestType": request_type,
            "ResourceType": index.CLUSTER,
            "StackId": STACK_ID,
            "LogicalResourceId": "Cluster",
            "RequestId": f"00000000-0000-0000-0000-{next(self._requests):012}",
            "ResponseURL": "https://localhost/response",
            "ResourceProperties": strings(properties | {"ServiceToken": "arn:aws:lambda:us-west-2:1:function:f"}),
            **changes,
        }
        return event | ({"PhysicalResourceId": physical_id} if physical_id else {})


def strings(value: Any) -> Any:
    """CloudFormation makes a string of every scalar."""
    if isinstance(value, dict):
        return {key: strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
