"""A change set as the account keeps it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from embedded_account.cloudformation.stack import Desired, Stack, now

Change = dict[str, Any]
"""A ResourceChange of DescribeChangeSet, with property values."""


@dataclass
class ChangeSet:
    """A change set of one stack. `changes` is what CloudFormation's API calls ResourceChange."""

    name: str
    stack: Stack
    type: str
    desired: Desired
    changes: list[Change]
    change_set_id: str
    status: str = "CREATE_COMPLETE"
    status_reason: str | None = None
    execution_status: str = "AVAILABLE"
    description: str | None = None
    created: datetime = field(default_factory=now)
