"""CloudFormation and CDK's provider framework as a handler meets them, over the HyperPod simulator and its clock.

Follows `custom-resources/lib/provider-framework` of aws-cdk-lib 2.275.0: all properties arrive as strings; what
on_event returns is merged into is_complete's event; an error in on_event of a Create leaves a marker id whose Delete
never reaches the handler; an error in is_complete answers with the real id.
"""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.config import Config

from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.service import HyperPod
from rehearsal.account.hyperpod.bench import HyperPodBench

MARKER = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
STACK_ID = "arn:aws:cloudformation:us-west-2:111122223333:stack/rayhp-dev-hyperpod/0b1f6c1a-0000-0000-0000-000000000001"
POLLS = 240
POLL_MINUTES = 0.25
RESPONSE_BYTES = 4096
# The SDK's own retries sleep for real; the handlers' are what is tested.
NO_RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 1})

Properties = dict[str, Any]


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


class Client:
    """A boto3 client that records its calls and can be killed right after one of them."""

    def __init__(self, client: Any, calls: list[str]) -> None:
        self._client = client
        self._calls = calls
        self.killed_after = ""
        self.meta = client.meta

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        operation = self._client.meta.method_to_api_mapping[name]

        def call(**request: Any) -> Any:
            self._calls.append(operation)
            try:
                return method(**request)
            finally:
                if operation == self.killed_after:
                    self.killed_after = ""
                    raise Killed

        return call


class CloudFormation:
    """Sends requests for the resources of one stack.

    `calls` lists the API calls that the handlers made; `invocation_seconds` is Lambda's limit of one invocation.
    """

    def __init__(self, bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = bench
        self.calls: list[str] = []
        self.invocation_seconds = 120.0
        self._seconds_left = 0.0
        self.use(bench.client("sagemaker", config=NO_RETRIES))
        monkeypatch.setattr(index, "_hyperpod", self._hyperpod)

    def use(self, client: Any, poll_client: Any = None) -> None:
        """Run the handlers with these clients from now on: on_event's and is_complete's."""
        self.client = Client(client, self.calls)
        self._poll_client = Client(poll_client, self.calls) if poll_client else self.client

    def create(self, properties: Properties, **changes: str) -> Response:
        return self._send("Create", properties, "", **changes)

    def update(self, physical_id: str, properties: Properties, old: Properties, **changes: Any) -> Response:
        return self._send("Update", properties, physical_id, OldResourceProperties=_strings(old), **changes)

    def delete(self, physical_id: str, properties: Properties | None = None, **changes: Any) -> Response:
        return self._send("Delete", properties or {}, physical_id, **changes)

    def _send(self, request_type: str, properties: Properties, physical_id: str, **changes: Any) -> Response:
        event: dict[str, Any] = {
            "RequestType": request_type,
            "ResourceType": index.CLUSTER,
            "StackId": STACK_ID,
            "LogicalResourceId": "Cluster",
            "RequestId": "request",
            "ResponseURL": "https://localhost/response",
            "ResourceProperties": _strings(properties | {"ServiceToken": "arn:aws:lambda:us-west-2:1:function:f"}),
            **changes,
        }
        if physical_id:
            event["PhysicalResourceId"] = physical_id
        if request_type == "Delete" and physical_id == MARKER:
            return Response(True, MARKER)
        self._active = self.client
        try:
            answer = self._invoke(index.on_event, event)
        except (Exception, Killed) as error:  # noqa: BLE001 - the framework reports whatever ends a handler
            return self._answer(False, physical_id or MARKER, reason=str(error))
        # What goes to Step Functions is JSON.
        event = json.loads(json.dumps(event | answer))
        self._active = self._poll_client
        return self._poll(event)

    def _poll(self, event: dict[str, Any]) -> Response:
        physical_id = event["PhysicalResourceId"]
        for polls in itertools.count(1):
            try:
                answer = self._invoke(index.is_complete, event)
            except (Exception, Killed) as error:  # noqa: BLE001 - as above
                return self._answer(False, physical_id, reason=str(error), polls=polls)
            if answer["IsComplete"]:
                return self._answer(True, physical_id, data=answer.get("Data", {}), polls=polls)
            assert not answer.get("Data"), "Data is only allowed when IsComplete is true"
            if polls == POLLS:
                return self._answer(False, physical_id, reason="Operation timed out", polls=polls)
            self.bench.advance(minutes=POLL_MINUTES)
        raise AssertionError("not reached")

    def _answer(self, succeeded: bool, physical_id: str, **rest: Any) -> Response:
        response = Response(succeeded, physical_id, **rest)
        size = len(
            json.dumps([response.physical_id, response.reason, dict(response.data)], ensure_ascii=False).encode()
        )
        assert size < RESPONSE_BYTES - 1500, "no room for the framework's own text"
        return response

    def _invoke(self, handler: Callable[..., dict[str, Any]], event: dict[str, Any]) -> dict[str, Any]:
        self._seconds_left = self.invocation_seconds
        return handler(event, None)

    def _hyperpod(self, _: object) -> HyperPod:
        return HyperPod(
            self._active,
            time_left=lambda: self._seconds_left,
            now=self._now,
            sleep=self._sleep,
        )

    def _now(self) -> float:
        return self.bench.clock.present.timestamp()

    def _sleep(self, seconds: float) -> None:
        self._seconds_left -= seconds
        self.bench.advance(minutes=seconds / 60)


def _strings(value: Any) -> Any:
    """CloudFormation makes a string of every scalar."""
    if isinstance(value, dict):
        return {key: _strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
