"""What the environment says exists: made under its own ids, nobody's but "existing"."""

from typing import Any

import pytest
import requests

import config
from config import Environment
from embedded_account import existing
from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.testing.clients import Clients
from rehearsal.run.existing_resources import existing_resources
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.product


@pytest.fixture
def environment(account: Account) -> Environment:
    environment = config.load("existing-vpc")
    assert (environment.account, environment.region) == (account.account_id, account.region)
    return environment


@pytest.fixture
def ec2(account: Account, clients: Clients, environment: Environment) -> Any:
    response = requests.post(
        f"{account.endpoint}/_rehearsal/existing",
        existing_resources(environment).model_dump_json(),
        headers=account.keys.control_headers,
        timeout=PATIENCE_SECONDS,
    )
    assert response.status_code == 200, response.text
    return clients("ec2")


def test_vpc_and_subnets_have_the_ids_zones_and_blocks_of_the_file(ec2: Any, environment: Environment) -> None:
    wanted = environment.network.existing
    assert wanted
    for subnet in (*wanted.node_subnets, *wanted.control_plane_subnets):
        [found] = ec2.describe_subnets(SubnetIds=[subnet.id])["Subnets"]
        assert (found["VpcId"], found["AvailabilityZoneId"], found["CidrBlock"]) == (
            wanted.id,
            subnet.zone,
            str(subnet.cidr),
        )


def test_private_subnets_have_a_way_out_and_no_way_in(ec2: Any, environment: Environment) -> None:
    wanted = environment.network.existing
    assert wanted
    for subnet in (*wanted.node_subnets, *wanted.control_plane_subnets):
        mine = [{"Name": "association.subnet-id", "Values": [subnet.id]}]
        [table] = ec2.describe_route_tables(Filters=mine)["RouteTables"]
        [default] = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        assert "NatGatewayId" in default


def test_file_system_has_the_id_and_mount_name_of_the_file_and_lies_with_the_nodes(
    ec2: Any, clients: Clients, environment: Environment
) -> None:
    wanted, vpc = environment.fsx.existing, environment.network.existing
    assert wanted
    assert vpc
    [found] = clients("fsx").describe_file_systems()["FileSystems"]
    assert (found["FileSystemId"], found["LustreConfiguration"]["MountName"]) == (wanted.id, wanted.mount_name)
    assert (found["Lifecycle"], found["SubnetIds"]) == ("AVAILABLE", [vpc.node_subnets[0].id])
    mine = [{"Name": "network-interface-id", "Values": found["NetworkInterfaceIds"]}]
    [interface, *_] = ec2.describe_network_interfaces(Filters=mine)["NetworkInterfaces"]
    [group] = interface["Groups"]
    [rules] = ec2.describe_security_groups(GroupIds=[group["GroupId"]])["SecurityGroups"]
    ports = {(rule["FromPort"], rule["ToPort"]) for rule in rules["IpPermissions"]}
    assert ports == {(988, 988), (1018, 1023)}


def test_what_existed_is_owned_by_existing_and_what_comes_later_is_not(ec2: Any, account: Account) -> None:
    assert {item.owner for item in collect(account)} == {"existing"}
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    assert {item.owner for item in collect(account) if item.id == vpc} == {"nobody"}


def test_a_new_environment_has_nothing_that_existed(account: Account) -> None:
    existing.make(account, existing_resources(config.load("small")))
    assert account.existing == set()


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("no JSON", "Invalid JSON"),
        ('{"name": "dev"}', "name: Extra inputs are not permitted. Allowed: vpc, cluster, file_system"),
        ('{"vpc": {"id": "vpc-1", "cidr": "10.0.0.0/16", "subnets": []}}', "vpc.subnets: Tuple should have at least 1"),
        (
            '{"file_system": {"id": "fs-1", "mount_name": "fsx", "subnet": "subnet-1"}}',
            "subnets subnet-1 are not subnets of the VPC. Allowed: none without a vpc",
        ),
    ],
)
def test_a_wrong_description_is_refused_and_says_where(account: Account, body: str, wrong: str) -> None:
    response = requests.post(
        f"{account.endpoint}/_rehearsal/existing", body, headers=account.keys.control_headers, timeout=PATIENCE_SECONDS
    )
    assert response.status_code == 400
    assert wrong in response.json()["error"]
    assert collect(account) == []
