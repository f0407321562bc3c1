"""Test EKS clusters, node groups and add-ons with a fake control plane, without Kubernetes."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.machine.processes import ProcessError
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.services.shared.refusal import Refusal
from embedded_account.testing.clients import Clients
from embedded_account.testing.eks_setup import EksSetup, set_up
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.waiting import wait_until


@pytest.fixture
def eks(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[EksSetup]:
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    yield set_up(account, clients)
    for name in clients("eks").list_clusters()["clusters"]:
        for group in clients("eks").list_nodegroups(clusterName=name)["nodegroups"]:
            clients("eks").delete_nodegroup(clusterName=name, nodegroupName=group)
        clients("eks").delete_cluster(name=name)


def test_cluster_answers_with_its_control_plane(eks: EksSetup) -> None:
    found = eks.create()

    assert found["status"] == "ACTIVE"
    assert found["endpoint"] == FakePlane.endpoint
    assert found["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.us-west-2.amazonaws.com/id/")
    assert found["resourcesVpcConfig"]["vpcId"] == eks.vpc_id
    assert found["accessConfig"]["authenticationMode"] == "API"
    assert eks.account.clusters.of_issuer(found["identity"]["oidc"]["issuer"]) is not None


def test_cluster_creates_and_deletes_its_network_and_leaves_its_log_group(eks: EksSetup) -> None:
    found = eks.create(logging={"clusterLogging": [{"types": ["api"], "enabled": True}]})
    kinds = sorted(made.kind for made in eks.account.background.made_by(found["arn"]))
    assert kinds == ["log-group", "network-interface", "network-interface", "security-group"]
    assert eks.account.background.holders(eks.subnets[0])

    eks.api.delete_cluster(name="c")

    assert [made.kind for made in eks.account.background.made_by(found["arn"])] == ["log-group"]
    assert eks.account.clusters.all() == []
    eks.clients("logs").delete_log_group(logGroupName="/aws/eks/c/cluster")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "1.29"}, "unsupported Kubernetes version 1.29"),
        ({"version": "1.31"}, "unsupported Kubernetes version 1.31; EKS supports 1.32, "),
        ({"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}}, "only access entries. Allowed: API"),
        ({"accessConfig": {}}, "authenticationMode CONFIG_MAP"),
        ({"roleArn": "arn:aws:iam::111122223333:role/nobody"}, "could not be assumed"),
        ({"computeConfig": {"enabled": True}}, "no Auto Mode"),
        ({"logging": {"clusterLogging": [{"types": ["api"]}]}, "version": "9.9"}, "unsupported Kubernetes version"),
        (
            {
                "encryptionConfig": [
                    {"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-west-2:111122223333:key/x"}}
                ]
            },
            "does not exist",
        ),
        ({"kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"}}, "10.100.0.0/16"),
    ],
)
def test_bad_clusters_are_refused(eks: EksSetup, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(eks.api.exceptions.InvalidParameterException) as refusal:
        eks.api.create_cluster(**eks.request(**changes))

    assert reason in str(refusal.value)
    assert eks.api.list_clusters()["clusters"] == []


def test_subnets_must_be_in_two_zones(eks: EksSetup) -> None:
    with pytest.raises(eks.api.exceptions.InvalidParameterException, match="at least two different AZs"):
        eks.api.create_cluster(**eks.request(resourcesVpcConfig={"subnetIds": eks.subnets[:1]}))


def test_cluster_name_is_unique(eks: EksSetup) -> None:
    eks.create()

    with pytest.raises(eks.api.exceptions.ResourceInUseException):
        eks.api.create_cluster(**eks.request())


def test_control_plane_that_does_not_start_leaves_nothing(eks: EksSetup) -> None:
    class Broken(FakePlane):
        def start(self) -> None:
            raise ProcessError("etcd ended with code 1")

    eks.account.clusters = ClusterHost(eks.account, lambda *_: Broken())
    before = eks.account.background.all()

    with pytest.raises(ResourceError, match="EKS cluster c did not start: etcd ended with code 1"):
        eks.create()

    assert eks.api.list_clusters()["clusters"] == []
    assert eks.account.background.all() == before


def test_cluster_gets_the_control_plane_that_was_prepared_for_it_and_the_next_one_its_own(eks: EksSetup) -> None:
    started: list[tuple[str, str, str]] = []

    def make(account: Account, name: str, issuer: str, version: str) -> FakePlane:
        assert account is eks.account
        started.append((name, issuer, version))
        return FakePlane()

    eks.account.clusters = ClusterHost(eks.account, make)
    service_of(eks.account).prepare_cluster("c", "1.35")
    wait_until(lambda: bool(started), "the prepared control plane")

    prepared = eks.create()["identity"]["oidc"]["issuer"]
    eks.api.delete_cluster(name="c")
    second = eks.create()["identity"]["oidc"]["issuer"]

    assert started == [("c", prepared, "1.35"), ("c", second, "1.35")]
    assert prepared != second


def test_control_plane_that_was_prepared_in_vain_is_stopped_at_the_end(account: Account) -> None:
    plane = FakePlane()
    host = ClusterHost(account, lambda *_: plane)
    host.prepare("c", "https://oidc.eks.us-west-2.amazonaws.com/id/1", "1.35")
    wait_until(lambda: plane.running, "the prepared control plane")
    assert host.all() == []

    host.stop_all()
    assert not plane.running


def test_prepared_control_plane_that_does_not_start_fails_its_clusters_creation(eks: EksSetup) -> None:
    class Broken(FakePlane):
        def start(self) -> None:
            raise ProcessError("etcd ended with code 1")

    eks.account.clusters = ClusterHost(eks.account, lambda *_: Broken())
    service_of(eks.account).prepare_cluster("c", "1.35")
    with pytest.raises(ResourceError, match="EKS cluster c did not start: etcd ended with code 1"):
        eks.create()


def test_cluster_of_another_version_than_the_prepared_one_runs_its_own(eks: EksSetup) -> None:
    service_of(eks.account).prepare_cluster("c", "1.35")
    eks.create(version="1.34")
    assert eks.kubernetes.version == "v1.34.0"


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.36"])
def test_upgrade_goes_one_minor_version_at_a_time_and_never_back(eks: EksSetup, version: str) -> None:
    """hashicorp/terraform-provider-aws and rancher/rancher (#43316, #21043) quote EKS's words for each of these."""
    eks.create(version="1.34")

    said = rf"Unsupported Kubernetes minor version update from 1\.34 to {version}$"
    with pytest.raises(eks.api.exceptions.InvalidParameterException, match=said):
        eks.api.update_cluster_version(name="c", version=version)
    described = eks.api.describe_cluster(name="c")["cluster"]
    assert (described["status"], described["version"]) == ("ACTIVE", "1.34")


def test_upgrade_is_in_progress_until_the_control_plane_runs_the_new_version(
    eks: EksSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    eks.create(version="1.34")
    plane, upgrade, go_on = eks.account.clusters.get("c").control_plane, FakePlane.upgrade, threading.Event()

    def slowly(plane: FakePlane, version: str) -> None:
        go_on.wait()
        upgrade(plane, version)

    monkeypatch.setattr(FakePlane, "upgrade", slowly)
    update = eks.api.update_cluster_version(name="c", version="1.35")["update"]
    assert (update["type"], update["status"]) == ("VersionUpdate", "InProgress")
    assert {"type": "Version", "value": "1.35"} in update["params"]
    described = eks.api.describe_cluster(name="c")["cluster"]
    assert (described["status"], described["version"]) == ("UPDATING", "1.34")
    in_use = eks.api.exceptions.ResourceInUseException
    said = f"because cluster c currently has update {update['id']} in progress"
    with pytest.raises(in_use, match=f"Cannot VersionUpdate {said}"):
        eks.api.update_cluster_version(name="c", version="1.35")
    with pytest.raises(in_use, match=f"Cannot ConfigUpdate {said}"):
        eks.api.update_cluster_config(name="c", deletionProtection=True)
    with pytest.raises(in_use, match="Cannot delete because cluster c currently has an update in progress"):
        eks.api.delete_cluster(name="c")

    go_on.set()
    service_of(eks.account).wait_until_active("c")
    assert eks.api.describe_update(name="c", updateId=update["id"])["update"]["status"] == "Successful"
    described = eks.api.describe_cluster(name="c")["cluster"]
    assert (described["status"], described["version"]) == ("ACTIVE", "1.35")
    assert plane.api.get("/version") == {"gitVersion": "v1.35.0"}


def test_upgrade_whose_control_plane_does_not_start_has_failed(eks: EksSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    eks.create(version="1.34")

    def broken(plane: FakePlane, version: str) -> None:
        raise ProcessError("kube-apiserver ended with code 1")

    monkeypatch.setattr(FakePlane, "upgrade", broken)
    update = eks.api.update_cluster_version(name="c", version="1.35")["update"]
    with pytest.raises(
        ResourceError, match=r"EKS cluster c was not updated to 1\.35: kube-apiserver ended with code 1"
    ):
        service_of(eks.account).wait_until_active("c")
    found = eks.api.describe_update(name="c", updateId=update["id"])["update"]
    assert (found["status"], found["errors"][0]["errorMessage"]) == ("Failed", "kube-apiserver ended with code 1")
    described = eks.api.describe_cluster(name="c")["cluster"]
    assert (described["status"], described["version"]) == ("ACTIVE", "1.34")


def test_upgrade_waits_for_node_groups_of_the_clusters_version(eks: EksSetup) -> None:
    """As EKS refuses it: hashicorp/terraform-provider-aws #19478."""
    eks.create(version="1.33")
    eks.create_nodegroup()
    eks.api.update_cluster_version(name="c", version="1.34")
    service_of(eks.account).wait_until_active("c")
    said = r"Nodegroups system must be updated to match cluster version 1\.34 before updating cluster version"
    with pytest.raises(eks.api.exceptions.InvalidParameterException, match=said):
        eks.api.update_cluster_version(name="c", version="1.35")


def test_node_group_that_cannot_reach_its_services_is_not_created(eks: EksSetup) -> None:
    eks.create()
    ec2 = eks.clients("ec2")
    mine = [{"Name": "vpc-id", "Values": [eks.vpc_id]}, {"Name": "association.main", "Values": ["true"]}]
    [main] = ec2.describe_route_tables(Filters=mine)["RouteTables"]
    ec2.delete_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0")

    with pytest.raises(eks.api.exceptions.InvalidRequestException, match="has no route to ec2"):
        eks.create_nodegroup()

    assert eks.api.list_nodegroups(clusterName="c")["nodegroups"] == []


def test_nodes_join_with_labels_taints_and_capacity(eks: EksSetup) -> None:
    eks.create()

    eks.create_nodegroup(
        labels={"role": "system"}, taints=[{"key": "only", "value": "system", "effect": "NO_SCHEDULE"}]
    )

    nodes = [eks.kubernetes.objects[f"/api/v1/nodes/{name}"] for name in eks.kubernetes.names("nodes")]
    assert [node["metadata"]["name"] for node in nodes] == [
        "ip-10-0-0-5.us-west-2.compute.internal",
        "ip-10-0-1-5.us-west-2.compute.internal",
    ]
    labels = nodes[1]["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] == "us-west-2b"
    assert labels["eks.amazonaws.com/nodegroup"] == "system"
    assert labels["role"] == "system"
    assert nodes[0]["spec"]["taints"] == [{"key": "only", "value": "system", "effect": "NoSchedule"}]
    assert nodes[0]["status"]["allocatable"]["cpu"] == "1930m"
    assert nodes[0]["status"]["capacity"]["pods"] == "29"


def test_control_plane_keeps_its_interfaces_unless_its_network_changes(eks: EksSetup) -> None:
    """CloudFormation sends the whole network configuration with each update."""
    eks.create()
    before = interfaces(eks)
    eks.api.update_cluster_config(name="c", resourcesVpcConfig={"subnetIds": eks.subnets, "endpointPublicAccess": True})
    assert interfaces(eks) == before
    group = eks.clients("ec2").create_security_group(GroupName="g", Description="g", VpcId=eks.vpc_id)["GroupId"]
    eks.api.update_cluster_config(name="c", resourcesVpcConfig={"securityGroupIds": [group]})
    assert not interfaces(eks) & before


def interfaces(eks: EksSetup) -> set[str]:
    of_eks = {"Name": "description", "Values": ["Amazon EKS c"]}
    found = eks.clients("ec2").describe_network_interfaces(Filters=[of_eks])["NetworkInterfaces"]
    assert found
    return {each["NetworkInterfaceId"] for each in found}


def test_node_group_scales_and_deletes_its_interfaces(eks: EksSetup) -> None:
    eks.create()
    group = eks.create_nodegroup()
    name = {"clusterName": "c", "nodegroupName": "system"}

    eks.api.update_nodegroup_config(**name, scalingConfig={"desiredSize": 3})
    assert len(eks.kubernetes.names("nodes")) == len(eks.account.background.made_by(group["nodegroupArn"])) == 3
    eks.api.update_nodegroup_config(**name, scalingConfig={"desiredSize": 1})
    assert len(eks.kubernetes.names("nodes")) == 1
    eks.api.delete_nodegroup(**name)

    assert eks.kubernetes.names("nodes") == []
    assert eks.account.background.made_by(group["nodegroupArn"]) == []
    assert eks.api.list_access_entries(clusterName="c")["accessEntries"] == []


def test_cluster_with_node_groups_cannot_be_deleted(eks: EksSetup) -> None:
    eks.create()
    eks.create_nodegroup()

    with pytest.raises(eks.api.exceptions.ResourceInUseException, match="has nodegroups attached"):
        eks.api.delete_cluster(name="c")
    assert [each.name for each in eks.account.clusters.all()] == ["c"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"instanceTypes": ["m5.huge"]}, "do not exist"),
        ({"scalingConfig": {"minSize": 3, "desiredSize": 2, "maxSize": 3}}, "minSize <= desiredSize"),
        ({"amiType": "AL2_x86_64"}, "amiType AL2_x86_64"),
        ({"nodeRole": "arn:aws:iam::111122223333:role/cluster"}, "does not trust ec2.amazonaws.com"),
    ],
)
def test_bad_node_groups_are_refused(eks: EksSetup, changes: dict[str, Any], reason: str) -> None:
    eks.create()

    with pytest.raises(ClientError) as refusal:
        eks.create_nodegroup(**changes)
    assert reason in str(refusal.value)
    assert eks.api.list_nodegroups(clusterName="c")["nodegroups"] == []


def test_nodes_without_their_policies_never_join(eks: EksSetup) -> None:
    eks.create()
    role = make_role(eks.account, "bare", "ec2.amazonaws.com")

    with pytest.raises(eks.api.exceptions.InvalidRequestException, match="NodeCreationFailure"):
        eks.create_nodegroup(nodeRole=role.attributes()["Arn"])


def test_new_cluster_has_the_addons_that_eks_installs_itself(eks: EksSetup) -> None:
    eks.create()

    assert eks.kubernetes.names("daemonsets") == ["aws-node", "kube-proxy"]
    assert eks.kubernetes.names("deployments") == ["coredns"]
    assert eks.api.list_addons(clusterName="c")["addons"] == []


def test_addon_creates_and_deletes_its_stand_in(eks: EksSetup) -> None:
    eks.create(bootstrapSelfManagedAddons=False)
    assert eks.kubernetes.names("daemonsets") == []

    values = json.dumps({"enableNetworkPolicy": "true"})
    eks.api.create_addon(clusterName="c", addonName="vpc-cni", configurationValues=values)

    daemon_set = eks.kubernetes.objects["/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node"]
    assert daemon_set["metadata"]["labels"]["rehearsal/stand-in"] == "true"
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["aws-node", "aws-eks-nodeagent"]
    eks.api.delete_addon(clusterName="c", addonName="vpc-cni")
    assert eks.kubernetes.names("daemonsets") == []


def test_cloudwatchs_addon_has_a_namespace_of_its_own_that_goes_with_it(eks: EksSetup) -> None:
    eks.create(bootstrapSelfManagedAddons=False)
    eks.api.create_addon(clusterName="c", addonName="amazon-cloudwatch-observability")

    assert eks.kubernetes.names("daemonsets") == ["cloudwatch-agent", "fluent-bit"]
    assert "/api/v1/namespaces/amazon-cloudwatch" in eks.kubernetes.objects
    eks.api.delete_addon(clusterName="c", addonName="amazon-cloudwatch-observability")
    assert eks.kubernetes.names("daemonsets") == []
    assert "/api/v1/namespaces/amazon-cloudwatch" not in eks.kubernetes.objects


def test_an_addons_role_must_be_one_that_its_service_account_can_assume(eks: EksSetup) -> None:
    eks.create(bootstrapSelfManagedAddons=False)
    role = make_role(eks.account, "agents", "ec2.amazonaws.com").attributes()["Arn"]
    with pytest.raises(eks.api.exceptions.InvalidParameterException, match="amazon-cloudwatch:cloudwatch-agent"):
        eks.api.create_addon(clusterName="c", addonName="amazon-cloudwatch-observability", serviceAccountRoleArn=role)
    assert eks.api.list_addons(clusterName="c")["addons"] == []


def test_hyperpods_observability_addon_needs_a_workspace_that_exists(eks: EksSetup, clients: Clients) -> None:
    eks.create(bootstrapSelfManagedAddons=False)
    made = clients("amp").create_workspace(alias="a")
    endpoint = f"https://aps-workspaces.us-west-2.amazonaws.com/workspaces/{made['workspaceId']}"
    right = {"ampWorkspace": {"arn": made["arn"], "prometheusEndpoint": endpoint}}
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "ampWorkspace.arn"),
        ({"ampWorkspace": right["ampWorkspace"] | {"arn": "arn:aws:aps:us-west-2:1:workspace/ws-0"}}, "does not exist"),
        ({"ampWorkspace": right["ampWorkspace"] | {"prometheusEndpoint": f"{endpoint}0"}}, "prometheusEndpoint"),
        (right | {"workspace": {}}, "unknown keys: workspace"),
        (right | {"metricsProvider": {"nodeMetrics": {"level": "ALL"}}}, "nodeMetrics.level"),
    )
    for values, reason in wrong:
        request = {"addonName": "amazon-sagemaker-hyperpod-observability", "configurationValues": json.dumps(values)}
        with pytest.raises(eks.api.exceptions.InvalidParameterException, match=reason):
            eks.api.create_addon(clusterName="c", **request)
    eks.api.create_addon(
        clusterName="c",
        addonName="amazon-sagemaker-hyperpod-observability",
        configurationValues=json.dumps(right),
    )
    assert eks.kubernetes.names("deployments") == ["hyperpod-observability-controller-manager"]


def test_addons_of_a_forgotten_cluster_are_not_those_of_a_new_one(eks: EksSetup) -> None:
    eks.create()
    eks.api.create_addon(clusterName="c", addonName="coredns")
    # A reset of moto's records forgets a cluster without its deletion.
    del service_of(eks.account).records.backend.clusters["c"]
    eks.create()
    assert eks.api.list_addons(clusterName="c")["addons"] == []
    assert eks.api.create_addon(clusterName="c", addonName="coredns")["addon"]["addonName"] == "coredns"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"addonName": "amazon-guess"}, "not supported in 1.35"),
        ({"addonName": "vpc-cni", "addonVersion": "latest"}, "version specified is not supported"),
        ({"addonName": "vpc-cni", "configurationValues": "{no json"}, "not valid JSON"),
        ({"addonName": "vpc-cni", "serviceAccountRoleArn": "arn:aws:iam::111122223333:role/x"}, "does not exist"),
    ],
)
def test_bad_addons_are_refused(eks: EksSetup, request_: dict[str, Any], reason: str) -> None:
    eks.create()

    with pytest.raises(eks.api.exceptions.InvalidParameterException) as refusal:
        eks.api.create_addon(clusterName="c", **request_)
    assert reason in str(refusal.value)
    assert eks.api.list_addons(clusterName="c")["addons"] == []


def test_pod_identity_needs_a_role_that_trusts_pods(eks: EksSetup) -> None:
    eks.create()
    where = {"clusterName": "c", "namespace": "ray", "serviceAccount": "head"}

    with pytest.raises(eks.api.exceptions.InvalidParameterException, match=r"pods\.eks\.amazonaws\.com"):
        eks.api.create_pod_identity_association(**where, roleArn=eks.role_arn)
    role = make_role(eks.account, "pods", "pods.eks.amazonaws.com").attributes()["Arn"]
    made = eks.api.create_pod_identity_association(**where, roleArn=role)["association"]
    with pytest.raises(eks.api.exceptions.ResourceInUseException):
        eks.api.create_pod_identity_association(**where, roleArn=role)

    eks.api.delete_pod_identity_association(clusterName="c", associationId=made["associationId"])
    assert eks.api.list_pod_identity_associations(clusterName="c")["associations"] == []


def test_a_node_group_follows_its_control_plane_and_cannot_be_downgraded(eks: EksSetup) -> None:
    eks.create(version="1.34")
    resources = ResourceModels(eks.account)
    properties = {"ClusterName": "c", "NodeRole": eks.node_role_arn, "Subnets": eks.subnets, "Version": "1.34"}
    group = resources.create("AWS::EKS::Nodegroup", properties)

    def version() -> str:
        name = group.attributes()["NodegroupName"]
        found: str = eks.api.describe_nodegroup(clusterName="c", nodegroupName=name)["nodegroup"]["version"]
        return found

    with pytest.raises(Refusal, match=r"InvalidParameterException: .* newer than the control plane's, 1\.34"):
        resources.update(group, {**properties, "Version": "1.35"})
    eks.api.update_cluster_version(name="c", version="1.35")
    service_of(eks.account).wait_until_active("c")
    assert version() == "1.34"
    resources.update(group, {**properties, "Version": "1.35"})
    assert version() == "1.35"
    with pytest.raises(Refusal, match=r"InvalidParameterException: .* cannot be rolled back to 1\.34"):
        resources.update(group, properties)
    assert version() == "1.35"


def test_cloudformation_makes_changes_and_deletes_a_cluster(eks: EksSetup) -> None:
    resources = ResourceModels(eks.account)
    properties = {
        "Name": "c",
        "RoleArn": eks.role_arn,
        "Version": "1.34",
        "AccessConfig": {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": "false"},
        "ResourcesVpcConfig": {"SubnetIds": eks.subnets, "EndpointPrivateAccess": "true"},
    }
    cluster = resources.create("AWS::EKS::Cluster", properties)
    assert cluster.is_created()
    group = resources.create(
        "AWS::EKS::Nodegroup",
        {
            "ClusterName": "c",
            "NodeRole": eks.node_role_arn,
            "Subnets": eks.subnets,
            "ScalingConfig": {"MinSize": "1", "DesiredSize": "1", "MaxSize": "2"},
            "Labels": {"Some.Label": "True"},
        },
    )
    addon = resources.create("AWS::EKS::Addon", {"ClusterName": "c", "AddonName": "coredns"})

    assert cluster.attributes()["Arn"].endswith(":cluster/c")
    assert cluster.attributes()["CertificateAuthorityData"]
    node = eks.kubernetes.objects[f"/api/v1/nodes/{eks.kubernetes.names('nodes')[0]}"]
    assert node["metadata"]["labels"]["Some.Label"] == "True"
    resources.update(cluster, {**properties, "Version": "1.35"})
    assert eks.api.describe_cluster(name="c")["cluster"]["version"] == "1.35"
    for model in (addon, group, cluster):
        resources.delete(model)
    assert eks.api.list_clusters()["clusters"] == []
