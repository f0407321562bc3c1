"""Detect drift: compare what stacks declare with what the services have.

A model that can read its resource back defines `live`. Resources of other models are NOT_CHECKED, and so is their
stack, unless something in it has drifted. Custom resources do not appear in the results, as on AWS.
"""

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.models import ModelHandle
from embedded_account.cloudformation.stack import Stack, StackResource, now
from embedded_account.errors import reason_of
from embedded_account.services.shared.resource_model import ResourceModel

_DETECTABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"}

Answer = dict[str, Any]


@dataclass
class Detection:
    """One detection. `status` is DETECTION_IN_PROGRESS until its thread has read every resource."""

    stack: Stack
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: datetime = field(default_factory=now)
    status: Literal["DETECTION_IN_PROGRESS", "DETECTION_COMPLETE", "DETECTION_FAILED"] = "DETECTION_IN_PROGRESS"
    reason: str | None = None
    drifts: list[Answer] = field(default_factory=list)

    def run(self) -> None:
        """Read the stack's resources back and compare them."""
        try:
            self.drifts = list(_drifts(self.stack))
            self.status = "DETECTION_COMPLETE"
        except Exception as error:  # noqa: BLE001 - a detection that fails says so
            self.reason, self.status = reason_of(error), "DETECTION_FAILED"

    def describe(self) -> Answer:
        """Return the answer of DescribeStackDriftDetectionStatus."""
        answer = {
            "StackId": self.stack.stack_id,
            "StackDriftDetectionId": self.id,
            "DetectionStatus": self.status,
            "Timestamp": self.started,
        }
        if self.reason:
            answer["DetectionStatusReason"] = self.reason
        if self.status == "DETECTION_COMPLETE":
            found = [each["StackResourceDriftStatus"] for each in self.drifts]
            drifted = sum(status in {"MODIFIED", "DELETED"} for status in found)
            rest = "NOT_CHECKED" if "NOT_CHECKED" in found else "IN_SYNC"
            answer |= {"StackDriftStatus": "DRIFTED" if drifted else rest, "DriftedStackResourceCount": drifted}
        return answer


class Detections:
    """The detections of an account, and the latest results of each stack."""

    def __init__(self) -> None:
        self._known: dict[str, Detection] = {}
        self._latest: dict[str, Detection] = {}

    def start(self, stack: Stack) -> Detection:
        """Start a detection in a thread. Raises RefusedCallError if the stack's status does not allow one."""
        if stack.status not in _DETECTABLE:
            raise invalid(
                f"Drift detection cannot be performed on stack [{stack.stack_id}] while it's in {stack.status} state."
            )
        if (running := self._latest.get(stack.stack_id)) and running.status == "DETECTION_IN_PROGRESS":
            raise invalid(f"Drift detection is already in progress for stack [{stack.stack_id}]")
        detection = Detection(stack)
        self._known[detection.id] = self._latest[stack.stack_id] = detection
        threading.Thread(target=detection.run, name=f"drift-{stack.name}", daemon=True).start()
        return detection

    def get(self, id: str) -> Detection:
        """Return a detection by its id. Raises RefusedCallError if there is none."""
        if id not in self._known:
            raise invalid(f"Stack drift detection id {id} does not exist")
        return self._known[id]

    def results(self, stack: Stack) -> list[Answer]:
        """Return the entries of DescribeStackResourceDrifts that the latest detection found."""
        latest = self._latest.get(stack.stack_id)
        return latest.drifts if latest else []


def _drifts(stack: Stack) -> Iterator[Answer]:
    for resource in list(stack.resources.values()):
        if not isinstance(resource.handle, ModelHandle):
            continue
        model = resource.handle.model
        yield {
            "StackId": stack.stack_id,
            "LogicalResourceId": resource.logical_id,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": resource.type,
            "Timestamp": now(),
            **({"StackResourceDriftStatus": "NOT_CHECKED"} if _is_unread(model) else _compared(resource, model.live())),
        }


def _is_unread(model: ResourceModel) -> bool:
    return type(model).live is ResourceModel.live


def _compared(resource: StackResource, live: Mapping[str, Any] | None) -> Answer:
    if live is None:
        return {"StackResourceDriftStatus": "DELETED", "PropertyDifferences": []}
    expected = {name: resource.properties.get(name) for name in live}
    differences = list(_differences(expected, live))
    return {
        "StackResourceDriftStatus": "MODIFIED" if differences else "IN_SYNC",
        "PropertyDifferences": differences,
        "ExpectedProperties": json.dumps(expected),
        "ActualProperties": json.dumps(dict(live)),
    }


def _differences(expected: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Answer]:
    """Yield each declared property that differs: what the template leaves open is not compared, as on AWS."""
    for name in sorted(live):
        if expected[name] is None or expected[name] == live[name]:
            continue
        yield {
            "PropertyPath": f"/{name}",
            "ExpectedValue": _text(expected[name]),
            "ActualValue": _text(live[name]),
            "DifferenceType": "REMOVE" if live[name] is None else "NOT_EQUAL",
        }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
