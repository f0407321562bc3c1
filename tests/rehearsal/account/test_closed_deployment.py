"""The closed environment's own network stack in the account: its endpoints are enough, and each is needed."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto.ec2.models import ec2_backends

from config import load
from embedded_account.context import Account
from embedded_account.services.ec2.reach import NODE_SERVICES, NetworkLocation, unreachable
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.eks_setup import NODE_POLICIES, EksSetup
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import make_role
from embedded_account.testing.stacks import StackDeployer, Template
from stacks.network.endpoints import INTERFACE_ENDPOINTS
from tests.synth.support.synthesis import synthesise

pytestmark = pytest.mark.product


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The network stack's template, without the check of the CDK bootstrap's version."""
    body = synthesise(load("closed"), tmp_path_factory.mktemp("closed")).templates["network"].body
    return {key: value for key, value in body.items() if key not in ("Parameters", "Rules")}


def without(network: Template, service: str) -> Template:
    """The template without one endpoint."""
    kept = {
        id: resource
        for id, resource in network["Resources"].items()
        if not str(resource["Properties"].get("ServiceName", "")).endswith(f".{service}")
    }
    assert len(kept) == len(network["Resources"]) - 1
    return network | {"Resources": kept}


def deploy(stacks: StackDeployer, network: Template) -> None:
    assert stacks.deploy("network", network, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"


def places(clients: Clients) -> list[NetworkLocation]:
    """Every subnet, with the shared security group."""
    [group] = [
        each["GroupId"]
        for each in clients("ec2").describe_security_groups()["SecurityGroups"]
        if each["Description"].startswith("HyperPod nodes")
    ]
    return [NetworkLocation(each["SubnetId"], (group,)) for each in clients("ec2").describe_subnets()["Subnets"]]


def test_every_subnet_reaches_every_service_of_the_table_and_no_other(
    account: Account, clients: Clients, stacks: StackDeployer, network: Template
) -> None:
    deploy(stacks, network)
    ec2 = ec2_backends[account.account_id][account.region]
    for place in places(clients):
        assert unreachable(ec2, place, [*INTERFACE_ENDPOINTS, "s3", "dynamodb", *NODE_SERVICES]) == ""
        assert f"subnet {place.subnet_id} has no route to iam" in unreachable(ec2, place, ["iam"])


@pytest.fixture
def cluster(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Control planes without processes; what a test leaves of EKS is deleted."""
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    yield
    clients("eks").delete_cluster(name="c")


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("service", NODE_SERVICES)
def test_a_missing_endpoint_fails_the_deployment_of_nodes_and_is_named(
    account: Account, clients: Clients, stacks: StackDeployer, network: Template, service: str
) -> None:
    deploy(stacks, without(network, service))
    subnets = [place.subnet_id for place in places(clients)]
    roles = [
        make_role(account, "cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy"),
        make_role(account, "nodes", "ec2.amazonaws.com", *NODE_POLICIES),
    ]
    cluster_role, node_role = (role.attributes()["Arn"] for role in roles)
    EksSetup(account, clients, "", subnets, cluster_role, node_role).create()
    properties: dict[str, Any] = {"ClusterName": "c", "NodeRole": node_role, "Subnets": subnets}
    nodes = {"Resources": {"Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}}
    assert stacks.deploy("nodes", nodes) == "ROLLBACK_COMPLETE"
    events = clients("cloudformation").describe_stack_events(StackName="nodes")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any(f"has no route to {service}" in reason for reason in reasons), reasons
