"""Test that the shipped constraints are those of the locked cfn-lint, and what they refuse and leave alone."""

from typing import Any

import pytest

from embedded_account.cloudformation.templates import constraints
from embedded_account.cloudformation.templates.intrinsics import NOT_YET_KNOWN
from embedded_account.errors import ResourceError
from tests.account.registry_constraints import file_text


def test_shipped_file_is_that_of_the_locked_version() -> None:
    assert constraints.FILE.read_text() == file_text(), "run `make constraints`"


@pytest.mark.parametrize(
    ("properties", "broken"),
    [
        ({"RetentionInDays": 6}, [("#/RetentionInDays", "enum")]),
        ({"RetentionInDays": "7"}, []),
        ({"LogGroupName": "a b"}, [("#/LogGroupName", "pattern")]),
        ({"LogGroupName": f"{NOT_YET_KNOWN} b"}, []),
        ({"LogGroupName": "{{resolve:ssm:/name}}"}, []),
        ({"Tags": [{"Key": "", "Value": "v"}]}, [("#/Tags/0/Key", "minLength")]),
        ({"Tags": [{"Key": "a", "Value": "v"}] * 2}, [("#/Tags", "uniqueItems")]),
        ({"DeletionProtectionEnabled": "true"}, []),
        ({"DeletionProtectionEnabled": "often"}, [("#/DeletionProtectionEnabled", "type")]),
    ],
)
def test_each_broken_keyword_is_named_with_its_path(properties: dict[str, Any], broken: list[tuple[str, str]]) -> None:
    problems = constraints.problems("AWS::Logs::LogGroup", properties)
    found = [(path, text.split("[")[1].split("]")[0]) for path, text in problems]
    assert found == broken


def test_type_without_constraints_has_no_problem() -> None:
    assert list(constraints.problems("Example::Of::Stranger", {"A": 1})) == []


def test_refusal_names_the_resource_and_what_is_allowed() -> None:
    with pytest.raises(
        ResourceError, match=r"resource R with message:\n#/MaxSessionDuration: .*\[maximum\]. Allowed: 43200"
    ):
        constraints.check("R", "AWS::IAM::Role", {"MaxSessionDuration": 43201})
