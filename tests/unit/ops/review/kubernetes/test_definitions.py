"""What a changed definition takes from the objects of its kind, and which checks it drops."""

from typing import Any

import pytest

from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.definitions import review_definition
from ops.review.model import Danger

CONTEXT = RuleContext("dev", {}, {})
LOSS, LOOSER = {Danger.DATA_LOSS}, {Danger.LOOSER_ISOLATION}
OPEN = "x-kubernetes-preserve-unknown-fields"


def definition(field: dict[str, Any] | None, **version: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"a": field} if field else {}}
    schema = {"openAPIV3Schema": {"properties": {"spec": spec}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}]
    return {"spec": {"group": "ray.io", "names": {"kind": "A", "plural": "as"}, "versions": versions}}


@pytest.mark.parametrize(
    ("before", "after", "dangers"),
    [
        ({"type": "string"}, None, LOSS),
        (None, {"type": "string"}, set()),
        ({"type": "string"}, {"type": "integer"}, LOSS),
        ({"type": "object", OPEN: True}, {"type": "object"}, LOSS),
        ({"type": "object", "properties": {"b": {}}}, {"type": "object", OPEN: True}, set()),
        ({"enum": ["x", "y"]}, {"enum": ["x"]}, set()),
        ({"enum": ["x"]}, {"enum": ["x", "y"]}, LOOSER),
        ({"required": ["x"]}, {"required": ["x", "y"]}, set()),
        ({"required": ["x"]}, {"required": []}, LOOSER),
        ({"minimum": 1}, {"minimum": 2}, set()),
        ({"minimum": 1}, {"minimum": 0}, LOOSER),
        ({"maxLength": 5}, {"maxLength": 9}, LOOSER),
        ({"type": "string", "pattern": "a+"}, {"type": "string"}, LOOSER),
        ({"description": "x"}, {"description": "y"}, set()),
    ],
)
def test_a_changed_field_has_its_danger(
    before: dict[str, Any] | None, after: dict[str, Any] | None, dangers: set[Danger]
) -> None:
    found = review_definition(definition(before), definition(after), CONTEXT)
    assert {danger for each in found for danger in each.dangers} == dangers


def test_a_status_that_is_no_subresource_any_more() -> None:
    sides = (definition({}, subresources={"status": {}}), definition({}))
    assert {danger for each in review_definition(*sides, CONTEXT) for danger in each.dangers} == LOOSER
