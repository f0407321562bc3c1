"""Carry out single actions on the resources of one stack, and record them as events and in the journal."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from embedded_account.cloudformation.handlers import LeftBehindError, Properties, ResourceHandler, Target
from embedded_account.cloudformation.stack import Handle, Stack, StackResource
from embedded_account.cloudformation.templates.dependencies import reverse, walk
from embedded_account.errors import ResourceError, reason_of

if TYPE_CHECKING:
    from embedded_account.context import Account

Result = TypeVar("Result")

CANCELLED = {"CREATE": "Resource creation cancelled", "UPDATE": "Resource update cancelled"}
"""CloudFormation's reason for resources whose action was running when another resource failed."""

CLEAN_UP_ATTEMPTS = 3
"""How often CloudFormation tries to delete a resource after an update, before it skips the resource.

Source: CloudFormation user guide, "Troubleshooting CloudFormation", "Resource removed from stack but not deleted".
"""

_log = logging.getLogger(__name__)


@dataclass
class Actions:
    """Carries out actions on the resources of one stack. Thread-safe.

    `role_arn` is the role that the stack was given (CDK's execution role); it is written to the journal.
    """

    account: "Account"
    handler_for: Callable[[str], ResourceHandler]
    stack: Stack
    tags: Mapping[str, str]
    role_arn: str | None
    failed: bool = False
    """Whether an action has failed: what runs then is cancelled, and nothing that depends on it may start."""
    _running: dict[int, tuple[StackResource, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, resource: StackResource, *, verb: str = "CREATE") -> None:
        """Create `resource`. It has a handle afterwards, in some cases also after a failure.

        `verb` is UPDATE for the new resource of a replacement, as in CloudFormation's events.
        """
        handler = self.handler_for(resource.type)

        def make() -> None:
            try:
                resource.handle = handler.create(self._target(resource), resource.properties)
            except LeftBehindError as failure:
                resource.handle = failure.handle
                raise
            if verb == "CREATE" and not self._is_cancelled(resource):
                self.stack.set_resource_status(resource, "CREATE_IN_PROGRESS", "Resource creation Initiated")

        why = None
        if verb == "UPDATE":
            why = "Requested update requires the creation of a new physical resource; hence creating one."
        self._act(verb, resource, make, why)

    def update(self, resource: StackResource, old: Properties) -> None:
        """Update `resource`, which has the old handle and the new properties."""
        handler, before = self.handler_for(resource.type), _handle(resource)

        def change() -> None:
            target = self._target(resource)
            try:
                resource.handle = handler.update(target, before, old, resource.properties)
            except LeftBehindError as failure:
                resource.handle = failure.handle
                raise

        self._act("UPDATE", resource, change)

    def delete(self, resources: list[StackResource], keep: Callable[[StackResource], bool]) -> list[StackResource]:
        """Delete resources, each after those that depend on it; return those that remain in the stack.

        These could not be deleted, or one that depends on them could not. Resources for which `keep` returns true stay
        in the account; the stack forgets them.
        """
        gone: set[int] = set()

        def delete(index: int) -> None:
            self._delete_one(resources[index], keep)
            gone.add(index)

        walk(reverse(_needs(resources)), delete, stop_on_failure=False)
        return [resource for index, resource in enumerate(resources) if index not in gone]

    def clean_up(self, resources: list[StackResource], keep: Callable[[StackResource], bool]) -> bool:
        """Delete resources after an update or its rollback, in the same order; return whether all could be deleted.

        A resource that cannot be deleted is tried again, and skipped in the end: then those that it needs are tried.
        """
        skipped: set[int] = set()

        def delete(index: int) -> None:
            for _ in range(CLEAN_UP_ATTEMPTS):
                with suppress(ResourceError):
                    self._delete_one(resources[index], keep)
                    return
            skipped.add(index)

        walk(reverse(_needs(resources)), delete, stop_on_failure=False)
        return not skipped

    def _delete_one(self, resource: StackResource, keep: Callable[[StackResource], bool]) -> None:
        handle = resource.handle
        # A second deletion of a stack comes to what the first one deleted: a function must get one Delete only.
        if handle is None or resource.status == "DELETE_COMPLETE":
            return
        if keep(resource):
            self.stack.set_resource_status(resource, "DELETE_SKIPPED")
            return
        handler = self.handler_for(resource.type)
        self._act("DELETE", resource, lambda: handler.delete(self._target(resource), handle, resource.properties))

    def _act(self, verb: str, resource: StackResource, action: Callable[[], Any], why: str | None = None) -> None:
        """Run one action between its events. Raises ResourceError with the reason, whatever the action raised."""
        self.stack.set_resource_status(resource, f"{verb}_IN_PROGRESS", why)
        with self._lock:
            self._running[id(resource)] = (resource, verb)
        start = self.account.clock.now().timestamp()
        try:
            action()
        except Exception as error:
            reason = reason_of(error)
            _log.info("%s %s %s: %s", self.stack.name, verb, resource.logical_id, reason, exc_info=error)
            self._finish(resource, verb, f"{verb}_FAILED", reason, start)
            if verb != "DELETE":
                self._cancel_running()
            raise ResourceError(reason) from error
        self._finish(resource, verb, f"{verb}_COMPLETE", None, start)

    def _finish(self, resource: StackResource, verb: str, status: str, reason: str | None, start: float) -> None:
        with self._lock:
            was_cancelled = self._running.pop(id(resource), None) is None
        if not was_cancelled:
            self.stack.set_resource_status(resource, status, reason)
        self.account.journal.record(
            "cfn",
            stack=self.stack.name,
            logical_id=resource.logical_id,
            type=resource.type,
            physical_id=resource.physical_id,
            action=verb,
            status=status,
            reason=reason,
            start=start,
            end=self.account.clock.now().timestamp(),
            waited_for=sorted(resource.depends_on),
            role=self.role_arn,
        )

    def _cancel_running(self) -> None:
        """Mark all running actions as cancelled. They are still waited for and then rolled back."""
        with self._lock:
            self.failed = True
            cancelled = list(self._running.values())
            self._running.clear()
        for resource, verb in cancelled:
            self.stack.set_resource_status(resource, f"{verb}_FAILED", CANCELLED.get(verb))

    def _is_cancelled(self, resource: StackResource) -> bool:
        with self._lock:
            return id(resource) not in self._running

    def _target(self, resource: StackResource) -> Target:
        return Target(self.stack.stack_id, self.stack.name, resource.logical_id, resource.type, self.tags)


def _needs(resources: list[StackResource]) -> dict[int, set[int]]:
    """Return for each resource, by its index, those of the list on which it depends."""
    by_id: dict[str, list[int]] = {}
    for index, resource in enumerate(resources):
        by_id.setdefault(resource.logical_id, []).append(index)
    return {
        index: {other for name in resource.depends_on for other in by_id.get(name, [])}
        for index, resource in enumerate(resources)
    }


def _handle(resource: StackResource) -> Handle:
    if resource.handle is None:
        raise ResourceError(f"{resource.logical_id} does not exist")
    return resource.handle
