"""`cdk bootstrap` as an administrator of an environment: CloudFormation acts with the administrator's own rights."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import config
from config import Environment, naming
from config.load import EXAMPLES
from embedded_account.context import Account
from embedded_account.testing.clients import NODE_MODULES, Clients
from embedded_account.testing.stacks import StackDeployer
from ops.policy.role import PersonRole
from rehearsal.run.owner import make_boundary
from tests.rehearsal.account import cdk_cli
from tests.support import assumed_role, people

pytestmark = pytest.mark.product

DEV = config.load("dev")
CLOSED = config.load("closed", EXAMPLES)
"""With a qualifier and a permissions boundary."""
QUALIFIED = ("--qualifier", "mlplatform", "--toolkit-stack-name", "CDKToolkit-mlplatform")
BOUNDED = ("--custom-permissions-boundary", "Boundary", "--apply-permissions-boundary-to-all-roles")

EARLIER = {
    r"Value: '\d+'": "Value: '1'",
    "ImageTagMutability: IMMUTABLE": "ImageTagMutability: MUTABLE",
    "NoncurrentDays: 30": "NoncurrentDays: 365",
    "emr-serverless.amazonaws.com": "lambda.amazonaws.com",
    "BlockPublicPolicy: true": "BlockPublicPolicy: false",
}
"""What the CLI's template has, and an earlier one had instead."""
UPDATES = {
    *("ecr:PutImageTagMutability", "ecr:SetRepositoryPolicy", "ecr:TagResource", "ecr:UntagResource"),
    *("iam:AttachRolePolicy", "iam:DetachRolePolicy", "iam:TagRole", "iam:UntagRole", "iam:UpdateAssumeRolePolicy"),
    *("s3:PutBucketPublicAccessBlock", "s3:PutBucketTagging", "s3:PutLifecycleConfiguration"),
    *("ssm:AddTagsToResource", "ssm:GetParameters", "ssm:PutParameter", "ssm:RemoveTagsFromResource"),
}

Bootstrap = Callable[..., str]


@pytest.fixture
def bootstrap(account: Account, clients: Clients, tmp_path: Path) -> Bootstrap:
    """Return a function that types `cdk bootstrap` as the environment's administrator; it returns the output."""

    def run(environment: Environment, *more: str, code: int = 0) -> str:
        make_boundary(clients("iam"), environment)
        keys = assumed_role.credentials(clients, people.make_role(clients, environment, PersonRole.ADMIN))
        return cdk_cli.bootstrap(account, environment, keys, tmp_path, *more, code=code)

    return run


@pytest.mark.parametrize(("environment", "more"), [(DEV, ()), (CLOSED, (*QUALIFIED, *BOUNDED))])
def test_the_administrators_rights_suffice(
    bootstrap: Bootstrap, account: Account, clients: Clients, environment: Environment, more: tuple[str, ...]
) -> None:
    since = len(account.journal.entries())
    bootstrap(environment, *more)
    # With a qualifier, the CLI also looks for the stack of the default one, and continues without it.
    assert not [each for each in people.refusals(account, since) if not each.endswith(":stack/CDKToolkit/*")]
    boundary = environment.company.permissions_boundary
    for name in (*naming.BOOTSTRAP_ROLES, "cfn-exec"):
        made = clients("iam").get_role(RoleName=naming.bootstrap_role(environment, name).rpartition("/")[2])["Role"]
        assert made.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn") == boundary


def test_the_administrators_rights_suffice_for_an_update_of_an_earlier_bootstrap(
    bootstrap: Bootstrap, account: Account, clients: Clients, stacks: StackDeployer, tmp_path: Path
) -> None:
    """The CLI deploys its newer template over it, with other tags, and with another account that may deploy."""
    template = (NODE_MODULES / "aws-cdk" / "lib" / "api" / "bootstrap" / "bootstrap-template.yaml").read_text()
    for now, then in EARLIER.items():
        assert re.search(now, template), now
        template = re.sub(now, then, template)
    earlier = tmp_path / "earlier.yaml"
    earlier.write_text(template)
    since = len(account.journal.entries())
    bootstrap(DEV, "--template", str(earlier), "--tags", "team=ours", "--tags", "stage=trial")
    assert stacks.outputs("CDKToolkit")["BootstrapVersion"] == "1"
    policies = ("--cloudformation-execution-policies", "arn:aws:iam::aws:policy/PowerUserAccess")
    bootstrap(DEV, "--trust", "444455556666", *policies, "--tags", "team=theirs")
    assert stacks.describe("CDKToolkit")["StackStatus"] == "UPDATE_COMPLETE"
    assert int(stacks.outputs("CDKToolkit")["BootstrapVersion"]) > 1
    assert people.refusals(account, since) == []
    asked = {entry["action"] for entry in account.journal.entries(since) if entry["kind"] == "iam"}
    assert asked >= UPDATES


def test_a_bootstrap_without_the_companys_boundary_is_refused(bootstrap: Bootstrap) -> None:
    said = bootstrap(CLOSED, *QUALIFIED, code=1)
    assert "is not authorized to perform: iam:CreateRole on resource: arn:aws:iam::111122223333:role/cdk-" in said


def test_a_bootstrap_that_failed_leaves_nothing_but_its_bucket(
    bootstrap: Bootstrap, account: Account, clients: Clients, stacks: StackDeployer
) -> None:
    clients("ssm").put_parameter(Name=naming.bootstrap_version(DEV), Value="1", Type="String")
    since = len(account.journal.entries())
    assert "already exists" in bootstrap(DEV, code=1)
    assert people.refusals(account, since) == []
    assert stacks.describe("CDKToolkit")["StackStatus"] == "ROLLBACK_COMPLETE"
    left: list[Mapping[str, Any]] = clients("iam").list_roles()["Roles"]
    assert not [each["RoleName"] for each in left if each["RoleName"].startswith("cdk-")]
    assert clients("ecr").describe_repositories()["repositories"] == []
