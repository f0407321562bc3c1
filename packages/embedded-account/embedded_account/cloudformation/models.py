"""Handle resources with the account's own models (services/shared/resource_model.py), not with moto's.

moto's models drop properties that they do not know, and their updates change little: a stack would report what did not
happen. Beyond `ResourceModel` the engine honours:

- `is_created()`: polled without a lock after a creation or an update, until it returns true. It raises ResourceError if
  the resource ends in a failed state. Slow services start their work and return at once.
- `is_deleted()`: the same after a deletion. Without it, a resource is gone when its deletion returns.
- `runs_unlocked = True` on the class: its create, update and delete may block (for example, wait for processes) and
  guard their own state. All others run under one lock, because moto's backends are not thread-safe.
"""

import copy
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from embedded_account.cloudformation.handlers import LeftBehindError, Properties, Target
from embedded_account.cloudformation.stack import Handle
from embedded_account.cloudformation.templates import constraints
from embedded_account.cloudformation.templates.physical_names import physical_name
from embedded_account.cloudformation.templates.resource_types import ResourceTypes
from embedded_account.errors import ResourceError, code_of, reason_of
from embedded_account.services.shared.resource_model import REGISTERED, ResourceModel

if TYPE_CHECKING:
    from embedded_account.context import Account

POLL_SECONDS = 0.05
"""Real seconds between two polls of a resource that is not ready yet."""

DEPENDENCY_PATIENCE_SECONDS = 300.0
"""How many simulated seconds a deletion is retried while another resource uses this one, as in CloudFormation."""

_LEAST_PATIENCE_SECONDS = 1.0
"""Real seconds: what uses the resource goes by real work, which a faster clock does not shorten."""

_DEPENDENCY_POLL_SECONDS = 5.0


class ModelHandle:
    """A resource of a model. `name` is its given or generated name, not its id."""

    def __init__(self, target: Target, model: ResourceModel, name: str) -> None:
        self.model = model
        self.physical_id = str(model.physical_resource_id)
        self.name = name
        self._type = target.type

    def attribute(self, name: str) -> Any:
        try:
            return self.model.get_cfn_attribute(name)
        except Exception as error:
            raise ResourceError(
                f"The embedded account's {self._type} does not support attribute {name} in Fn::GetAtt"
            ) from error


class ModelHandler:
    """Creates, updates and deletes resources through their models."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self._lock = threading.RLock()

    def create(self, target: Target, properties: Properties) -> Handle:
        constraints.check(target.logical_id, target.type, properties)
        model_class = REGISTERED[target.type]
        name = properties.get(model_class.NAME) or physical_name(target.type, target.stack_name, target.logical_id)
        with self._guard(model_class):
            model = model_class.create_from_cloudformation_json(
                name,
                _as_json(target, properties),
                self._account.account_id,
                self._account.region,
                LogicalId=target.logical_id,
                StackId=target.stack_id,
                ResourceType=target.type,
            )
        handle = ModelHandle(target, model, name)
        self._wait_until_usable(handle)
        return handle

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:  # noqa: ARG002
        constraints.check(target.logical_id, target.type, new)
        handle = _model_handle(handle)
        model_class = REGISTERED[target.type]
        name = new.get(model_class.NAME) or handle.name
        with self._guard(model_class):
            model = model_class.update_from_cloudformation_json(
                original_resource=handle.model,
                new_resource_name=name,
                cloudformation_json=_as_json(target, new),
                account_id=self._account.account_id,
                region_name=self._account.region,
            )
        updated = ModelHandle(target, model, name)
        self._wait_until_usable(updated)
        return updated

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:  # noqa: ARG002
        handle = _model_handle(handle)
        deadline = time.monotonic() + max(
            _LEAST_PATIENCE_SECONDS, DEPENDENCY_PATIENCE_SECONDS / self._account.clock.scale
        )
        while True:
            try:
                with self._guard(type(handle.model)):
                    handle.model.remove()
                break
            except Exception as error:
                if _is_gone(error):
                    return
                if code_of(error) != "DependencyViolation" or time.monotonic() > deadline:
                    raise
                self._account.clock.sleep(_DEPENDENCY_POLL_SECONDS)
        is_deleted = getattr(handle.model, "is_deleted", None)
        while is_deleted and not is_deleted():
            time.sleep(POLL_SECONDS)

    def _guard(self, model_class: Any) -> Any:
        return nullcontext() if getattr(model_class, "runs_unlocked", False) else self._lock

    def _wait_until_usable(self, handle: ModelHandle) -> None:
        try:
            while not handle.model.is_created():
                time.sleep(POLL_SECONDS)
        except Exception as error:
            raise LeftBehindError(reason_of(error), handle) from error


def _model_handle(handle: Handle) -> ModelHandle:
    if not isinstance(handle, ModelHandle):
        raise TypeError(f"{type(handle).__name__} is not the handle of a model")
    return handle


def _as_json(target: Target, properties: Properties) -> dict[str, Any]:
    return {"Type": target.type, "Properties": copy.deepcopy(properties)}


def _is_gone(error: Exception) -> bool:
    code = code_of(error) or ""
    # EC2 says of an attachment that is gone: Gateway.NotAttached.
    return any(word in code for word in ("NotFound", "NoSuch", "NotAttached"))


def tagged(types: ResourceTypes, resource_type: str, properties: Properties, tags: Mapping[str, str]) -> Properties:
    """Return the properties with the stack's tags added; the resource's own tags take precedence.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
    """
    known = types.get(resource_type) if tags else None
    if known is None or known.tags is None:
        return properties
    name, own = known.tags.name, properties.get(known.tags.name)
    if known.tags.variant == "map":
        return {**properties, name: {**tags, **(own or {})}}
    extra = {"PropagateAtLaunch": True} if known.tags.variant == "asg" else {}
    taken = {tag["Key"] for tag in own or []}
    added = [{"Key": key, "Value": value, **extra} for key, value in tags.items() if key not in taken]
    return {**properties, name: [*(own or []), *added]}
