"""Run the handlers as CDK's provider framework does, over the HyperPod simulator and its clock.

`Framework` follows `custom-resources/lib/provider-framework` of aws-cdk-lib 2.275.0. It merges what on_event returns
into is_complete's event. An error in on_event of a Create leaves a marker id whose Delete never reaches the handler; an
error in is_complete answers with the real id. A function that Lambda ends counts as an error.
`cloudformation` sends it single requests; `engine` puts it behind the embedded account's CloudFormation.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ReadTimeoutError

from config.facts.hyperpod_permissions import HANDLER_CALLS
from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.service import CONNECT_SECONDS, READ_SECONDS, HyperPodClient
from tests.handlers.support.clients import Client, DirectClient, Stacks

MARKER = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
POLLS = 240
POLL_SECONDS = 15.0
RESPONSE_BYTES = 4096
CLOUDFORMATION_SECONDS = 3600.0
INVOCATION_SECONDS = {"on_event": 180.0, "is_complete": 120.0}
"""Lambda's limits of one invocation (stacks/hyperpod/provider.py)."""

Properties = dict[str, Any]
Event = dict[str, Any]


class Killed(BaseException):
    """Lambda ended the function in the middle: no code of the handler may catch this."""


@dataclass(frozen=True)
class Response:
    """The answer that CloudFormation gets."""

    succeeded: bool
    physical_id: str
    reason: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    polls: int = 0


Interruption = Callable[[str, bool], None]
"""Called with the operation before (False) and after (True) a call is carried out; an exception ends the call."""


Pause = Callable[[], None]
"""Called whenever time passes for a request: in a sleep of a function, or between two polls."""


class Framework:
    """Runs the handlers.

    `calls` lists their API calls; `carried_out` counts the calls that the service answered, by request and operation.
    `invocation_seconds` replaces Lambda's deployed limit. `interruptions` are called at every API call, `pauses`
    whenever time passes. `running` is the entry point that runs now.
    """

    def __init__(
        self,
        bench: HyperPodBench,
        status: Callable[[str], str],
        monkeypatch: pytest.MonkeyPatch,
        began: Callable[[], datetime | None],
    ) -> None:
        self.bench = bench
        self.calls: list[str] = []
        self.invocation_seconds: float | None = None
        self.interruptions: list[Interruption] = []
        self.pauses: list[Pause] = []
        self.carried_out: Counter[tuple[str, str]] = Counter()
        self._request_id = ""
        self._seconds_left = 0.0
        self.running = ""
        self._stacks: Any = Stacks(status, began)
        self._clients: dict[str, Any] = {}
        self.use(DirectClient(bench))
        monkeypatch.setattr(index, "_hyperpod", self._hyperpod)

    def use(self, client: Any, poll_client: Any = None, stacks: Any = None) -> None:
        """Run the handlers with these clients: SageMaker's for on_event and for is_complete, and CloudFormation's."""
        self._clients = {"on_event": client, "is_complete": poll_client or client}
        self._stacks = stacks or self._stacks

    def watch(self, operation: str, *, after: bool, listed: str = "") -> None:
        """List a call, refuse it if the handler has no permission for it, and call the planned interruptions."""
        if after:
            self.carried_out[self._request_id, operation] += 1
        else:
            assert operation in HANDLER_CALLS[self.running], f"{self.running} may not call {operation}"
            self.calls.append(listed)
        for interruption in list(self.interruptions):
            # An earlier interruption in this loop can have triggered and removed this one.
            if interruption in self.interruptions:
                interruption(operation, after)

    def interrupt(
        self, position: int, deed: Callable[[str], None], *, after: bool, since: Collection[str] = ()
    ) -> None:
        """Call `deed` once at the `position`-th API call from now on: before the call is carried out, or `after` it.

        Calls are counted from 0; with `since`, from the first call of one of these operations.
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
        """Call `deed` once at the `position`-th moment from now on at which time passes, counted from 0."""
        left = position

        def pause() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.pauses.remove(pause)
                deed()

        self.pauses.append(pause)

    def kill(self, position: int, *, after: bool) -> None:
        """Let Lambda end the function at the `position`-th API call from now on."""

        def deed(_: str) -> None:
            raise Killed("Task timed out after 120.00 seconds")

        self.interrupt(position, deed, after=after)

    def time_out(self, error: type[BotoCoreError] = ReadTimeoutError) -> None:
        """Let a call time out."""
        self.sleep(CONNECT_SECONDS + READ_SECONDS)
        raise error(endpoint_url="https://api.sagemaker.us-west-2.amazonaws.com/")

    def handle(self, event: Event) -> Response:
        """Return the answer to one request of CloudFormation; simulated time passes meanwhile."""
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
        # The framework passes JSON to Step Functions.
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
        """Run one function once, as Lambda does; invocations can be nested."""
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
        """Let time pass within an invocation; raise Killed when its time is over."""
        self._seconds_left -= seconds
        self._pass(seconds)
        if self._seconds_left < 0:
            raise Killed(f"Task timed out after {INVOCATION_SECONDS[self.running]:.2f} seconds")

    def _pass(self, seconds: float) -> None:
        self.bench.advance(minutes=seconds / 60)
        for pause in list(self.pauses):
            pause()

    def _hyperpod(self, _: object) -> HyperPodClient:
        return HyperPodClient(
            Client(self._clients[self.running], self.watch),
            cloudformation=lambda: Client(self._stacks, self.watch),
            time_left=lambda: self._seconds_left,
            now=self.now,
            sleep=self.sleep,
        )
