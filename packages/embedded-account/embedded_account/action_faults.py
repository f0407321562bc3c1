"""Describe the faults that a test plans for actions of CloudFormation on resources (`Account.action_faults`)."""

from dataclasses import dataclass
from typing import Final, Literal

Action = Literal["create", "update", "delete"]
Moment = Literal["before", "after"]
"""Whether the action fails before it has an effect, or after its whole effect."""
Kind = Literal["error", "hang", "throttle"]

ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "delete")
MOMENTS: Final[tuple[Moment, ...]] = ("before", "after")
KINDS: Final[tuple[Kind, ...]] = ("error", "hang", "throttle")

_ANSWERS: Final[dict[Kind, tuple[str, str]]] = {
    "error": ("The service failed on purpose (Status Code: 500)", "GeneralServiceException"),
    "hang": ("The resource did not stabilize", "NotStabilized"),
    "throttle": ("Rate exceeded (Status Code: 429)", "Throttling"),
}
"""What the resource's handler answers, and its error code.

Source: CloudFormation CLI user guide, "Handler error codes".
"""
_SECONDS: Final[dict[Kind, float]] = {"error": 0.0, "hang": 7200.0, "throttle": 300.0}
"""The simulated time until the answer: a handler may take two hours; CloudFormation retries a throttled one first."""


@dataclass
class ActionFault:
    """A fault of the next `times` actions of this kind on resources of this type.

    With `logical_id`, only of this resource.
    """

    type: str
    action: Action
    moment: Moment
    kind: Kind
    logical_id: str = ""
    times: int = 1

    @property
    def message(self) -> str:
        """The reason that CloudFormation shows."""
        text, code = _ANSWERS[self.kind]
        return f'Resource handler returned message: "{text}" (HandlerErrorCode: {code})'

    @property
    def seconds(self) -> float:
        """How many simulated seconds pass until the action fails."""
        return _SECONDS[self.kind]
