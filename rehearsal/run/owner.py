"""Create what an account's owner has before the project: roles of people, the boundary of `company`.

The rehearsal's people have the policies that `ops policy` prints, and the account evaluates them.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from config import Environment
from embedded_account.running import EmbeddedAccount
from ops.policy.documents import documents
from ops.policy.role import Role
from ops.policy.roles import ACCESS

_ADMINISTRATOR: Final = "arn:aws:iam::aws:policy/AdministratorAccess"
_NAMES: Final = {Role.DEPLOYER: "Deployer", Role.ADMIN: "Administrator"}
"""The roles that do not need the Kubernetes API here; the others are those of the environment's `access`."""


def make_roles(account: EmbeddedAccount, environment: Environment) -> None:
    """Create people's roles, without which EKS refuses access entries, and the company's permissions boundary."""
    iam = account.client("iam")
    for name in sorted(role_names(environment)):
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{environment.account}"}}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    for role in _people(environment):
        for each in documents(role, environment):
            iam.create_policy(PolicyName=each.name, PolicyDocument=json.dumps(each.document))
        attach(iam, environment, role, to=role)
    for name in role_names(environment) - {name_of(environment, role) for role in _people(environment)}:
        iam.attach_role_policy(RoleName=name, PolicyArn=_ADMINISTRATOR)
    if boundary := environment.company.permissions_boundary:
        path, _, name = boundary.split(":policy")[1].rpartition("/")
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
        iam.create_policy(PolicyName=name, Path=f"{path}/", PolicyDocument=document)


def attach(iam: Any, environment: Environment, role: Role, *, to: Role) -> None:
    """Attach the existing policies of `role` to the role of a person."""
    for each in documents(role, environment):
        iam.attach_role_policy(RoleName=name_of(environment, to), PolicyArn=_policy(environment, each.name))


def credentials(account: EmbeddedAccount, environment: Environment, role: Role) -> Mapping[str, str]:
    """Return credentials of a person's role, as environment variables; they are valid for an hour."""
    arn = f"arn:aws:iam::{environment.account}:role/{name_of(environment, role)}"
    keys = account.client("sts").assume_role(RoleArn=arn, RoleSessionName="rehearsal")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }


def made(environment: Environment) -> set[str]:
    """Return the ids of what `make_roles` created, which belongs to the account's owner."""
    boundary = environment.company.permissions_boundary
    policies = {
        _policy(environment, each.name) for role in _people(environment) for each in documents(role, environment)
    }
    return role_names(environment) | policies | ({boundary} if boundary else set())


def role_names(environment: Environment) -> set[str]:
    """Return the names of people's roles, which belong to the account's owner."""
    access = environment.access
    in_kubernetes = (*access.admins, *access.submitters, *access.viewers)
    return {arn.rsplit("/", 1)[1] for arn in in_kubernetes} | set(_NAMES.values())


def name_of(environment: Environment, role: Role) -> str:
    """Return the name of a person's role: the environment's first admin operates it."""
    return _NAMES.get(role) or _listed(environment, role)[0].rsplit("/", 1)[1]


def _policy(environment: Environment, name: str) -> str:
    return f"arn:aws:iam::{environment.account}:policy/{name}"


def _people(environment: Environment) -> list[Role]:
    return [role for role in Role if role in _NAMES or _listed(environment, role)]


def _listed(environment: Environment, role: Role) -> tuple[str, ...]:
    """Return the ARNs under the key of `access` for a person's role."""
    listed: tuple[str, ...] = getattr(environment.access, ACCESS[role])
    return listed
