"""Nobody can become more than docs/operate/permissions.md says."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pytest

from config import Environment, load, load_any
from config.load import EXAMPLES
from ops.policy.documents import documents
from ops.policy.role import PersonRole
from ops.policy.roles import rights
from rehearsal.paths import REPOSITORY
from tests.support import authorization_reference as reference
from tests.unit.ops.policy import escalation
from tests.unit.ops.policy.escalation import World, become, granted

PAGE: Final = REPOSITORY / "docs" / "operate" / "permissions.md"
EVERYTHING: Final = "everything"
"""An environment with what no example asks of people: images of one's own, and MLflow's server."""
EKS: Final = ("small", "dev", "prod", "closed", "existing-vpc", "existing-eks", EVERYTHING)
SLURM: Final = "slurm"
BOOTSTRAP: Final = "all bootstrap roles with any policy"
ALL_BOOTSTRAP: Final = {"`deploy`", "`file-publishing`", "`image-publishing`", "`lookup`"}
MIRRORED: Final = "mirrored images"

every_role = pytest.mark.parametrize("role", PersonRole)


@cache
def environment(name: str) -> Environment:
    if name == EVERYTHING:
        own = load("prod")
        groups = [
            each.model_copy(update={"image_id": "ami-0123456789abcdef0"}) for each in own.hyperpod.instance_groups
        ]
        hyperpod = own.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
        return own.model_copy(update={"hyperpod": hyperpod, "mlflow": "managed"})
    return load_any(name, EXAMPLES) if name in ("closed", SLURM) else load_any(name)


def world(name: str) -> World:
    own = environment(name)
    return World(own, own.model_copy(update={"name": f"{own.name}-2"}))


def policies(name: str, role: PersonRole) -> list[dict[str, Any]]:
    return [each.document for each in documents(role, environment(name))]


def said(role: PersonRole, name: str) -> set[str]:
    """Return whom the role can become, as the page says."""
    section = PAGE.read_text().split("## Whom a role can become", 1)[1]
    [row] = [line for line in section.splitlines() if line.startswith(f"| {role} |")]
    cell = row.strip("| ").split(" | ")[2 if name == SLURM else 1]
    found = set(cell.split(", ")) - {"nobody"}
    if BOOTSTRAP in found:
        found = found - {BOOTSTRAP} | ALL_BOOTSTRAP
    return found if environment(name).image_registry else found - {MIRRORED}


@every_role
@pytest.mark.parametrize("name", [*EKS, SLURM])
def test_nobody_becomes_more_or_less_than_the_page_says(name: str, role: PersonRole) -> None:
    found = become(policies(name, role), world(name), rights(role, environment(name)).access)
    assert set(found) == said(role, name), found


@every_role
@pytest.mark.parametrize("name", [*EKS, SLURM])
def test_each_action_that_changes_something_is_judged(name: str, role: PersonRole) -> None:
    """A new action of a policy is a way of the search, or leads nowhere for a reason."""
    harmless = tuple(escalation.HARMLESS)
    changing = {each for each in granted(policies(name, role)) if _changes(each)}
    assert {each for each in changing - escalation.WAYS if not each.startswith(harmless)} == set()


def test_no_action_is_judged_twice_or_in_vain() -> None:
    changing = {each for name in (*EKS, SLURM) for role in PersonRole for each in granted(policies(name, role))}
    assert {each for each in escalation.HARMLESS if not any(action.startswith(each) for action in changing)} == set()
    assert not escalation.WAYS & escalation.HARMLESS.keys()


def _changes(action: str) -> bool:
    if reference.knows(action):
        return reference.access_level(action) not in {"List", "Read"}
    return not action.partition(":")[2].startswith(("Describe", "Get", "List", "Search"))


def allow(*actions: str, resource: str = "*", **conditions: Mapping[str, str]) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": [resource], "Condition": conditions}
    return {"Version": "2012-10-17", "Statement": [statement]}


@pytest.mark.parametrize("action", escalation.TAKEN_OVER)
def test_each_taking_over_is_found(action: str) -> None:
    assert become([allow(action)], world("dev")) == {escalation.ANYBODY: {action}}


@pytest.mark.parametrize("action", escalation.ON_ROLES)
def test_each_action_on_a_role_is_found(action: str) -> None:
    found = become([allow(action)], world("dev"))
    assert {"an administrator", escalation.RAY, "a bootstrap of another region"} <= set(found)


@pytest.mark.parametrize(
    ("service", "action"), [(service, action) for service, each in escalation.PASSED.items() for action in each]
)
def test_each_passing_on_is_found(service: str, action: str) -> None:
    found = become([allow("iam:PassRole", StringEquals={"iam:PassedToService": service}), allow(action)], world("dev"))
    assert "an administrator" in found
    assert set(become([allow(action)], world("dev"))) <= {escalation.CLOUDFORMATION, escalation.ANYBODY}


def test_patterns_that_are_too_wide_are_found() -> None:
    """These were in the policies once."""
    where = "arn:aws:iam::111122223333:role"
    passing = allow("iam:PassRole", resource=f"{where}/rayhp-dev-hyperpod*")
    assert "the handlers' role" in become([passing, allow("sagemaker:UpdateCluster")], world("dev"))
    bootstrap = become([allow("iam:PutRolePolicy", resource=f"{where}/cdk-hnb659fds-*")], world("dev"))
    assert {"a bootstrap of another region", "a bootstrap's name alike"} <= set(bootstrap)
    cluster = "arn:aws:eks:us-west-2:111122223333"
    entry = allow("eks:CreateAccessEntry", resource=f"{cluster}:cluster/rayhp-dev")
    assert escalation.PODS in become([entry], world("dev"))
    associated = allow("eks:AssociateAccessPolicy", resource=f"{cluster}:access-entry/rayhp-dev/role/111122223333/*")
    assert escalation.PODS in become([associated], world("dev"))


@pytest.mark.parametrize(
    ("action", "resource", "whom"),
    [
        ("s3:PutObject", "arn:aws:s3:::sagemaker-rayhp-dev-*", escalation.NODES),
        ("s3:PutObject", "arn:aws:s3:::cdk-hnb659fds-assets-*", escalation.CLOUDFORMATION),
        ("s3:PutObject", "arn:aws:s3:::rayhp-dev-*", "Ray of another environment"),
        ("ecr:PutImage", "*", "other images"),
        ("cloudformation:ExecuteChangeSet", "*", escalation.CLOUDFORMATION),
        ("ssm:StartSession", "*", escalation.ANYBODY),
    ],
)
def test_each_own_way_is_found(action: str, resource: str, whom: str) -> None:
    assert whom in become([allow(action, resource=resource)], world("dev"))
