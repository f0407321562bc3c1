"""Send the handlers single requests of CloudFormation, for the resources of one stack."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster import index
from tests.handlers.support.framework import Event, Framework, Killed, Properties, Response

STACK_ID = "arn:aws:cloudformation:us-west-2:111122223333:stack/rayhp-dev-hyperpod/0b1f6c1a-0000-0000-0000-000000000001"
OTHER_STACK = STACK_ID[:-1] + "2"

_DURING = {"Create": "CREATE_IN_PROGRESS", "Update": "UPDATE_IN_PROGRESS", "Delete": "DELETE_IN_PROGRESS"}


class CloudFormation:
    """Sends requests for the resources of one stack; `stack_status` is the status that DescribeStacks shows."""

    def __init__(self, bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = bench
        self._stack_status, self._began = "REVIEW_IN_PROGRESS", bench.clock.present
        self.framework = Framework(bench, self.status, monkeypatch, lambda: self._began)
        self.calls = self.framework.calls
        self._requests = 0

    @property
    def stack_status(self) -> str:
        return self._stack_status

    @stack_status.setter
    def stack_status(self, status: str) -> None:
        """Let the stack enter this status, after the last request and before the next one."""
        if status != self._stack_status:
            self._stack_status, self._began = status, self._second(self._requests + 1)

    def status(self, stack_id: str) -> str:
        """Return the status that DescribeStacks shows."""
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
        """Send the Update with which CloudFormation rolls a failed update back to `properties`."""
        return self.update(physical_id, properties, old, during="UPDATE_ROLLBACK_IN_PROGRESS")

    def delete(self, physical_id: str, properties: Properties | None = None, **changes: Any) -> Response:
        return self.send("Delete", properties or {}, physical_id, **changes)

    def send(
        self, request_type: str, properties: Properties, physical_id: str, *, during: str = "", **changes: Any
    ) -> Response:
        """Send a request while the stack is in the usual status for it, or in the status `during`."""
        self.stack_status = during or _DURING[request_type]
        return self.framework.handle(self.event(request_type, properties, physical_id, **changes))

    def event(self, request_type: str, properties: Properties, physical_id: str, **changes: Any) -> Event:
        """Return the request as CloudFormation sends it."""
        self._requests += 1
        issued = self._second(self._requests)
        event: Event = {
            "RequestType": request_type,
            "ResourceType": index.CLUSTER,
            "StackId": STACK_ID,
            "LogicalResourceId": "Cluster",
            "RequestId": f"00000000-0000-0000-0000-{self._requests:012}",
            "ResponseURL": f"https://localhost/response?X-Amz-Date={issued:%Y%m%dT%H%M%SZ}&X-Amz-Expires=7200",
            "ResourceProperties": strings(properties | {"ServiceToken": "arn:aws:lambda:us-west-2:1:function:f"}),
            **changes,
        }
        return event | ({"PhysicalResourceId": physical_id} if physical_id else {})

    def _second(self, number: int) -> datetime:
        """Return a time for the `number`-th request: seconds pass between two requests."""
        return self.bench.clock.present + timedelta(seconds=number)


def strings(value: Any) -> Any:
    """Return the value with every scalar as a string, as CloudFormation sends it."""
    if isinstance(value, dict):
        return {key: strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
