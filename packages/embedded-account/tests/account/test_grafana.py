"""Test Amazon Managed Grafana's workspaces and the lists of networks that reach them: life cycle and refusals."""

from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.updates import CASES
from embedded_account.testing.waiting import wait_until

KIND = "AWS::Grafana::Workspace"
LIST = "AWS::EC2::PrefixList"
OFFICE = CASES[LIST].properties


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def grafana(clients: Clients) -> Any:
    return clients("grafana")


@pytest.fixture
def properties(account: Account, resources: ResourceModels) -> dict[str, Any]:
    networks = resources.create(LIST, OFFICE).get_cfn_attribute("PrefixListId")
    return {
        "AccountAccessType": "CURRENT_ACCOUNT",
        "AuthenticationProviders": ["AWS_SSO"],
        "Name": "metrics",
        "NetworkAccessControl": {"PrefixListIds": [networks], "VpceIds": []},
        "PermissionType": "CUSTOMER_MANAGED",
        "RoleArn": make_role(account, "grafana", "grafana.amazonaws.com").get_cfn_attribute("Arn"),
    }


def test_a_workspace_is_made_and_deleted_in_time_and_leaves_nothing(
    account: Account,
    resources: ResourceModels,
    grafana: Any,
    properties: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    workspace = resources.create(KIND, properties)
    id = workspace.physical_resource_id
    wait_until(workspace.is_created, "the workspace")
    found = grafana.describe_workspace(workspaceId=id)["workspace"]
    assert (found["status"], found["name"]) == ("ACTIVE", "metrics")
    assert found["authentication"] == {"providers": ["AWS_SSO"]}
    assert found["networkAccessControl"]["prefixListIds"] == properties["NetworkAccessControl"]["PrefixListIds"]
    assert (
        workspace.get_cfn_attribute("Endpoint")
        == found["endpoint"]
        == f"{id}.grafana-workspace.us-west-2.amazonaws.com"
    )
    assert [each["id"] for each in grafana.list_workspaces()["workspaces"]] == [id]
    assert (KIND, id) in {(item.type, item.id) for item in collect(account)}

    workspace.remove()
    # Nobody asks Grafana: what is over must not stay in the list.
    wait_until(lambda: KIND not in {item.type for item in collect(account)}, "the workspace's end")
    assert workspace.is_deleted()
    assert grafana.list_workspaces()["workspaces"] == []


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"Name": "two words"}, "ValidationException", "workspaceName must match"),
        ({"AuthenticationProviders": ["SAML"]}, "ValidationException", "AWS_SSO"),
        ({"PermissionType": "SERVICE_MANAGED"}, "ValidationException", "CUSTOMER_MANAGED only"),
        ({"AccountAccessType": "ORGANIZATION"}, "ValidationException", "CURRENT_ACCOUNT only"),
        ({"NetworkAccessControl": {"PrefixListIds": ["pl-0"]}}, "ValidationException", "pl-0 does not exist"),
        ({"NetworkAccessControl": {}}, "ValidationException", "needs 1 to 5 prefix lists"),
        ({"NetworkAccessControl": {"VpceIds": ["vpce-0"]}}, "ValidationException", "vpceIds"),
        ({"RoleArn": "arn:aws:iam::111122223333:role/no-such"}, "ValidationException", "cannot assume"),
        ({"DataSources": ["PROMETHEUS"]}, None, "DataSources"),
    ],
)
def test_a_wrong_parameter_is_refused(
    resources: ResourceModels, properties: dict[str, Any], change: dict[str, Any], code: str | None, text: str
) -> None:
    with RefusedWith(code, text):
        resources.create(KIND, {**properties, **change})


def test_a_workspace_needs_a_role_and_rest_between_changes(
    account: Account,
    resources: ResourceModels,
    grafana: Any,
    properties: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account.clock, "scale", 0.001)
    with RefusedWith("ValidationException", "needs workspaceRoleArn"):
        resources.create(KIND, {name: value for name, value in properties.items() if name != "RoleArn"})
    with RefusedWith("ResourceNotFoundException", "was not found"):
        grafana.describe_workspace(workspaceId="g-0123456789")
    workspace = resources.create(KIND, properties)
    with RefusedWith("ConflictException", "is CREATING"):
        grafana.delete_workspace(workspaceId=workspace.physical_resource_id)


def test_a_prefix_list_holds_at_most_its_size_and_leaves_nothing(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    with RefusedWith("PrefixListMaxEntriesExceeded", "maximum number of entries"):
        resources.create(LIST, {**OFFICE, "MaxEntries": 0})
    networks = resources.create(LIST, OFFICE)
    id = networks.physical_resource_id
    assert (LIST, id) in {(item.type, item.id) for item in collect(account)}
    resources.update(networks, {**OFFICE, "Entries": [{"Cidr": "198.51.100.0/24"}]})
    entries = clients("ec2").get_managed_prefix_list_entries(PrefixListId=id)["Entries"]
    assert [each["Cidr"] for each in entries] == ["198.51.100.0/24"]
    networks.remove()
    assert LIST not in {item.type for item in collect(account)}
