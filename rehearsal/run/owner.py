"""Create what an account's owner has before the project: roles of people, the boundary of `company`.

The rehearsal's people have the policies that `ops policy` prints, and the account evaluates them.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from config import Environment
from embedded_account.running import EmbeddedAccount
from ops.policy.documents import documents
from ops.policy.role import PersonRole
from ops.policy.roles import ACCESS

_CLUSTER_ADMIN: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_ADMINISTRATOR: Final = "arn:aws:iam::aws:policy/AdministratorAccess"
DEPLOYER: Final = "Deployer"
_NAMES: Final = {PersonRole.DEPLOYER: DEPLOYER, PersonRole.ADMIN: "Administrator"}
"""The roles that do not need the Kubernetes API here; the others are those of the environment's `access`."""
_OPERATOR: Final = "Operator"
"""The role that operates an environment whose `access` names no admin: an existing cluster has its own, Slurm none."""
_BOUNDED: Final = (
    "budgets cloudformation cloudwatch ec2 ecr eks eks-auth events fsx iam kms lambda logs s3 sagemaker sns ssm "
    "ssmmessages states sts"
)
"""The services that a rehearsal's permissions boundary allows."""
_UNBOUNDED: Final = ["iam:CreateRole", "iam:CreateUser", "iam:PutRolePermissionsBoundary"]
_OF_BOUNDARY: Final = [
    f"iam:{name}" for name in ("CreatePolicyVersion", "DeletePolicy", "DeletePolicyVersion", "SetDefaultPolicyVersion")
]
_REMOVE_BOUNDARY: Final = ["iam:DeleteRolePermissionsBoundary", "iam:DeleteUserPermissionsBoundary"]
_SESSION_SECONDS: Final = 12 * 3600
"""IAM's maximum: a kept rehearsal is practised on for a day."""


def make_roles(account: EmbeddedAccount, environment: Environment) -> None:
    """Create people's roles, without which EKS refuses access entries, and the company's permissions boundary."""
    iam = account.client("iam")
    for name, arn in sorted(_arns(environment).items()):
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{environment.account}"}}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        path = arn.partition(":role")[2].removesuffix(name)
        iam.create_role(
            RoleName=name, Path=path, AssumeRolePolicyDocument=document, MaxSessionDuration=_SESSION_SECONDS
        )
    for role in _people(environment):
        for each in documents(role, environment):
            iam.create_policy(PolicyName=each.name, PolicyDocument=json.dumps(each.document))
        attach(iam, environment, role, to=role)
    for name in role_names(environment) - {name_of(environment, role) for role in _people(environment)}:
        iam.attach_role_policy(RoleName=name, PolicyArn=_ADMINISTRATOR)
    make_boundary(iam, environment)


def make_boundary(iam: Any, environment: Environment) -> None:
    """Create the company's permissions boundary, if it has one.

    Its denials are those of the example in CDK's bootstrap template; it allows no service that an environment lacks.
    """
    if boundary := environment.company.permissions_boundary:
        path, _, name = boundary.split(":policy")[1].rpartition("/")
        others = {"StringNotEquals": {"iam:PermissionsBoundary": boundary}}
        statements = [
            {"Effect": "Allow", "Action": [f"{service}:*" for service in _BOUNDED.split()], "Resource": "*"},
            {"Effect": "Deny", "Action": _UNBOUNDED, "Resource": "*", "Condition": others},
            {"Effect": "Deny", "Action": _OF_BOUNDARY, "Resource": boundary},
            {"Effect": "Deny", "Action": _REMOVE_BOUNDARY, "Resource": "*"},
        ]
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        iam.create_policy(PolicyName=name, Path=f"{path}/", PolicyDocument=document)


def admit_operator(account: EmbeddedAccount, environment: Environment) -> None:
    """Let the operator into the existing EKS cluster, as its owner would, unless `access` lists an admin."""
    for cluster, arn in _admitted(environment):
        eks = account.client("eks")
        eks.create_access_entry(clusterName=cluster, principalArn=arn)
        eks.associate_access_policy(
            clusterName=cluster, principalArn=arn, policyArn=_CLUSTER_ADMIN, accessScope={"type": "cluster"}
        )


def attach(iam: Any, environment: Environment, role: PersonRole, *, to: PersonRole) -> None:
    """Attach the existing policies of `role` to the role of a person."""
    for each in documents(role, environment):
        iam.attach_role_policy(RoleName=name_of(environment, to), PolicyArn=_policy(environment, each.name))


def credentials(account: EmbeddedAccount, environment: Environment, role: PersonRole) -> Mapping[str, str]:
    """Return credentials of a person's role, as environment variables; they are valid for twelve hours."""
    arn = _arns(environment)[name_of(environment, role)]
    session = {"RoleSessionName": "rehearsal", "DurationSeconds": _SESSION_SECONDS}
    keys = account.client("sts").assume_role(RoleArn=arn, **session)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }


def made(environment: Environment) -> set[str]:
    """Return the ids of what `make_roles` and `admit_operator` created, which belongs to the account's owner."""
    boundary = environment.company.permissions_boundary
    policies = {
        _policy(environment, each.name) for role in _people(environment) for each in documents(role, environment)
    }
    admitted = {f"{arn}|{cluster}" for cluster, arn in _admitted(environment)}
    return role_names(environment) | policies | admitted | ({boundary} if boundary else set())


def role_names(environment: Environment) -> set[str]:
    """Return the names of people's roles, which belong to the account's owner."""
    return set(_arns(environment))


def name_of(environment: Environment, role: PersonRole) -> str:
    """Return the name of a person's role: the environment's first admin operates it, and acts for who is not listed."""
    listed = [arn.rsplit("/", 1)[1] for arn in (*_listed(environment, role), *environment.access.admins)]
    return _NAMES.get(role) or next(iter(listed), _OPERATOR)


def _admitted(environment: Environment) -> list[tuple[str, str]]:
    """Return the clusters that the owner lets people into, each with a role's ARN."""
    existing = environment.existing_eks
    return [(existing.name, _arns(environment)[_OPERATOR])] if existing and not environment.access.admins else []


def _arns(environment: Environment) -> dict[str, str]:
    """Map the name of each role of people to its ARN."""
    access, prefix = environment.access, f"arn:aws:iam::{environment.account}:role/"
    in_kubernetes = [role for roles in access.lists.values() for role in roles]
    own = (*_NAMES.values(), *(() if access.admins else (_OPERATOR,)))
    return {name: f"{prefix}{name}" for name in own} | {arn.rsplit("/", 1)[1]: arn for arn in in_kubernetes}


def _policy(environment: Environment, name: str) -> str:
    return f"arn:aws:iam::{environment.account}:policy/{name}"


def _people(environment: Environment) -> list[PersonRole]:
    return [role for role in PersonRole if role in _NAMES or role is PersonRole.OPERATOR or _listed(environment, role)]


def _listed(environment: Environment, role: PersonRole) -> tuple[str, ...]:
    """Return the ARNs under the key of `access` for a person's role."""
    listed: tuple[str, ...] = getattr(environment.access, ACCESS[role])
    return listed
