"""CloudFormation's own drift detection, for the native resources of every stack."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ops.drift.finding import Drift
from ops.errors import UnreachableError
from ops.stacks import DeployedStack

COMPARABLE: Final = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"}
"""The statuses in which CloudFormation detects drift (AWS docs, detect-drift-stack)."""
_PATIENCE_SECONDS: Final = 900.0
_INTERVAL_SECONDS: Final = 2.0


def resource_drifts(cloudformation: Any, stacks: Sequence[DeployedStack]) -> Iterator[Drift]:
    """Yield each resource that was changed or deleted since its deployment.

    The detections run at the same time. Raises UnreachableError if one fails or takes longer than 15 minutes.
    """
    detections = [
        (stack, cloudformation.detect_stack_drift(StackName=stack.id)["StackDriftDetectionId"]) for stack in stacks
    ]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for stack, detection in detections:
        _await_end(cloudformation, stack, detection, deadline)
        yield from _results(cloudformation, stack)


def _await_end(cloudformation: Any, stack: DeployedStack, detection: str, deadline: float) -> None:
    while True:
        state = cloudformation.describe_stack_drift_detection_status(StackDriftDetectionId=detection)
        if state["DetectionStatus"] == "DETECTION_COMPLETE":
            return
        if state["DetectionStatus"] == "DETECTION_FAILED":
            reason = str(state.get("DetectionStatusReason", "no reason given")).rstrip(".")
            raise UnreachableError(
                f"CloudFormation could not detect the drift of stack {stack.name}: {reason}. "
                "Fix: use credentials that may read what the reason names"
            )
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"CloudFormation still detects the drift of stack {stack.name} after 15 minutes. Fix: try again later"
            )
        time.sleep(_INTERVAL_SECONDS)


def _results(cloudformation: Any, stack: DeployedStack) -> Iterator[Drift]:
    request: dict[str, Any] = {"StackName": stack.id, "StackResourceDriftStatusFilters": ["MODIFIED", "DELETED"]}
    while True:
        page = cloudformation.describe_stack_resource_drifts(**request)
        for each in page["StackResourceDrifts"]:
            name = f"{stack.name}/{each['LogicalResourceId']}"
            if not _is_only_spelt_differently(each):
                yield Drift(each["ResourceType"], name, _detail(each))
        if "NextToken" not in page:
            return
        request["NextToken"] = page["NextToken"]


def _is_only_spelt_differently(drift: Mapping[str, Any]) -> bool:
    """Return whether each difference of the resource is one JSON document in two spellings.

    The template of a role may give its trust policy as text (schema of AWS::IAM::Role); AWS reads it back as an object.
    """
    differences = drift.get("PropertyDifferences", ())
    return bool(differences) and all(
        (deployed := _document(each["ExpectedValue"])) is not None and deployed == _document(each["ActualValue"])
        for each in differences
    )


def _document(value: str) -> dict[str, Any] | None:
    """Return the JSON object that the value spells, or None if it spells none."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _detail(drift: Mapping[str, Any]) -> str:
    """Return the differing properties' paths with both values: `was deployed` first."""
    if drift["StackResourceDriftStatus"] == "DELETED":
        return f"{drift.get('PhysicalResourceId', 'it')} is deleted"
    return "; ".join(
        f"{each['PropertyPath']} is {each['ActualValue']}, deployed {each['ExpectedValue']}"
        for each in drift.get("PropertyDifferences", ())
    )
