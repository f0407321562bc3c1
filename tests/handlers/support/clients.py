"""The API clients that the handlers get in tests: in front of the simulator, and watched."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from botocore.config import Config
from botocore.exceptions import ClientError

from embedded_account.hyperpod.api.operations import HyperPodApi
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.errors import HyperPodApiError
from embedded_account.machine import isolation
from handlers.hyperpod_cluster.ownership import ADDED_TAG
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG
from handlers.hyperpod_cluster.record import BEFORE_TAG, DEPLOYED_TAG, SLEEPING_TAG

REGISTRATION = "AddTags (its own)"
"""How `Framework.calls` lists an AddTags that writes only the handlers' own tags."""
FORGETTING = "DeleteTags (its own)"
"""How it lists a DeleteTags that removes only those."""
_OF_TAGS = {"AddTags": REGISTRATION, "DeleteTags": FORGETTING}
HANDLERS_TAGS = {ADDED_TAG, BEFORE_TAG, DEPLOYED_TAG, REQUESTS_TAG, SLEEPING_TAG}
"""The tags in which the handlers keep what they need to know later."""
# The SDK's own retries sleep for real; the handlers' are what is tested.
NO_RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 1})


class Watch(Protocol):
    """Is called before each API call and after it; an exception that it raises ends the call."""

    def __call__(self, operation: str, *, after: bool, listed: str = "") -> None:
        """Receive the operation, and before the call also the name to list it by."""


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
            except HyperPodApiError as error:
                raise ClientError({"Error": {"Code": error.code, "Message": error.message}}, operation) from None

        return call


class Client:
    """A boto3 client that reports each call to `watch`."""

    def __init__(self, client: Any, watch: Watch) -> None:
        self._client = client
        self._watch = watch
        self.meta = client.meta

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        operation: str = self._client.meta.method_to_api_mapping[name]

        def call(**request: Any) -> Any:
            keys: set[str] = {tag["Key"] for tag in request.get("Tags", [])} | {*request.get("TagKeys", [])}
            own = operation in _OF_TAGS and HANDLERS_TAGS.issuperset(keys)
            self._watch(operation, after=False, listed=_OF_TAGS[operation] if own else operation)
            answer = method(**request)
            self._watch(operation, after=True)
            return answer

        return call


class Stacks:
    """CloudFormation's client in front of one stack: its status, and when its rollback began."""

    class meta:
        method_to_api_mapping = {
            "describe_stacks": "DescribeStacks",
            "describe_stack_events": "DescribeStackEvents",
        }

    def __init__(self, status: Callable[[str], str], began: Callable[[], datetime | None]) -> None:
        self._status = status
        self._began = began

    def describe_stacks(self, **request: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": self._status(request["StackName"])}]}

    def describe_stack_events(self, **request: str) -> dict[str, Any]:
        stack_id, began = request["StackName"], self._began()
        event = {"PhysicalResourceId": stack_id, "ResourceStatus": self._status(stack_id), "Timestamp": began}
        return {"StackEvents": [event | {"PhysicalResourceId": "another"}, event] if began else []}
