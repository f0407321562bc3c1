"""Give a test the credentials of people's roles, with the policies that `ops policy` prints for them."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from config import Environment
from embedded_account.context import Account
from embedded_account.testing.clients import REGION
from ops.policy.documents import documents
from ops.policy.role import PersonRole
from ops.policy.roles import COMMANDS

Client = Callable[[str], Any]
PERSON = "Rehearsal"
"""With this begin the names of people's roles; other roles are those of services."""


def role_name(role: PersonRole) -> str:
    return f"{PERSON}{role.title()}"


def make_role(client: Client, environment: Environment, role: PersonRole, name: str = "") -> str:
    """Create the role with its policies, as the account's owner, in place of an earlier one; return its ARN."""
    iam, name = client("iam"), name or role_name(role)
    with suppress(iam.exceptions.NoSuchEntityException):
        for attached in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
            iam.delete_policy(PolicyArn=attached["PolicyArn"])
        iam.delete_role(RoleName=name)
    trust = {"Effect": "Allow", "Principal": {"AWS": environment.account}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"])
    for each in documents(role, environment):
        made = iam.create_policy(PolicyName=f"{name}-{each.name}", PolicyDocument=json.dumps(each.document))
        iam.attach_role_policy(RoleName=name, PolicyArn=made["Policy"]["Arn"])
    return arn


def client_of(session: Any, endpoint: str, keys: Mapping[str, str]) -> Client:
    """Return a function that makes boto3 clients with these credentials."""
    own = {name.lower(): value for name, value in keys.items()}
    return lambda service: session.client(service, endpoint_url=endpoint, region_name=REGION, **own)


def roles_of(words: tuple[str, ...]) -> tuple[PersonRole, ...]:
    """Return the roles that a command line of `ops` is for."""
    return COMMANDS.get(" ".join(words[:2])) or COMMANDS[words[0]]


EXPECTED = (
    "cloudformation:ListExports on ",
    "ecr:DescribeRepositories on arn:aws:ecr:us-west-2:111122223333:repository/*",
    "s3:ListAllMyBuckets on ",
    "ssm:DescribeParameters on ",
)
"""What `ops preflight` asks for an answer of the endpoint, be it a refusal (`ops.preflight.account.endpoints`)."""


def refusals(account: Account, since: int = 0, role: str = PERSON) -> list[str]:
    """Return what people were refused after the journal's entry number `since`, except EXPECTED: action and resource.

    `role` is the begin of the roles' names.

    A command that swallows a refusal, such as `ops status`, would hide a permission that its role lacks.
    """
    entries = account.journal.entries(since)
    evaluated = [
        f"{e['action']} on {e['resource']}"
        for e in entries
        if e["kind"] == "iam" and e["decision"] != "ALLOW" and f":role/{role}" in e["principal"]
    ]
    return [each for each in evaluated if not each.startswith(EXPECTED)]
