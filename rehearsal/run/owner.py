"""Create what an account's owner has before the project: roles of `access`, the boundary of `company`."""

import json
from collections.abc import Mapping
from typing import Final

from config import Environment
from embedded_account.running import EmbeddedAccount

_ADMINISTRATOR: Final = "arn:aws:iam::aws:policy/AdministratorAccess"


def make_roles(account: EmbeddedAccount, environment: Environment) -> None:
    """Create people's roles, without which EKS refuses access entries, and the company's permissions boundary."""
    iam = account.client("iam")
    for name in sorted(role_names(environment)):
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{environment.account}"}}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
        iam.attach_role_policy(RoleName=name, PolicyArn=_ADMINISTRATOR)
    if boundary := environment.company.permissions_boundary:
        path, _, name = boundary.split(":policy")[1].rpartition("/")
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
        iam.create_policy(PolicyName=name, Path=f"{path}/", PolicyDocument=document)


def admin_credentials(account: EmbeddedAccount, environment: Environment) -> Mapping[str, str]:
    """Return credentials of the environment's first admin role, as environment variables."""
    arn = environment.access.admins[0]
    keys = account.client("sts").assume_role(RoleArn=arn, RoleSessionName="rehearsal")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }


def made(environment: Environment) -> set[str]:
    """Return the ids of what `make_roles` created, which belongs to the account's owner."""
    boundary = environment.company.permissions_boundary
    return role_names(environment) | ({boundary} if boundary else set())


def role_names(environment: Environment) -> set[str]:
    """Return the names of people's roles, which belong to the account's owner."""
    return {arn.rsplit("/", 1)[1] for arn in (*environment.access.admins, *environment.access.submitters)}
