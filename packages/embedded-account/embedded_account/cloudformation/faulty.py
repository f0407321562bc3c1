"""Let planned actions fail, before or after their effect, as the services behind them do."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from embedded_account.action_faults import Action, ActionFault
from embedded_account.cloudformation.handlers import LeftBehindError, Properties, ResourceHandler, Target
from embedded_account.cloudformation.stack import Handle
from embedded_account.errors import ResourceError

if TYPE_CHECKING:
    from embedded_account.context import Account

_LOCK: Final = threading.Lock()
"""Resources that do not depend on each other are worked on at once."""


@dataclass(frozen=True)
class FaultyHandler:
    """A handler whose actions fail as `account.action_faults` says."""

    handler: ResourceHandler
    account: "Account"

    def create(self, target: Target, properties: Properties) -> Handle:
        fault = self._planned("create", target)
        handle = self.handler.create(target, properties)
        self._fail_after(fault, handle)
        return handle

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        fault = self._planned("update", target)
        updated = self.handler.update(target, handle, old, new)
        self._fail_after(fault, updated)
        return updated

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        fault = self._planned("delete", target)
        self.handler.delete(target, handle, properties)
        self._fail_after(fault, handle)

    def _planned(self, action: Action, target: Target) -> ActionFault | None:
        """Return the fault to raise after the action's effect, or None; raise one that comes before it."""
        with _LOCK:
            fault = next((each for each in self.account.action_faults if _is_of(each, action, target)), None)
            if fault is None:
                return None
            fault.times -= 1
        if fault.moment == "after":
            return fault
        self.account.clock.sleep(fault.seconds)
        raise ResourceError(fault.message)

    def _fail_after(self, fault: ActionFault | None, handle: Handle) -> None:
        if fault:
            self.account.clock.sleep(fault.seconds)
            raise LeftBehindError(fault.message, handle)


def _is_of(fault: ActionFault, action: Action, target: Target) -> bool:
    return (
        fault.times > 0
        and (fault.type, fault.action) == (target.type, action)
        and fault.logical_id in {"", target.logical_id}
    )
