"""The policies of `ops policy`: they name the environment's own resources, fit into IAM, and cover every command."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import typer
import yaml
from botocore import xform_name
from typer.testing import CliRunner

import config
from config import Environment
from config.load import EXAMPLES
from config.model import Company
from ops.commands.whole import app
from ops.policy.documents import MOST_CHARACTERS, MOST_POLICIES, documents
from ops.policy.role import PersonRole
from ops.policy.roles import COMMANDS, statements
from rehearsal.paths import REPOSITORY
from tests.support import authorization_reference as reference

COMPANY = "a company's"
"""The example with all of a company's rules; the others have none."""
EXAMPLE_OF = {COMPANY: "closed", "slurm": "slurm"}
ENVIRONMENTS = ("small", "dev", "prod", "closed", "existing-vpc", "existing-eks", "slurm", COMPANY)
OFFLINE = {
    *("charts fetch", "check", "explain", "gate", "images", "import"),
    *("manifests", "migrate", "new", "policy", "review", "schema", "scripts fetch"),
}
"""The commands that call no AWS service."""
NEWER = {
    *("aps:DescribeQueryLoggingConfiguration", "aps:DescribeWorkspaceConfiguration"),
    *("cloudformation:DescribeEvents", "sagemaker:BatchRebootClusterNodes", "sagemaker:BatchReplaceClusterNodes"),
    *("sagemaker:DescribeClusterEvent", "sagemaker:DescribeTrainingPlan", "sagemaker:ListClusterEvents"),
    *("sagemaker:SearchTrainingPlanOfferings", "sagemaker:StartClusterHealthCheck"),
}
"""Actions that the copy of the reference does not have yet."""
EVERYWHERE = {
    "sagemaker:SearchTrainingPlanOfferings": "offers belong to nobody",
    "ssm:StartSession": "HyperPod's nodes have no resource type; all others are denied",
}
"""Actions on `*`, although the reference gives them resource types or does not have them; and why."""
UNLISTED_KEYS = ("ssm:SessionDocumentAccessCheck",)
"""Condition keys of the Systems Manager user guide that the reference lacks."""

every_role = pytest.mark.parametrize("role", PersonRole)
every_environment = pytest.mark.parametrize("name", ENVIRONMENTS)


@cache
def environment(name: str) -> Environment:
    return config.load_any(EXAMPLE_OF[name], EXAMPLES) if name in EXAMPLE_OF else config.load_any(name)


def granted(name: str, role: PersonRole) -> Iterator[tuple[str, str]]:
    """Yield each action with each of its resources."""
    for statement in statements(role, environment(name)):
        for action in statement.actions:
            yield from ((action, resource) for resource in statement.resources if not statement.denies)


@every_role
@every_environment
def test_policies_fit_into_iam(name: str, role: PersonRole) -> None:
    made = documents(role, environment(name))
    assert len(made) <= MOST_POLICIES
    assert all(each.characters <= MOST_CHARACTERS for each in made)
    packed = [statement for each in made for statement in each.document["Statement"]]
    assert packed == [statement.document() for statement in statements(role, environment(name))]
    ids = [statement["Sid"] for statement in packed]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[A-Za-z0-9]+", sid) for sid in ids)


@every_role
@every_environment
def test_star_is_the_resource_of_actions_without_resource_types_only(name: str, role: PersonRole) -> None:
    for statement in statements(role, environment(name)):
        fitting = {action: _fitting(action, statement.resources) for action in statement.actions}
        if statement.resources == ("*",):
            assert all(found is None or action in EVERYWHERE for action, found in fitting.items()), fitting
        else:
            assert all(fitting.values()), f"{statement.sid}: {fitting}"
            assert {each for found in fitting.values() for each in found or ()} == set(statement.resources)


def _fitting(action: str, resources: tuple[str, ...]) -> set[str] | None:
    """Return those of the resources that the action can be about; None if it has no resource types."""
    if not reference.knows(action):
        assert action in NEWER
        return set(resources)
    kinds = reference.resource_types(action).values()
    return {each for each in resources if any(reference.fits(each, kind) for kind in kinds)} if kinds else None


@every_role
@every_environment
def test_each_action_supports_its_conditions(name: str, role: PersonRole) -> None:
    """A condition key that an action does not support is absent from its requests: the right would never be given."""
    for statement in statements(role, environment(name)):
        keys = {key for values in statement.conditions.values() for key in values}
        for action in filter(reference.knows, statement.actions):
            supported = (*reference.condition_keys(action), *UNLISTED_KEYS)
            unknown = {key for key in keys if not key.startswith(supported)}
            assert not unknown, f"{statement.sid}: {action}"


@every_role
def test_no_action_has_a_wildcard(role: PersonRole) -> None:
    assert all("*" not in action for action, _ in granted("dev", role))


@every_environment
def test_a_viewer_only_reads(name: str) -> None:
    """AWS's reference says of each action whether it changes something."""
    for action, _ in granted(name, PersonRole.VIEWER):
        if reference.knows(action):
            assert reference.access_level(action) in {"List", "Read"}, action
        else:
            assert action in NEWER
            assert re.search(":(Describe|List)", action)


@every_role
@every_environment
def test_resources_are_in_the_environments_account_and_region(name: str, role: PersonRole) -> None:
    own = environment(name)
    for _, resource in granted(name, role):
        if resource != "*":
            _, _, _, region, account, _ = resource.split(":", 5)
            assert region in ("", own.region)
            assert account in ("", own.account)


def test_company_rules_are_in_the_policies() -> None:
    boundary = "arn:aws:iam::111122223333:policy/Boundary"
    company = Company(permissions_boundary=boundary, role_path="/ml-platform/", bootstrap_qualifier="mlplatform")
    own = environment("dev").model_copy(update={"company": company})
    by = {each.sid: each for each in statements(PersonRole.ADMIN, own)}
    assert all(f":role/cdk-{company.bootstrap_qualifier}-" in arn for arn in by["AssumeBootstrapRoles"].resources)
    assert by["BootstrapGrants"].conditions == {
        "StringEquals": {"iam:PermissionsBoundary": company.permissions_boundary}
    }
    [execution_role] = by["ChangeHyperPodRoles"].resources
    assert execution_role == "arn:aws:iam::111122223333:role/ml-platform/rayhp-dev-hyperpod-ExecutionRole*"


THROUGH: dict[PersonRole, set[tuple[str, str]]] = {
    PersonRole.SCIENTIST: {("s3", "kms:Decrypt"), ("s3", "kms:GenerateDataKey")},
    PersonRole.DEPLOYER: {("", "kms:DescribeKey"), ("", "kms:GetKeyPolicy"), ("s3", "kms:Decrypt")},
    PersonRole.OPERATOR: {("s3", "kms:Decrypt"), ("sagemaker", "kms:CreateGrant"), ("sagemaker", "kms:DescribeKey")},
    PersonRole.VIEWER: {("s3", "kms:Decrypt")},
}
"""What a role may do with the company's key, and through which service; preflight looks at the key itself."""
THROUGH[PersonRole.ADMIN] = THROUGH[PersonRole.DEPLOYER] | THROUGH[PersonRole.OPERATOR]


@every_role
def test_the_companys_key_is_used_through_the_service_that_needs_it(role: PersonRole) -> None:
    # The example uses an existing image: with one of its own, people read the log of its build.
    own, found = environment(COMPANY).model_copy(update={"image": config.load("dev").image}), set()
    for statement in statements(role, own):
        if own.company.kms_key not in statement.resources:
            continue
        by = str(statement.conditions.get("StringEquals", {}).get("kms:ViaService", ""))
        assert by in ("", by.partition(".")[0] + f".{own.region}.amazonaws.com")
        of_grants = statement.conditions.get("Bool") == {"kms:GrantIsForAWSResource": "true"}
        assert of_grants == ("kms:CreateGrant" in statement.actions)
        found |= {(by.partition(".")[0], action) for action in statement.actions}
    assert found == THROUGH[role]


@every_role
def test_without_a_key_of_the_company_nobody_uses_one(role: PersonRole) -> None:
    allowed = {action for action, _ in granted("dev", role) if action.startswith("kms:")}
    assert allowed.isdisjoint({"kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKey"})


@every_role
def test_names_in_policies_follow_the_companys_pattern(role: PersonRole) -> None:
    own = environment(COMPANY)
    made = documents(role, own)
    assert own.company.name_pattern == "acme-{environment}-{name}"
    assert all(each.name.startswith(f"acme-closed-{role}") for each in made)
    text = json.dumps([each.document for each in made])
    assert "acme-closed-" in text
    # The value of a tag, which no name begins with.
    assert f"{own.project}-closed-" not in text


def test_changes_reach_only_this_environments_cluster() -> None:
    by = {each.sid: each for each in statements(PersonRole.OPERATOR, environment("dev"))}
    own = {"aws:ResourceTag/project": "rayhp", "aws:ResourceTag/environment": "dev"}
    assert by["ChangeHyperPodCluster"].conditions == {"StringEquals": own}


def test_every_command_has_a_role_or_calls_no_aws_service() -> None:
    def commands(command: Any, words: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        if below is None:
            yield words
        for name, each in (below or {}).items():
            yield from commands(each, f"{words} {name}".strip())

    assert set(commands(typer.main.get_command(app), "")) == {*COMMANDS, *OFFLINE}


SERVICES = ("cloudformation", "cloudwatch", "ec2", "ecr", "eks", "fsx", "iam", "kms", "logs", "s3", "sagemaker")
OTHER_SERVICES = ("service-quotas", "ssm", "sts")
NOT_GRANTED = {"get_caller_identity": "STS asks for no permission", "list_exports": "`ops preflight` expects a refusal"}
NOT_GRANTED["list_commands"] = "a method of click's groups"
NOT_GRANTED |= dict.fromkeys(("list_buckets", "describe_parameters"), NOT_GRANTED["list_exports"])
ACTIONS = {
    "head_bucket": {"s3:ListBucket"},
    "head_object": {"s3:GetObject"},
    "list_objects_v2": {"s3:ListBucket"},
}


def test_every_operation_that_ops_names_is_in_a_policy() -> None:
    """A new call fails here, even before a test of the rehearsal makes it under the role of its command."""
    session = botocore.session.Session()
    operations: dict[str, set[str]] = {}
    for service in (*SERVICES, *OTHER_SERVICES):
        model = session.get_service_model(service)
        prefix = "cloudwatch" if service == "cloudwatch" else model.signing_name
        for name in model.operation_names:
            operations.setdefault(xform_name(name), set()).add(f"{prefix}:{name}")
    allowed = {action for name in ENVIRONMENTS for role in PersonRole for action, _ in granted(name, role)}
    allowed |= {"sagemaker:DescribeTrainingPlan"}
    missing = {
        f"{file.relative_to(REPOSITORY)}: {word}"
        for file in (REPOSITORY / "ops").rglob("*.py")
        for word in _words(file)
        if "_" in word
        and word in operations
        and word not in NOT_GRANTED
        and not (ACTIONS.get(word, operations[word]) & allowed)
    }
    assert not missing


def _words(file: Path) -> Iterator[str]:
    """Yield the attributes and the texts of a module: a call's name, of two words or more, is one of them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_documents(output: str, parse: Any) -> None:
    done = CliRunner().invoke(app, ["policy", "scientist", "--env", "dev", "-o", output])
    assert done.exit_code == 0, done.output
    found = parse(done.stdout)
    assert (found["role"], found["access"]) == ("scientist", "submitters")
    assert "logs" in found["commands"]
    [made] = documents(PersonRole.SCIENTIST, environment("dev"))
    assert found["policies"] == [{"name": made.name, "characters": made.characters, "document": made.document}]


def test_files_are_ready_for_create_policy(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["policy", "admin", "--env", "dev", "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    made = documents(PersonRole.ADMIN, environment("dev"))
    assert len(made) > 1
    assert f"{len(made)} policies, because IAM takes 6,144 characters in one: attach all of them" in done.stdout
    for each in made:
        file = tmp_path / "new" / f"{each.name}.json"
        assert json.loads(file.read_text()) == each.document
        command = f"aws iam create-policy --policy-name {each.name} --policy-document file://{file}"
        assert command in done.stdout
    assert "Kubernetes: list the role's ARN under access.admins" in done.stdout


def test_a_command_for_two_roles_is_listed_with_both() -> None:
    listed = {
        role: json.loads(CliRunner().invoke(app, ["policy", role, "--env", "dev", "-o", "json"]).stdout)["commands"]
        for role in PersonRole
    }
    assert "logs" in listed[PersonRole.SCIENTIST]
    assert {"status", "logs", "plan"} <= set(listed[PersonRole.VIEWER])
    assert not {"drift", "node drain", "job submit", "dashboard"} & set(listed[PersonRole.VIEWER])


def test_unknown_role_is_bad_input() -> None:
    done = CliRunner().invoke(app, ["policy", "owner", "--env", "dev"])
    assert done.exit_code == 2
    assert "'deployer'" in done.output
