"""The rules across environments: no two environments share a physical name."""

from typing import Any

import pytest

from config import Environment, load
from config.findings import Severity
from config.model import Company
from config.rules import findings_beside

DEV, PROD = load("dev"), load("prod")


def beside(**update: Any) -> list[str]:
    """Return the findings for an updated prod, checked against dev."""
    return [str(finding) for finding in findings_beside(_updated(PROD, update), [DEV, PROD])]


def _updated(model: Any, update: dict[str, Any]) -> Any:
    fields = {
        key: _updated(getattr(model, key), value) if isinstance(value, dict) else value for key, value in update.items()
    }
    return model.model_copy(update=fields)


@pytest.mark.parametrize("environment", [DEV, PROD], ids=lambda environment: environment.name)
def test_committed_environments_share_nothing(environment: Environment) -> None:
    assert findings_beside(environment, [DEV, PROD, load("small")]) == []


@pytest.mark.parametrize(
    ("update", "finding"),
    [
        (
            {"hyperpod": {"cluster_name": "ml-cluster"}},
            "hyperpod.cluster_name: 'ml-cluster' is invalid: environment 'dev' already uses it in this "
            "account and region, and SageMaker has one cluster of a name. "
            "Allowed: a name that no other environment has. Fix: choose another name. [V64]",
        ),
        (
            {"image": {"repository": "aws-ray-custom"}},
            "image.repository: 'aws-ray-custom' is invalid: environment 'dev' already uses it in this "
            "account and region, and each storage stack makes its own repository. "
            "Allowed: a name that no other environment has. Fix: choose another name. [V64]",
        ),
    ],
)
def test_a_shared_name_is_an_error(update: dict[str, Any], finding: str) -> None:
    assert beside(**update) == [finding]


def test_names_must_be_unique_only_within_an_account_and_region() -> None:
    assert beside(hyperpod={"cluster_name": "ml-cluster"}, account="444455556666") == []
    assert beside(hyperpod={"cluster_name": "ml-cluster"}, region="us-east-1") == []


def test_project_and_name_that_make_one_name_are_an_error() -> None:
    other = DEV.model_copy(update={"project": "rayhp-x", "name": "y"})
    mine = PROD.model_copy(update={"project": "rayhp", "name": "x-y"})
    [finding] = [each for each in findings_beside(mine, [other]) if each.key == "project"]
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(None, "acme-{environment}-{name}"), ("{environment}-x-{name}", "{environment}-{project}-{name}")],
)
def test_one_tag_or_one_pattern_of_two_environments_is_an_error(mine: str | None, theirs: str) -> None:
    """The tag is made of project and name also where a pattern keeps all names apart."""
    patterns = [Company(name_pattern=each) for each in (mine, theirs)]
    other = DEV.model_copy(update={"project": "rayhp-x", "name": "y", "company": patterns[1]})
    own = PROD.model_copy(update={"project": "rayhp", "name": "x-y", "company": patterns[0]})
    [finding] = [each for each in findings_beside(own, [other]) if each.key == "project"]
    assert (finding.rule, finding.severity) == ("V64", Severity.ERROR)


def test_overlapping_blocks_are_a_warning_that_can_be_accepted() -> None:
    network = PROD.network.model_copy(update={"vpc_cidr": DEV.network.vpc_cidr})
    mine = PROD.model_copy(update={"network": network})
    [finding] = findings_beside(mine, [DEV])
    assert (finding.rule, finding.severity, finding.accepted) == ("V65", Severity.WARNING, "")
    [finding] = findings_beside(mine.model_copy(update={"accepted_warnings": {"V65": "never peered"}}), [DEV])
    assert finding.accepted == "never peered"
