"""The bill of one side of a review; tests/synth compares it with the estimate of real environments."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.estimates.costs import HOURS_PER_MONTH, prices
from ops.review.checkouts.cdk import ReviewError
from ops.review.cost import BUDGET, bill
from ops.review.model import StandingCosts
from tests.unit.ops.review.hyperpod.assemblies import assembly, cluster, group

P5 = prices()["instances"]["ml.p5.48xlarge"]


def of(tmp_path: Path, **resources: Any) -> StandingCosts:
    return bill(assembly(tmp_path, one=resources))


def kubernetes(*objects: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest as CDK joins it around a value that is known only at the deployment: SUBNET."""
    before, after = json.dumps(objects).split("SUBNET")
    manifest = {"Fn::Join": ["", [before, {"Ref": "Subnet"}, after]]}
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}}


def storage_class(**parameters: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fsx-sc"},
        "provisioner": "fsx.csi.aws.com",
        "parameters": {"subnetId": "SUBNET", "deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": "125"}
        | parameters,
    }


def claim(storage: str, of_class: str = "fsx-sc") -> dict[str, Any]:
    spec = {"storageClassName": of_class, "resources": {"requests": {"storage": storage}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "fsx-claim"}, "spec": spec}


def test_nodes_are_priced_by_type_and_count_and_their_gpus_counted(tmp_path: Path) -> None:
    found = of(tmp_path, C=cluster(group("a", 3), group("b", 2, InstanceType="ml.m5.large")))
    assert found.usd_per_hour == pytest.approx(3 * P5 + 2 * prices()["instances"]["ml.m5.large"])
    assert found.gpus == 24
    assert found.unpriced == ("volumes of HyperPod's nodes",)


def test_neuron_devices_are_no_gpus(tmp_path: Path) -> None:
    found = of(tmp_path, C=cluster(group("a", 2, InstanceType="ml.trn1.32xlarge", InstanceStorageConfigs=[])))
    assert (found.gpus, found.unpriced) == (0, ("instance group a: 2 x ml.trn1.32xlarge",))


@pytest.mark.parametrize(
    ("resource", "unpriced"),
    [
        (
            cluster(group("a", InstanceStorageConfigs=[], InstanceType="ml.x9.large")),
            "instance group a: 4 x ml.x9.large",
        ),
        (
            cluster(group("a", InstanceStorageConfigs=[], InstanceCount={"Ref": "Count"})),
            "instance group a: its number of nodes is known only at the deployment",
        ),
        (
            cluster(InstanceGroups={"Fn::If": ["Big", [], []]}),
            "HyperPod's nodes: the instance groups are known only at the deployment",
        ),
        ({"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface"}}, "interface endpoint"),
        ({"Type": "AWS::EC2::Instance", "Properties": {}}, "AWS::EC2::Instance"),
        ({"Type": "AWS::KMS::Key", "Properties": {}}, "KMS key"),
        (
            {"Type": "AWS::FSx::FileSystem", "Properties": {"FileSystemType": "OPENZFS", "StorageCapacity": 64}},
            "FSx for Lustre: 64 GiB, None MB/s per TiB",
        ),
    ],
)
def test_what_has_no_price_is_listed(tmp_path: Path, resource: dict[str, Any], unpriced: str) -> None:
    found = of(tmp_path, R=resource)
    assert (found.usd_per_hour, found.unpriced) == (0, (unpriced,))


def test_what_is_listed_more_than_once_is_counted(tmp_path: Path) -> None:
    endpoint = {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface"}}
    assert of(tmp_path, A=endpoint, B=endpoint).unpriced == ("interface endpoint (2)",)


def test_free_resources_and_gateway_endpoints_are_not_listed(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        Role={"Type": "AWS::IAM::Role", "Properties": {}},
        S3={"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Gateway"}},
    )
    assert found == StandingCosts(0, 0)


def test_a_budget_is_free_and_part_of_the_bill(tmp_path: Path) -> None:
    data = {"BudgetLimit": {"Amount": 20000, "Unit": "USD"}, "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    assert of(tmp_path, A={"Type": BUDGET, "Properties": {"Budget": data}}) == StandingCosts(0, 0, budget_usd=20_000)
    daily = {**data, "TimeUnit": "DAILY"}
    assert of(tmp_path, A={"Type": BUDGET, "Properties": {"Budget": daily}}) == StandingCosts(0, 0)


def test_control_plane_gateway_and_system_nodes_are_priced(tmp_path: Path) -> None:
    scaling = {"InstanceTypes": ["m5.xlarge"], "ScalingConfig": {"DesiredSize": 2, "MinSize": 1}}
    found = of(
        tmp_path,
        Eks={"Type": "AWS::EKS::Cluster", "Properties": {}},
        Nat={"Type": "AWS::EC2::NatGateway", "Properties": {}},
        System={"Type": "AWS::EKS::Nodegroup", "Properties": scaling},
    )
    assert found.usd_per_hour == pytest.approx(0.10 + 0.045 + 2 * prices()["instances"]["m5.xlarge"])


def test_a_claims_file_system_is_priced_by_its_class(tmp_path: Path) -> None:
    found = of(tmp_path, K=kubernetes(storage_class(), claim("2400Gi"), claim("1200Gi", "of-somebody-else")))
    assert found.usd_per_hour == pytest.approx(2400 * prices()["fsx_gib_month"]["125"] / HOURS_PER_MONTH)
    assert found.unpriced == ()


def test_a_claims_file_system_of_another_class_of_disks_has_no_price(tmp_path: Path) -> None:
    found = of(tmp_path, K=kubernetes(storage_class(storageType="HDD"), claim("2400Gi")))
    assert found.unpriced == ("FSx for Lustre for a claim: 2,400 GiB, 125 MB/s per TiB",)


@pytest.mark.parametrize("manifest", ["[{", {"Ref": "Manifest"}, None])
def test_a_manifest_that_cannot_be_read_is_no_free_one(tmp_path: Path, manifest: Any) -> None:
    with pytest.raises(
        ReviewError, match=r"Manifest of R in stack one (is not JSON|holds a document that is no Kubernetes object)"
    ):
        of(tmp_path, R={"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}})


def volume(policy: str) -> dict[str, Any]:
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    properties = {"FileSystemType": "LUSTRE", "StorageCapacity": 2400, "LustreConfiguration": lustre}
    return {"Type": "AWS::FSx::FileSystem", "DeletionPolicy": policy, "Properties": properties}


@pytest.mark.parametrize(
    ("policy", "head", "kept"),
    [("Retain", {}, True), ("RetainExceptOnCreate", {}, True), ("Delete", {}, False), ("Retain", {"V": ()}, False)],
)
def test_what_leaves_its_stack_and_stays_costs_on(
    policy: str, head: dict[str, Any], *, kept: bool, tmp_path: Path
) -> None:
    base = assembly(tmp_path / "base", one={"V": volume(policy)})
    found = bill(assembly(tmp_path / "head", one={name: volume(policy) for name in head}), base)
    price = pytest.approx(2400 * prices()["fsx_gib_month"]["125"] / HOURS_PER_MONTH)
    assert found.kept_usd_per_hour == (price if kept else 0)
    assert found.usd_per_hour == (price if kept or head else 0)


def test_stacks_that_no_deployment_deletes_cost_on_beside_their_new_namesakes(tmp_path: Path) -> None:
    base = assembly(tmp_path / "base", one={"C": cluster(group("a", 2))}, two={"V": volume("Delete")})
    gone = bill(assembly(tmp_path / "gone", one={"C": cluster(group("a", 2))}), base)
    assert gone.kept_usd_per_hour == pytest.approx(2400 * prices()["fsx_gib_month"]["125"] / HOURS_PER_MONTH)
    head = assembly(tmp_path / "renamed", one={"C": cluster(group("a", 2))})
    manifest = head.directory / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"stackName": "rayhp-', '"stackName": "other-'))
    renamed = bill(head, base)
    assert renamed.gpus == 32
    assert renamed.usd_per_hour == pytest.approx(4 * P5 + gone.kept_usd_per_hour)
