"""Hold the faults that are set in the simulator; `fault_requests` receives them through the control route."""

from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, PositiveInt

from embedded_account.hyperpod.errors import HyperPodApiError

ALWAYS: Final = 1_000_000


class Strict(BaseModel):
    """A part of a fault request that refuses unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CallError(Strict):
    """The error that an API call returns, and how many times; `after` means that the call is carried out first."""

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
        """Raise the error that is set for this operation, if any.

        Args:
            operation: The API call.
            after: Whether the call was already carried out.
        """
        fault = self.calls.get(operation)
        if fault is None or fault.after is not after:
            return
        fault.times -= 1
        if fault.times <= 0:
            del self.calls[operation]
        raise HyperPodApiError(
            fault.message or f"{fault.error}: a fault that the rehearsal set on {operation}", fault.error
        )

    def take_creation(self) -> str:
        """Return the FailureMessage for a new cluster and clear the fault; "" if no fault is set."""
        message, self.creation = self.creation, ""
        return message

    def take_update(self) -> str:
        """Return why an update is to be rolled back and clear the fault; "" if no fault is set."""
        message, self.update = self.update, ""
        return message

    def take_deletion(self) -> str:
        """Return the FailureMessage for a deletion and clear the fault; "" if no fault is set."""
        message, self.deletion = self.deletion, ""
        return message

    def take_lifecycle(self, group: str) -> bool:
        """Return whether the lifecycle scripts of a new node of the group fail; each True uses up one failure."""
        return _take(self.lifecycle, group)

    def take_deep_check(self, group: str) -> bool:
        """Return whether the deep health checks of a new node of the group fail; each True uses up one failure."""
        return _take(self.deep_check, group)


def _take(table: dict[str, int], group: str) -> bool:
    if table.get(group, 0) <= 0:
        return False
    table[group] -= 1
    return True
