"""Promises of the stack of the workflows' roles."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import DefaultStackSynthesizer

from config import Environment, load, naming
from config.facts import support
from config.model import Notifications
from stacks.delivery.permissions import detect_drift
from stacks.delivery.stack import ISSUER, DeliveryStack
from tests.support.checkov import check, places
from tests.synth.support.cfn_lint import findings
from tests.synth.support.synthesis import REPOSITORY, Assemblies, Template, context

REPO = "example-org/rayhp"
BOUNDARY = "arn:aws:iam::111122223333:policy/Boundary"


def synthesise(directory: Path, *, creates_provider: bool = True, boundary: str | None = None) -> Template:
    """Return the delivery stack's template; findings of CDK's template rules and of cdk-nag raise."""
    app = cdk.App(
        analytics_reporting=False, builtin_cloud_formation_validation=True, context=context(), outdir=str(directory)
    )
    stack = DeliveryStack(app, environment=load("dev"), repository=REPO, creates_provider=creates_provider)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    app.synth()
    return Template(json.loads((directory / f"{stack.stack_name}.template.json").read_text()))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesise(tmp_path_factory.mktemp("delivery"))


def roles(template: Template) -> dict[str, dict[str, Any]]:
    """Return the roles' properties by the GitHub environment that they trust."""
    found = {}
    for role in template.properties("AWS::IAM::Role"):
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        subject = trust["Condition"]["StringEquals"][f"{ISSUER}:sub"]
        found[subject.rpartition(":")[2]] = role
    return found


def actions(role: dict[str, Any]) -> set[str]:
    [policy] = role["Policies"]
    listed = (statement["Action"] for statement in policy["PolicyDocument"]["Statement"])
    return {action for each in listed for action in ([each] if isinstance(each, str) else each)}


def test_only_jobs_of_one_repository_and_environment_are_trusted(template: Template) -> None:
    assert set(roles(template)) == {"dev", "dev-read"}
    for name, role in roles(template).items():
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
        # StringEquals knows no wildcard.
        assert trust["Condition"] == {
            "StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com", f"{ISSUER}:sub": f"repo:{REPO}:environment:{name}"}
        }


def test_deployment_acts_through_the_roles_of_the_bootstrap_alone(template: Template) -> None:
    deploy = roles(template)["dev"]
    [assume] = [s for s in deploy["Policies"][0]["PolicyDocument"]["Statement"] if s["Action"] == "sts:AssumeRole"]
    roots = [f"cdk-hnb659fds-{role}-role" for role in ("deploy", "file-publishing", "lookup")]
    assert assume["Resource"] == [f"arn:aws:iam::111122223333:role/{root}-111122223333-us-west-2" for root in roots]
    assert all(reads(action) for action in actions(deploy) - {"sts:AssumeRole"})


@pytest.mark.parametrize("name", ["dev", "dev-read"])
def test_only_the_environments_own_stacks_are_named(template: Template, name: str) -> None:
    """`rayhp-dev-*` would also be the stacks of an environment `dev-2`."""
    given = json.dumps(roles(template)[name]["Policies"])
    found = set(re.findall(r":stack/([^/]+)/", given))
    assert found == {naming.stack(load("dev"), part) for part in naming.STACKS}


def test_look_for_drift_only_reads(template: Template) -> None:
    detects = {"cloudformation:DetectStackDrift", "cloudformation:DetectStackResourceDrift"}
    assert [action for action in actions(roles(template)["dev-read"]) - detects if not reads(action)] == []
    # What buckets and images hold, and the credentials of registries, are no descriptions.
    private = {"s3:GetObject", "ecr:GetDownloadUrlForLayer", "ecr:GetAuthorizationToken", "secretsmanager:*"}
    assert not private & actions(roles(template)["dev-read"])


def test_look_for_drift_reads_budgets_only_where_one_is() -> None:
    dev = load("dev")
    notifications = Notifications(email="ml-platform@example.com", monthly_budget_usd=20_000)
    budgeted = dev.model_copy(update={"notifications": notifications})
    added = _drift_reads(budgeted) - _drift_reads(dev)
    assert added == {"budgets:ListTagsForResource", "budgets:ViewBudget"}


def _drift_reads(environment: Environment) -> set[str]:
    return {action for statement in detect_drift(environment) for action in statement.actions}


def reads(action: str) -> bool:
    return action.partition(":")[2].startswith(("Describe", "Get", "List"))


def test_look_for_drift_may_read_every_service_of_the_stacks(template: Template, assembly: Assemblies) -> None:
    types = {r["Type"] for t in assembly("dev").templates.values() for r in t.body["Resources"].values()}
    native = {kind.split("::")[1].lower() for kind in types if kind.startswith("AWS::")} - {"cdk"}
    services = {action.partition(":")[0] for action in actions(roles(template)["dev-read"])}
    # A state machine's actions begin with `states:`.
    assert {"states" if name == "stepfunctions" else name for name in native} <= services


def test_provider_of_the_account_stays_and_is_made_once(template: Template, tmp_path: Path) -> None:
    [provider] = template.all("AWS::IAM::OIDCProvider").values()
    assert provider["DeletionPolicy"] == "Retain"
    second = synthesise(tmp_path, creates_provider=False)
    assert not second.all("AWS::IAM::OIDCProvider")
    principals = {
        role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Federated"] for role in roles(second).values()
    }
    assert principals == {f"arn:aws:iam::111122223333:oidc-provider/{ISSUER}"}


def test_template_is_valid_and_departs_from_no_policy(template: Template, tmp_path: Path) -> None:
    assert [str(match) for match in findings(template.body, region="us-west-2")] == []
    (tmp_path / "in" / "delivery").mkdir(parents=True)
    (tmp_path / "in" / "delivery" / "template.json").write_text(json.dumps(template.body))
    found = check(tmp_path / "in", "cloudformation")
    assert places(found["failed_checks"], "delivery") == set()
    assert places(found["passed_checks"], "delivery")


@pytest.mark.parametrize("repository", ["example-org/*", "rayhp", "a/b:environment:prod", ""])
def test_repository_that_is_not_one_is_refused(repository: str, tmp_path: Path) -> None:
    given = json.dumps({"environment": "dev", "repository": repository})
    done = subprocess.run(
        [sys.executable, "-m", "stacks.delivery"],
        cwd=REPOSITORY,
        env={
            "CDK_CONTEXT_JSON": given,
            "CDK_OUTDIR": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            support.TODAY_VARIABLE: str(support.today()),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Allowed: OWNER/NAME" in done.stderr


def test_default_qualifier_is_cdks_own() -> None:
    assert naming.DEFAULT_QUALIFIER == DefaultStackSynthesizer.DEFAULT_QUALIFIER
