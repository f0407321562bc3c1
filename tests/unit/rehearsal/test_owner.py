"""The people of a rehearsal: each environment has somebody who operates it."""

from typing import Any, cast

import pytest

import config
from config.model import Access
from embedded_account.running import EmbeddedAccount
from ops.policy.role import PersonRole
from rehearsal.run import owner

SSO = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_0123456789abcdef"


class Calls:
    """An account that records the calls of its clients."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def client(self, _service: str) -> "Calls":
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self.calls.append((name, arguments))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [arguments for called, arguments in self.calls if called == name]


def people(name: str, *admins: str) -> Any:
    """Return an example with these admins, as no `ops check` saw it."""
    return config.load_any(name).model_copy(update={"access": Access(admins=admins)})


@pytest.mark.parametrize("name", config.examples())
@pytest.mark.parametrize("admins", [(), (SSO,)], ids=["no admin", "an admin with a path"])
def test_each_role_of_a_person_has_a_name_and_is_made_with_its_path(name: str, admins: tuple[str, ...]) -> None:
    environment, account = people(name, *admins), Calls()
    owner.make_roles(cast("EmbeddedAccount", account), environment)
    made = {f"{call['Path']}{call['RoleName']}" for call in account.of("create_role")}
    assert {owner.name_of(environment, role) for role in PersonRole} <= {path.rpartition("/")[2] for path in made}
    assert {arn.partition(":role")[2] for arn in admins} <= made
    assert {call["RoleName"] for call in account.of("create_role")} == owner.role_names(environment)


@pytest.mark.parametrize(
    ("name", "admins", "entries"), [("existing-eks", (), 1), ("existing-eks", (SSO,), 0), ("small", (), 0)]
)
def test_an_existing_cluster_has_an_operator_that_the_environment_need_not_name(
    name: str, admins: tuple[str, ...], entries: int
) -> None:
    environment, account = people(name, *admins), Calls()
    owner.admit_operator(cast("EmbeddedAccount", account), environment)
    assert len(account.of("create_access_entry")) == entries
    entry_ids = {f"{call['principalArn']}|{call['clusterName']}" for call in account.of("create_access_entry")}
    assert entry_ids == {each for each in owner.made(environment) if "|" in each}
