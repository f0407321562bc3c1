"""Handle custom resources: send CloudFormation's request to a function, and receive the answer over HTTP.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import logging
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from moto.awslambda.models import lambda_backends
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Request

from embedded_account.cloudformation.handlers import LeftBehindError, Properties, Target
from embedded_account.cloudformation.stack import Handle
from embedded_account.cloudformation.templates.intrinsics import as_text
from embedded_account.cloudformation.templates.physical_names import suffix
from embedded_account.context import NODE_RESPONSE_URL
from embedded_account.errors import ResourceError

if TYPE_CHECKING:
    from embedded_account.context import Account

RequestType = Literal["Create", "Update", "Delete"]

GENERIC_TYPE = "AWS::CloudFormation::CustomResource"

MAX_RESPONSE_BYTES = 4096
DEFAULT_TIMEOUT_SECONDS = 3600.0
"""How many seconds CloudFormation waits for the answer without a ServiceTimeout; real seconds here, not scaled."""

LATENCY_SECONDS = 3.0
"""The longest real time in seconds that a function gets to end, and log, after its answer, as with CloudFormation."""

INVOCATIONS = 3
"""Lambda's asynchronous invocation retries a failing function twice, after one and two minutes."""

_log = logging.getLogger(__name__)


def is_custom(resource_type: str) -> bool:
    """Return whether a function of the user creates resources of this type."""
    return resource_type == GENERIC_TYPE or resource_type.startswith("Custom::")


@dataclass(frozen=True)
class CustomHandle:
    """An existing custom resource; `data` is what its function returned."""

    physical_id: str
    data: Mapping[str, Any]
    request_id: str
    target: Target

    def attribute(self, name: str) -> Any:
        if name in self.data:
            return self.data[name]
        found: Any = self.data
        for part in name.split("."):
            if not isinstance(found, dict) or part not in found:
                raise ResourceError(
                    f"CustomResource attribute error: Vendor response doesn't contain {name} key in object "
                    f"{self.target.stack_id}|{self.target.logical_id}|{self.request_id}"
                )
            found = found[part]
        return found


@dataclass
class _Pending:
    """A request whose answer is awaited."""

    answered: threading.Event = field(default_factory=threading.Event)
    body: bytes = b""
    last_error: str = ""


class CustomResources:
    """Handles custom resources: invokes the function of their ServiceToken."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self._pending: dict[str, _Pending] = {}
        account.routes.route("PUT", "cfn-response", self._receive, secret_address=True)

    def create(self, target: Target, properties: Properties) -> Handle:
        return self._ask("Create", target, properties)

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        if old["ServiceToken"] != new["ServiceToken"]:
            raise ResourceError("Modifying service token is not allowed.")
        return self._ask("Update", target, new, physical_id=handle.physical_id, old=old)

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        self._ask("Delete", target, properties, physical_id=handle.physical_id)

    def _ask(
        self,
        request_type: RequestType,
        target: Target,
        properties: Properties,
        *,
        physical_id: str | None = None,
        old: Properties | None = None,
    ) -> CustomHandle:
        """Send one request and wait for its answer. Raises LeftBehindError if the creation failed."""
        token, request_id = uuid.uuid4().hex, str(uuid.uuid4())
        function = properties["ServiceToken"]
        # AWS's address is a presigned URL of S3, which carries the time at which it was signed.
        signed = f"X-Amz-Date={self._account.clock.now():%Y%m%dT%H%M%SZ}&X-Amz-Expires=7200"
        event = {
            "RequestType": request_type,
            "ServiceToken": function,
            "ResponseURL": f"{self._response_base(function)}/{token}?{signed}",
            "StackId": target.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": target.logical_id,
            "ResourceType": target.type,
            "ResourceProperties": as_texts(properties),
        }
        if physical_id is not None:
            event["PhysicalResourceId"] = physical_id
        if old is not None:
            event["OldResourceProperties"] = as_texts(old)
        # A Delete names this id if the function never returned one.
        fallback = physical_id or f"{target.stack_name}-{target.logical_id}-{suffix()}"
        pending = self._pending[token] = _Pending()
        try:
            invocation = threading.Thread(target=self._invoke, args=(function, event, pending), daemon=True)
            invocation.start()
            if pending.answered.wait(float(properties.get("ServiceTimeout", DEFAULT_TIMEOUT_SECONDS))):
                # Otherwise the function's last lines would create its log group again, which is deleted next.
                invocation.join(LATENCY_SECONDS)
        finally:
            del self._pending[token]
        return _read(event, pending, CustomHandle(fallback, {}, request_id, target))

    def _invoke(self, function: str, event: Mapping[str, Any], pending: _Pending) -> None:
        for attempt in range(INVOCATIONS):
            try:
                result = self._account.functions.invoke(function, event)
                if not result.error:
                    return
                pending.last_error = result.payload.decode(errors="replace")[:500]
            except Exception as error:  # noqa: BLE001 - Lambda would retry after any error
                _log.exception("invocation of %s", function)
                pending.last_error = f"{type(error).__name__}: {error}"
            if pending.answered.is_set() or attempt == INVOCATIONS - 1:
                break
            self._account.clock.sleep(60.0 * (attempt + 1))
        # No answer can come now: skip the rest of the hour that CloudFormation would wait.
        pending.answered.set()

    def _receive(self, request: Request, token: str) -> Any:
        pending = self._pending.get(token)
        if pending is None:
            raise Forbidden("this response URL has expired")
        pending.body = request.get_data()
        pending.answered.set()
        return {}

    def _response_base(self, function: str) -> str:
        backend = lambda_backends[self._account.account_id][self._account.region]
        try:
            runtime = backend.get_function(function).run_time or ""
        except Exception:  # noqa: BLE001 - the invocation reports what is wrong with the function
            runtime = ""
        return NODE_RESPONSE_URL if runtime.startswith("nodejs") else self._account.response_url


def as_texts(value: Any) -> Any:
    """Return `value` with every scalar as text: CloudFormation sends no other type to custom resources."""
    if isinstance(value, dict):
        return {key: as_texts(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [as_texts(item) for item in value]
    return as_text(value)


def _read(event: Mapping[str, Any], pending: _Pending, handle: CustomHandle) -> CustomHandle:
    request_id = event["RequestId"]
    if not pending.body:
        why = f" (the function failed {INVOCATIONS} times: {pending.last_error})" if pending.last_error else ""
        raise LeftBehindError(
            "CloudFormation did not receive a response from your Custom Resource. Please check your logs for "
            f"requestId [{request_id}].{why}",
            handle,
        )
    if len(pending.body) > MAX_RESPONSE_BYTES:
        raise LeftBehindError("Response object is too long.", handle)
    try:
        answer = json.loads(pending.body)
    except ValueError:
        raise LeftBehindError("Invalid Response object: it is not JSON.", handle) from None
    problem = _problem(event, answer)
    if problem:
        raise LeftBehindError(problem, handle)
    known = CustomHandle(
        str(answer.get("PhysicalResourceId") or handle.physical_id), answer.get("Data") or {}, request_id, handle.target
    )
    if answer["Status"] == "FAILED":
        raise LeftBehindError(
            "Received response status [FAILED] from custom resource. Message returned: "
            f"{answer['Reason']} (RequestId: {request_id})",
            known,
        )
    return known


def _problem(event: Mapping[str, Any], answer: Any) -> str | None:
    """Return CloudFormation's error for the form of an answer, or None if the form is valid."""
    if not isinstance(answer, dict) or answer.get("Status") not in {"SUCCESS", "FAILED"}:
        return "Invalid Response object: Status must be SUCCESS or FAILED."
    for name in ("StackId", "RequestId", "LogicalResourceId"):
        if answer.get(name) != event[name]:
            return f"Invalid Response object: Value of property {name} must match the request's."
    if answer["Status"] == "FAILED":
        return None if answer.get("Reason") else "Reason is required when Status is FAILED."
    if not answer.get("PhysicalResourceId"):
        return "Invalid PhysicalResourceId"
    if not isinstance(answer.get("Data") or {}, dict):
        return "Invalid Response object: Value of property Data must be an object."
    return None
