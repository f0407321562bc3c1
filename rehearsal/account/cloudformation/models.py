"""Resources that are models of moto, or of the embedded account in moto's form.

A model is a direct subclass of moto's CloudFormationModel. Beyond moto's own contract the engine honours:

- `is_created()`: polled after a creation or an update, without any lock, until it is true; raise
  ResourceFailure when the resource ends in a failed state. Slow services start their work and return at once.
- `is_deleted()`: the same after a deletion; a model without it is gone when its deletion returns.
- `runs_unlocked = True` on the class: its create, update and delete may block (they wait for processes, say)
  and guard their own state. Everything else runs under one lock, because moto's backends are not made for
  several threads.
"""

import copy
import inspect
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from moto.cloudformation import parsing as _all_models_of_moto  # noqa: F401 - its imports fill the registry
from moto.core.common_models import CloudFormationModel
from moto.ec2.models import ec2_backends
from moto.ec2.models.core import TaggedEC2Resource

from rehearsal.account.cloudformation.handlers import LeftBehind, Properties, Target
from rehearsal.account.cloudformation.physical_names import physical_name
from rehearsal.account.cloudformation.resource_types import resource_types
from rehearsal.account.cloudformation.stack import Handle
from rehearsal.account.errors import ResourceFailure, code_of, reason_of

if TYPE_CHECKING:
    from rehearsal.account.context import Account

POLL_SECONDS = 0.05
"""Real seconds between two looks at a resource that is not ready yet."""

DEPENDENCY_PATIENCE = 300.0
"""Simulated seconds that a deletion is retried while something still uses the resource, as CloudFormation does."""

_DEPENDENCY_POLL = 5.0

_log = logging.getLogger(__name__)


@cache
def models() -> Mapping[str, Any]:
    """Return the model classes by resource type; of two classes for one type the later one counts."""
    return {model.cloudformation_type(): model for model in CloudFormationModel.__subclasses__()}


class ModelHandle:
    """A resource that one of moto's models stands for. `name` is its given or generated name, not its id."""

    def __init__(self, target: Target, model: Any, name: str) -> None:
        self.model = model
        self.name = name
        self._type = target.type

    @property
    def physical_id(self) -> str:
        return str(self.model.physical_resource_id)

    def attribute(self, name: str) -> Any:
        try:
            return self.model.get_cfn_attribute(name)
        except Exception as error:
            raise ResourceFailure(
                f"The embedded account's {self._type} does not support attribute {name} in Fn::GetAtt"
            ) from error


class ModelHandler:
    """Creates, updates and deletes resources through their models."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self._lock = threading.RLock()

    def create(self, target: Target, properties: Properties) -> Handle:
        model_class = models()[target.type]
        name = properties.get(model_class.cloudformation_name_type()) or physical_name(
            target.type, target.stack_name, target.logical_id
        )
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
            handle = self._adopt(target, model, name)
        self._wait_until_usable(handle)
        return handle

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        handle = _model_handle(handle)
        model_class = models()[target.type]
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if hasattr(model_class.update_from_cloudformation_json, "__isabstractmethod__"):
            return self._update_tags_only(target, handle, changed, old, new)
        name = new.get(model_class.cloudformation_name_type()) or handle.name
        with self._guard(model_class):
            model = model_class.update_from_cloudformation_json(
                original_resource=handle.model,
                new_resource_name=name,
                cloudformation_json=_as_json(target, new),
                account_id=self._account.account_id,
                region_name=self._account.region,
            )
            updated = self._adopt(target, model, name)
        self._wait_until_usable(updated)
        return updated

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        handle = _model_handle(handle)
        deadline = time.monotonic() + DEPENDENCY_PATIENCE / self._account.clock.scale
        while True:
            try:
                self._delete_once(target, handle, properties)
                break
            except Exception as error:
                if _is_gone(error):
                    return
                if code_of(error) != "DependencyViolation" or time.monotonic() > deadline:
                    raise
                self._account.clock.sleep(_DEPENDENCY_POLL)
        is_deleted = getattr(handle.model, "is_deleted", None)
        while is_deleted and not is_deleted():
            time.sleep(POLL_SECONDS)

    def _delete_once(self, target: Target, handle: ModelHandle, properties: Properties) -> None:
        model, model_class = handle.model, models()[target.type]
        where = (self._account.account_id, self._account.region)
        with self._guard(model_class):
            if _deletes_itself(model):
                model.delete(*where)
            elif not hasattr(model_class.delete_from_cloudformation_json, "__isabstractmethod__"):
                model_class.delete_from_cloudformation_json(handle.physical_id, _as_json(target, properties), *where)
            else:
                raise ResourceFailure(f"The embedded account cannot delete {target.type}")

    def _update_tags_only(
        self, target: Target, handle: ModelHandle, changed: set[str], old: Properties, new: Properties
    ) -> Handle:
        if changed != {"Tags"} or not isinstance(handle.model, TaggedEC2Resource):
            names = ", ".join(sorted(changed))
            raise ResourceFailure(f"The embedded account cannot update {target.type} in place (changed: {names})")
        backend = ec2_backends[self._account.account_id][self._account.region]
        before = {tag["Key"]: tag["Value"] for tag in old.get("Tags", [])}
        after = {tag["Key"]: tag["Value"] for tag in new.get("Tags", [])}
        with self._lock:
            gone = {key: value for key, value in before.items() if key not in after}
            if gone:
                backend.delete_tags([handle.physical_id], gone)
            if after:
                backend.create_tags([handle.physical_id], after)
        return handle

    def _adopt(self, target: Target, model: Any, name: str) -> ModelHandle:
        if model is None:
            raise ResourceFailure(f"The embedded account made no {target.type}")
        model.cf_resource_type = target.type
        model.logical_resource_id = target.logical_id
        handle = ModelHandle(target, model, name)
        if isinstance(model, TaggedEC2Resource):
            tags = {
                **target.tags,
                "aws:cloudformation:stack-name": target.stack_name,
                "aws:cloudformation:stack-id": target.stack_id,
                "aws:cloudformation:logical-id": target.logical_id,
            }
            ec2_backends[self._account.account_id][self._account.region].create_tags([handle.physical_id], tags)
        return handle

    def _guard(self, model_class: Any) -> Any:
        return nullcontext() if getattr(model_class, "runs_unlocked", False) else self._lock

    def _wait_until_usable(self, handle: ModelHandle) -> None:
        try:
            # Abstract in moto, and inherited by most models: it returns True.
            while not handle.model.is_created():
                time.sleep(POLL_SECONDS)
        except Exception as error:
            raise LeftBehind(reason_of(error), handle) from error


def _model_handle(handle: Handle) -> ModelHandle:
    if not isinstance(handle, ModelHandle):
        raise TypeError(f"{type(handle).__name__} is no model's handle")
    return handle


def _as_json(target: Target, properties: Properties) -> dict[str, Any]:
    return {"Type": target.type, "Properties": copy.deepcopy(properties)}


def _deletes_itself(model: Any) -> bool:
    """Whether the model has a `delete(account_id, region)`; some have a `delete` for other purposes."""
    delete = getattr(model, "delete", None)
    return callable(delete) and len(inspect.signature(delete).parameters) == 2


def _is_gone(error: Exception) -> bool:
    code = code_of(error) or ""
    return "NotFound" in code or "NoSuch" in code


def tagged(resource_type: str, properties: Properties, tags: Mapping[str, str]) -> Properties:
    """Return the properties with the stack's tags added; the resource's own tags win.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
    """
    known = resource_types().get(resource_type)
    if not tags or known is None or known.tags is None:
        return properties
    name, own = known.tags.name, properties.get(known.tags.name)
    if known.tags.variant == "map":
        return {**properties, name: {**tags, **(own or {})}}
    extra = {"PropagateAtLaunch": True} if known.tags.variant == "asg" else {}
    taken = {tag["Key"] for tag in own or []}
    added = [{"Key": key, "Value": value, **extra} for key, value in tags.items() if key not in taken]
    return {**properties, name: [*(own or []), *added]}
