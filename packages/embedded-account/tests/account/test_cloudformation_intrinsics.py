"""Test the intrinsic functions, without an account."""

from typing import Any

import pytest

from embedded_account.cloudformation.faults import RefusedCallError
from embedded_account.cloudformation.templates.dependencies import reverse, walk
from embedded_account.cloudformation.templates.intrinsics import NOT_YET_KNOWN, Intrinsics, Reference
from embedded_account.cloudformation.templates.physical_names import physical_name

TEMPLATE: dict[str, Any] = {
    "Mappings": {"Sizes": {"small": {"Nodes": 2}}},
    "Conditions": {"Yes": {"Fn::Equals": ["a", {"Ref": "P"}]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}},
    "Resources": {},
}
VALUES = {"P": "a", "L": ["x", "y"], "AWS::Region": "us-west-2"}


class World:
    def ref(self, logical_id: str) -> str:
        return NOT_YET_KNOWN if logical_id == "New" else f"id-of-{logical_id}"

    def attribute(self, logical_id: str, name: str) -> str:
        return NOT_YET_KNOWN if logical_id == "New" else f"{name}-of-{logical_id}"

    def imported(self, export_name: str) -> str:
        return f"value-of-{export_name}"

    def availability_zones(self, region: str) -> list[str]:
        return [f"{region}a", f"{region}b"]

    def dynamic(self, reference: str) -> str:
        return reference.strip("{}").split(":")[-1].upper()


def resolve(value: Any) -> Any:
    return Intrinsics(TEMPLATE, VALUES, World()).resolve(value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"Ref": "P"}, "a"),
        ({"Ref": "R"}, "id-of-R"),
        ({"Fn::GetAtt": ["R", "A.B"]}, "A.B-of-R"),
        ({"Fn::GetAtt": "R.A.B"}, "A.B-of-R"),
        ({"Fn::Join": ["-", ["a", {"Ref": "R"}, 3, True]]}, "a-id-of-R-3-true"),
        ({"Fn::Join": [",", {"Ref": "L"}]}, "x,y"),
        ({"Fn::Sub": "${P}/${R}/${R.Arn}/${!P}/$P"}, "a/id-of-R/Arn-of-R/${P}/$P"),
        ({"Fn::Sub": ["${V}-${P}", {"V": {"Ref": "R"}}]}, "id-of-R-a"),
        ({"Fn::Select": ["1", {"Fn::Split": ["/", "a/b/c"]}]}, "b"),
        ({"Fn::If": ["Yes", 1, 2]}, 1),
        ({"Fn::If": ["No", 1, 2]}, 2),
        ({"Fn::FindInMap": ["Sizes", "small", "Nodes"]}, 2),
        ({"Fn::FindInMap": ["Sizes", "huge", "Nodes", {"DefaultValue": 9}]}, 9),
        ({"Fn::ImportValue": {"Fn::Sub": "${P}:export"}}, "value-of-a:export"),
        ({"Fn::GetAZs": ""}, ["us-west-2a", "us-west-2b"]),
        ({"Fn::Base64": "abc"}, "YWJj"),
        ({"Fn::Cidr": ["10.0.0.0/16", 2, 12]}, ["10.0.0.0/20", "10.0.16.0/20"]),
        ({"Fn::ToJsonString": {"a": {"Ref": "P"}}}, '{"a": "a"}'),
        ({"Fn::Length": {"Ref": "L"}}, 2),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [{"Ref": "AWS::NoValue"}, 1]}, {"b": [1]}),
        ("x-{{resolve:ssm:name}}", "x-NAME"),
        # An object with two keys is not a function call. A Condition with an object is one of an IAM policy.
        ({"Ref": "P", "Other": 1}, {"Ref": "P", "Other": 1}),
        ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
    ],
)
def test_function_resolves_to_its_value(value: Any, result: Any) -> None:
    assert resolve(value) == result


@pytest.mark.parametrize(
    "value",
    [
        {"Fn::Join": ["-", ["a", {"Ref": "New"}]]},
        {"Fn::Sub": "arn:${New.Arn}"},
        {"Fn::Select": [3, {"Fn::Split": ["/", {"Ref": "New"}]}]},
        {"Fn::Select": [0, {"Fn::GetAtt": ["New", "List"]}]},
        {"Fn::Join": [",", {"Fn::GetAtt": ["New", "List"]}]},
    ],
)
def test_value_that_depends_on_an_unknown_value_is_unknown(value: Any) -> None:
    assert NOT_YET_KNOWN in resolve(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"Fn::Nothing": 1}, "unsupported intrinsic function Fn::Nothing"),
        ({"Fn::FindInMap": ["Sizes", "huge", "Nodes"]}, "Unable to get mapping for Sizes::huge::Nodes"),
        ({"Fn::Select": [5, ["a"]]}, "nonexistent value at index 5"),
        ({"Fn::If": ["Yes", 1]}, "three elements"),
        ({"Fn::If": ["Maybe", 1, 2]}, "Unresolved condition Maybe"),
        ({"Fn::Join": ["-", "abc"]}, "every Fn::Join object requires"),
        ({"Fn::GetAtt": ["R"]}, "every Fn::GetAtt object requires"),
    ],
)
def test_wrong_use_of_a_function_is_refused(value: Any, why: str) -> None:
    with pytest.raises(RefusedCallError, match=why):
        resolve(value)


def test_references_follow_the_branch_that_is_taken() -> None:
    value = {"Fn::If": ["Yes", {"Fn::Sub": ["${A.X}${V}", {"V": {"Ref": "B"}}]}, {"Ref": "C"}]}
    found = set(Intrinsics(TEMPLATE, VALUES, World()).references(value))
    assert found == {Reference("A", "X"), Reference("B", None)}


def test_walk_leaves_out_what_depends_on_a_failure() -> None:
    done: list[str] = []

    def act(node: str) -> None:
        if node == "bad":
            raise ValueError(node)
        done.append(node)

    graph = {"bad": [], "after": ["bad"], "later": ["after"], "free": []}
    assert set(walk(graph, act, stop_on_failure=False)) == {"bad"}
    assert done == ["free"]
    assert reverse(graph) == {"bad": {"after"}, "after": {"later"}, "later": set(), "free": set()}


def test_generated_names_keep_to_the_types_limits() -> None:
    role = physical_name("AWS::IAM::Role", "a-very-long-stack-name-of-an-environment", "ALogicalIdThatIsLongToo" * 2)
    assert len(role) == 64
    bucket = physical_name("AWS::S3::Bucket", "Stack", "Data")
    assert bucket.startswith("stack-data-")
    assert bucket == bucket.lower()
