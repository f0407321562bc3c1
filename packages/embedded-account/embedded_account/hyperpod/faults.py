"""The faults that are set in the simulator; `fault_requests` takes them from the control route."""

from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, PositiveInt

from embedded_account.hyperpod.errors import ApiError

ALWAYS: Final = 1_000_000


class Strict(BaseModel):
    """A part of a fault request: unknown keys and other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CallError(Strict):
    """How a call is refused."""

    error: str
    message: str = ""
    times: PositiveInt = ALWAYS
    after: bool = False


@dataclass
class Faults:
    """The faults that are set."""

    capacity: dict[str, int] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=dict)
    calls: dict[str, CallError] = field(default_factory=dict)
    creation: str = ""
    update: str = ""
    deletion: str = ""
    lag_minutes: float = 0
    lifecycle: dict[str, int] = field(default_factory=dict)
    deep_check: dict[str, int] = field(default_factory=dict)

    def raise_for(self, operation: str, *, after: bool) -> None:
        """Raise the error that is set for this call at this moment, if any."""
        fault = self.calls.get(operation)
        if fault is None or fault.after is not after:
            return
        fault.times -= 1
        if fault.times <= 0:
            del self.calls[operation]
        raise ApiError(fault.message or f"{fault.error}, as the rehearsal was asked to answer {operation}", fault.error)

    def take_creation(self) -> str:
        """The FailureMessage of the cluster that is being created, "" when it may succeed."""
        message, self.creation = self.creation, ""
        return message

    def take_update(self) -> str:
        """Why the update that begins is taken back, "" when it may succeed."""
        message, self.update = self.update, ""
        return message

    def take_deletion(self) -> str:
        """The FailureMessage of the deletion that begins, "" when it may succeed."""
        message, self.deletion = self.deletion, ""
        return message

    def take_lifecycle(self, group: str) -> bool:
        """Whether the lifecycle scripts of a new node of the group fail."""
        return _take(self.lifecycle, group)

    def take_deep_check(self, group: str) -> bool:
        """Whether the deep health checks of a new node of the group fail."""
        return _take(self.deep_check, group)


def _take(table: dict[str, int], group: str) -> bool:
    if table.get(group, 0) <= 0:
        return False
    table[group] -= 1
    return True
