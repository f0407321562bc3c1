"""cloudsplaining, an independent analyser, finds in the policies what docs/operate/permissions.md intends."""

from typing import Any, Final

import pytest

from ops.policy.documents import documents
from ops.policy.role import PersonRole
from tests.support import cloudsplaining
from tests.support.cloudsplaining import Findings
from tests.unit.ops.policy.test_escalation import EKS, PAGE, SLURM, environment

SHELLS: Final = ("changes without constraints", "ssm:StartSession")
REGISTRY: Final = ("credentials exposure", "ecr:GetAuthorizationToken")
INTENDED: Final = {
    SHELLS: "HyperPod's nodes have no resource type; a deny excludes all other targets",
    REGISTRY: "`ops mirror` logs in to ECR; the login has no more rights than the person",
}
"""Findings in the policies as they are printed, and why they may be."""
ASSUMES: Final = ("credentials exposure", "sts:AssumeRole")
READS_FILES: Final = ("data exfiltration", "s3:GetObject")
READS_VERSION: Final = ("data exfiltration", "ssm:GetParameter")
READS_BARRIER: Final = ("data exfiltration", "ssm:GetParameters")
PASSES: Final = ("resource exposure", "iam:PassRole")
GRANTS: Final = ("resource exposure", "kms:CreateGrant")
SHARES: Final = ("resource exposure", "ec2:ModifySnapshotAttribute")
LINKED: Final = ("resource exposure", "iam:CreateServiceLinkedRole")
GIVES: Final = {
    *(("privilege escalation", way) for way in ("AttachRolePolicy", "PutRolePolicy", "UpdateRolePolicyToAssumeIt")),
    *(("resource exposure", f"s3:{name}BucketPolicy") for name in ("Delete", "Put")),
    *(("resource exposure", f"iam:{name}RolePolicy") for name in ("Attach", "Delete", "Detach", "Put")),
    *(("resource exposure", f"iam:{name}") for name in ("CreateRole", "DeleteRole", "UpdateRole")),
    ("resource exposure", "iam:UpdateAssumeRolePolicy"),
    ("resource exposure", "s3:PutBucketPublicAccessBlock"),
    ("resource exposure", "ecr:SetRepositoryPolicy"),
}
"""What `cdk bootstrap` does to its roles, bucket and repository."""
HELD_BACK: Final = {
    PersonRole.DEPLOYER: {ASSUMES, READS_FILES, READS_VERSION},
    PersonRole.OPERATOR: {SHELLS, PASSES, GRANTS, SHARES, READS_FILES, READS_BARRIER},
    PersonRole.SCIENTIST: {SHELLS, READS_FILES},
    PersonRole.VIEWER: {READS_FILES},
}
"""Findings that only resources and conditions hold back: build logs and data of the own bucket, the bootstrap's roles
and version, the nodes' role, the company's key for SageMaker."""
HELD_BACK[PersonRole.ADMIN] = {
    *(REGISTRY, LINKED),
    *GIVES,
    *HELD_BACK[PersonRole.DEPLOYER],
    *HELD_BACK[PersonRole.OPERATOR],
}

every_role = pytest.mark.parametrize("role", PersonRole)


def printed(*, bare: bool = False) -> dict[str, dict[str, Any]]:
    """Return each role's statements of each environment as one policy; `bare`: on everything, without conditions."""
    found = {}
    for name in (*EKS, SLURM):
        for role in PersonRole:
            given = [each for made in documents(role, environment(name)) for each in made.document["Statement"]]
            if bare:
                given = [
                    {"Effect": "Allow", "Action": each["Action"], "Resource": "*"}
                    for each in given
                    if each["Effect"] == "Allow"
                ]
            found[f"{role} {name}"] = {"Version": "2012-10-17", "Statement": given}
    return found


@pytest.fixture(scope="module")
def found() -> Findings:
    return cloudsplaining.findings(printed())


@pytest.fixture(scope="module")
def found_bare() -> Findings:
    return cloudsplaining.findings(printed(bare=True))


def of(role: PersonRole, found: Findings) -> set[tuple[str, str]]:
    return {each for name, several in found.items() if name.startswith(f"{role} ") for each in several}


def test_only_intended_findings_are_in_the_policies(found: Findings) -> None:
    assert set().union(*found.values()) == INTENDED.keys()


def test_the_page_says_the_findings_with_their_reasons() -> None:
    text = PAGE.read_text()
    for (_, action), reason in INTENDED.items():
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{action}`")]
        assert row.endswith(f"| {reason} |")


def test_who_looks_is_free_of_findings(found: Findings) -> None:
    for role in (PersonRole.DEPLOYER, PersonRole.VIEWER):
        assert of(role, found) == set()


@every_role
def test_resources_and_conditions_hold_back_what_is_listed(found_bare: Findings, role: PersonRole) -> None:
    kinds = ("privilege escalation", "credentials exposure", "data exfiltration", "resource exposure", "whole services")
    judged = {each for each in of(role, found_bare) if each[0] in kinds}
    assert judged == {each for each in HELD_BACK[role] if each[0] in kinds}


def test_the_analyser_finds_an_administrator() -> None:
    wide = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["iam:*"], "Resource": "*"}]}
    [found] = cloudsplaining.findings({"wide": wide}).values()
    assert {("privilege escalation", "CreateAccessKey"), ("whole services", "iam")} <= found
