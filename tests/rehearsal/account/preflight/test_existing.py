"""Checks of an existing VPC and an existing EKS cluster: each failure is made, seen and mended."""

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from typing import Any

import pytest

import config
from config import EksEnvironment, Environment, naming
from config.facts.add_ons import CLOUDWATCH, HYPERPOD
from config.model import ContainerInsights, HyperPodObservability, Observability
from embedded_account import existing
from embedded_account.context import Account
from embedded_account.existing_description import Cluster
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import ClusterIds, service_of
from embedded_account.testing.clients import Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import make_role
from embedded_account.testing.stacks import StackDeployer
from ops.preflight.check import CheckStatus
from rehearsal.run.existing_resources import existing_resources
from tests.rehearsal.account.preflight.conftest import Preflight, said

pytestmark = pytest.mark.product

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
NODES = "subnet-0e5a0c6d1b7f39248"
CONTROL_PLANE = "subnet-0e5b0f9a3d6c21e74"
VPC = "vpc-0e5c1a7f93d24b680"
CLUSTER = "shared-platform"


@pytest.fixture
def environment() -> EksEnvironment:
    return config.load("existing-eks")


@pytest.fixture
def ec2(
    account: Account, clients: Clients, environment: EksEnvironment, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The existing VPC and EKS cluster, as the file says; the control plane is a fake."""
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    resources = existing_resources(environment)
    existing.make(account, resources.model_copy(update={"cluster": None}))
    assert resources.cluster
    make_cluster(account, resources.cluster)
    yield clients("ec2")
    clients("eks").delete_addon(clusterName=CLUSTER, addonName="vpc-cni")
    clients("eks").delete_cluster(name=CLUSTER)


def make_cluster(account: Account, wanted: Cluster) -> None:
    eks = service_of(account)
    network = {"subnetIds": list(wanted.control_plane_subnets), "endpointPrivateAccess": True}
    request = {
        "name": wanted.name,
        "version": wanted.version,
        "roleArn": make_role(account, "owner", "eks.amazonaws.com", "AmazonEKSClusterPolicy").attributes()["Arn"],
        "resourcesVpcConfig": {**network, "endpointPublicAccess": False},
        "accessConfig": {"authenticationMode": "API"},
    }
    eks.create_cluster(request, None, ClusterIds(wanted.issuer_id, wanted.security_group))
    eks.wait_until_active(wanted.name)
    [cni] = [add_on for add_on in wanted.add_ons if add_on.name == "vpc-cni"]
    eks.addons.create(wanted.name, {"addonName": cni.name, "addonVersion": cni.version})


def vpc_with(environment: EksEnvironment, **changes: Any) -> EksEnvironment:
    """Return the environment with changed keys of network.existing."""
    assert environment.network.existing
    vpc = environment.network.existing.model_copy(update=changes)
    network = environment.network.model_copy(update={"existing": vpc})
    return environment.model_copy(update={"network": network})


def cluster_with(environment: EksEnvironment, **changes: Any) -> EksEnvironment:
    """Return the environment with changed keys of eks.existing."""
    assert environment.eks.existing
    cluster = environment.eks.existing.model_copy(update=changes)
    eks = environment.eks.model_copy(update={"existing": cluster})
    return environment.model_copy(update={"eks": eks})


def observed(environment: EksEnvironment) -> EksEnvironment:
    """Return the environment with AWS's observability."""
    wanted = Observability(container_insights=ContainerInsights(), hyperpod=HyperPodObservability())
    return environment.model_copy(update={"observability": wanted})


# -- VPC


def test_vpc_and_cluster_that_are_as_the_file_says_pass(ec2: Any, preflight: Preflight) -> None:
    for title in ("VPC", "subnet", "route", "EKS cluster", "EKS add-on", "HyperPod's EKS cluster"):
        rows = preflight(title)
        assert rows
        assert {row.verdict for row in rows.values()} == {PASS}, rows


def test_a_new_environment_has_no_rows_about_existing_infrastructure(preflight: Preflight) -> None:
    small = config.load("small")
    for title in ("VPC", "subnet", "route", "EKS cluster", "EKS add-on", "Kubernetes API", "HyperPod's EKS cluster"):
        assert preflight(title, small) == {}


def test_a_vpc_that_does_not_exist_or_has_another_block_fails(
    ec2: Any, environment: EksEnvironment, preflight: Preflight
) -> None:
    absent = "vpc-00000000000000000"
    row = preflight("VPC", vpc_with(environment, id=absent))[absent]
    assert (row.verdict, row.found) == (FAIL, "does not exist")
    rows = preflight("VPC", vpc_with(environment, cidr=IPv4Network("10.0.0.0/16")))
    assert said(rows[f"{VPC} block"]) == (FAIL, "10.216.0.0/16", "correct network.existing.cidr")


def test_the_owner_of_shared_subnets_must_be_said_and_is_a_risk(
    ec2: Any, environment: EksEnvironment, preflight: Preflight
) -> None:
    row = f"{VPC} owner"
    assert row not in preflight("VPC"), "a VPC of this account"
    found = preflight("VPC", vpc_with(environment, owner="444455556666"))[row]
    text = "account 111122223333; the environment says 444455556666"
    assert said(found) == (FAIL, text, "remove network.existing.owner")

    theirs = environment.model_copy(update={"account": "444455556666"})
    found = preflight("VPC", theirs)[row]
    assert found.fix == 'write owner: "111122223333" in network.existing'
    assert (found.verdict, found.found) == (FAIL, "account 111122223333; the environment says 444455556666")
    found = preflight("VPC", vpc_with(theirs, owner="111122223333"))[row]
    assert found.verdict is WARN
    assert found.found.startswith("account 111122223333 shares its subnets: AWS lists EKS for them, not SageMaker")


def test_dns_that_is_off_fails_with_the_command_that_turns_it_on(ec2: Any, preflight: Preflight) -> None:
    ec2.modify_vpc_attribute(VpcId=VPC, EnableDnsHostnames={"Value": False})
    rows = preflight("VPC")
    fix = f"aws ec2 modify-vpc-attribute --vpc-id {VPC} --enable-dns-hostnames --region us-west-2"
    assert said(rows[f"{VPC} DNS hostnames"]) == (FAIL, "off", fix)
    assert said(rows[f"{VPC} DNS support"]) == (PASS, "on", "")
    ec2.modify_vpc_attribute(VpcId=VPC, EnableDnsHostnames={"Value": True})
    assert {row.verdict for row in preflight("VPC").values()} == {PASS}


def test_subnets_must_be_in_the_vpc_in_their_zone_and_block(
    ec2: Any, environment: EksEnvironment, preflight: Preflight
) -> None:
    assert environment.network.existing
    first, second = environment.network.existing.node_subnets
    elsewhere = first.model_copy(update={"cidr": IPv4Network("10.216.0.0/18")})
    absent = second.model_copy(update={"id": "subnet-00000000000000000"})
    rows = preflight("subnet", vpc_with(environment, node_subnets=(elsewhere, absent)))
    assert rows[NODES].verdict is FAIL
    assert rows[NODES].found == ("is in usw2-az2 with 10.216.64.0/18; the environment says usw2-az2 with 10.216.0.0/18")
    assert rows["subnet-00000000000000000"].found == f"is not a subnet of {VPC}"


def test_subnets_must_have_the_addresses_that_nodes_need(
    ec2: Any, environment: EksEnvironment, preflight: Preflight
) -> None:
    head, workers = environment.hyperpod.instance_groups
    many = workers.model_copy(update={"count": 2000})
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": (head, many)})
    row = preflight("subnet", environment.model_copy(update={"hyperpod": hyperpod}))[NODES]
    assert row.verdict is FAIL
    assert row.found.startswith("16,379 addresses free, ")
    assert row.fix.startswith("lower counts")


def test_a_control_plane_subnet_that_is_full_fails(ec2: Any, preflight: Preflight) -> None:
    while ec2.describe_subnets(SubnetIds=[CONTROL_PLANE])["Subnets"][0]["AvailableIpAddressCount"] > 5:
        ec2.create_network_interface(SubnetId=CONTROL_PLANE)
    row = preflight("subnet")[CONTROL_PLANE]
    assert (row.verdict, row.found) == (FAIL, "5 addresses free, 6 needed")


def test_routes_must_lead_out_without_public_addresses(ec2: Any, preflight: Preflight) -> None:
    [table] = ec2.describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [NODES]}])["RouteTables"]
    identifier, anywhere = table["RouteTableId"], {"DestinationCidrBlock": "0.0.0.0/0"}
    ec2.delete_route(RouteTableId=identifier, **anywhere)
    row = preflight("route")[NODES]
    assert row.verdict is WARN
    assert row.found.startswith(f"{identifier} has no default route")

    [gateway] = ec2.describe_internet_gateways()["InternetGateways"]
    ec2.create_route(RouteTableId=identifier, GatewayId=gateway["InternetGatewayId"], **anywhere)
    row = preflight("route")[NODES]
    assert row.verdict is FAIL
    assert row.found == f"the default route of {identifier} is an internet gateway: nodes have no public address"
    assert row.fix.startswith(f"aws ec2 replace-route --route-table-id {identifier} ")


# -- EKS


def test_a_cluster_that_does_not_exist_fails(environment: EksEnvironment, ec2: Any, preflight: Preflight) -> None:
    row = preflight("EKS cluster", cluster_with(environment, name="nobodys"))["nobodys"]
    assert (row.verdict, row.found) == (FAIL, "there is no such cluster in this region")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            lambda file: file.model_copy(update={"eks": file.eks.model_copy(update={"version": "1.34"})}),
            "eks.version is 1.34, and the cluster has 1.35",
        ),
        (
            lambda file: cluster_with(file, security_group="sg-00000000000000000"),
            "eks.existing.security_group is sg-00000000000000000, and the cluster has sg-0e5d4c3b2a1f09687",
        ),
        (
            lambda file: vpc_with(file, id="vpc-00000000000000000"),
            f"network.existing.id is vpc-00000000000000000, and the cluster has {VPC}",
        ),
        (
            lambda file: cluster_with(file, oidc_provider_arn="arn:aws:iam::1:oidc-provider/oidc.eks/id/X"),
            "eks.existing.oidc_provider_arn is oidc.eks/id/X, and the cluster has "
            "oidc.eks.us-west-2.amazonaws.com/id/5C1E0A77D9B34F2E8A6D4B1F0C93E7A2",
        ),
    ],
)
def test_each_difference_between_file_and_cluster_fails(
    environment: EksEnvironment,
    ec2: Any,
    preflight: Preflight,
    *,
    change: Callable[[Environment], Environment],
    found: str,
) -> None:
    row = preflight("EKS cluster", change(environment))[CLUSTER]
    assert (row.verdict, row.found) == (FAIL, found)
    assert row.fix.endswith(f"`aws eks describe-cluster --name {CLUSTER}` shows it")


def test_a_cluster_without_a_private_endpoint_fails(clients: Clients, ec2: Any, preflight: Preflight) -> None:
    clients("eks").update_cluster_config(
        name=CLUSTER, resourcesVpcConfig={"endpointPrivateAccess": False, "endpointPublicAccess": True}
    )
    row = preflight("EKS cluster")[CLUSTER]
    assert (row.verdict, row.found) == (FAIL, "its private endpoint is off; nodes and functions use it")
    assert row.fix.endswith("--resources-vpc-config endpointPrivateAccess=true")


def test_another_version_of_the_cni_fails(environment: EksEnvironment, ec2: Any, preflight: Preflight) -> None:
    row = preflight("EKS add-on", cluster_with(environment, vpc_cni="v1.19.0-eksbuild.1"))["vpc-cni"]
    assert (row.verdict, row.found) == (FAIL, "v1.22.4-eksbuild.3; the environment says v1.19.0-eksbuild.1")


def test_a_cluster_that_holds_another_hyperpod_cluster_fails(preflight: Preflight) -> None:
    with HyperPodBench() as bench:
        arn = bench.add_eks_cluster(CLUSTER)
        orchestrator = {"Eks": {"ClusterArn": arn}}
        bench.client("sagemaker").create_cluster(**bench.request(ClusterName="theirs", Orchestrator=orchestrator))
        rows = preflight("HyperPod's EKS cluster", client=bench.client)
    assert said(rows[CLUSTER]) == (
        FAIL,
        "HyperPod cluster theirs uses it, and can be its only one",
        "use another EKS cluster, or: aws sagemaker delete-cluster --cluster-name theirs",
    )


def test_a_kubernetes_api_that_does_not_answer_warns(
    account: Account, ec2: Any, preflight: Preflight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account.keys.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.keys.secret_access_key)
    row = preflight("Kubernetes API")[CLUSTER]
    assert row.verdict is WARN
    assert row.found.startswith("not checked: the Kubernetes API does not answer (")
    assert row.fix.startswith("connect from the VPC")


def test_an_add_on_that_the_ray_stack_installs_must_not_be_in_the_cluster_yet(
    ec2: Any, clients: Clients, environment: EksEnvironment, preflight: Preflight
) -> None:
    rows = preflight("EKS add-on", observed(environment))
    assert {row.verdict for row in rows.values()} == {PASS}
    assert rows.keys() == {"vpc-cni", CLOUDWATCH, HYPERPOD}
    eks = clients("eks")
    eks.create_addon(clusterName=CLUSTER, addonName=CLOUDWATCH)
    rows = preflight("EKS add-on", observed(environment))
    delete = f"aws eks delete-addon --cluster-name {CLUSTER} --addon-name {CLOUDWATCH} --region us-west-2"
    assert said(rows[CLOUDWATCH]) == (
        FAIL,
        "the cluster has it, and no stack of this environment owns it",
        f"remove observability.container_insights, or: {delete}",
    )
    assert rows[HYPERPOD].verdict is PASS
    assert preflight("EKS add-on").keys() == {"vpc-cni"}
    eks.delete_addon(clusterName=CLUSTER, addonName=CLOUDWATCH)


def test_an_add_on_of_the_environments_own_ray_stack_passes(
    ec2: Any, stacks: StackDeployer, environment: EksEnvironment, preflight: Preflight
) -> None:
    add_on = {"Type": "AWS::EKS::Addon", "Properties": {"ClusterName": CLUSTER, "AddonName": CLOUDWATCH}}
    ray = naming.stack(environment, "ray")
    assert stacks.deploy(ray, {"Resources": {"Agents": add_on}}) == "CREATE_COMPLETE"
    row = preflight("EKS add-on", observed(environment))[CLOUDWATCH]
    assert said(row) == (PASS, "is the environment's own", "")
    assert stacks.delete(ray) == "DELETE_COMPLETE"


def test_log_groups_that_agents_left_fail_with_the_command_that_deletes_them(
    clients: Clients, environment: EksEnvironment, preflight: Preflight
) -> None:
    title, logs = "names of Container Insights' log groups", clients("logs")
    assert preflight(title) == {}
    assert {row.verdict for row in preflight(title, observed(environment)).values()} == {PASS}
    name = naming.container_insights_log_group(CLUSTER, "performance")
    logs.create_log_group(logGroupName=name)
    rows = preflight(title, observed(environment))
    assert rows[name].verdict is FAIL
    assert rows[name].fix.endswith(f"aws logs delete-log-group --log-group-name {name} --region us-west-2")
    assert [row.verdict for row in rows.values()].count(PASS) == 3
    logs.delete_log_group(logGroupName=name)
