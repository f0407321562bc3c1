"""Custom::HyperPodCluster over clusters that Slurm orchestrates."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.cloudformation import CloudFormation
from tests.handlers.support.framework import Properties


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench(slurm=True) as bench:
        yield bench


@pytest.fixture
def properties(bench: HyperPodBench) -> Properties:
    """Return properties as the stack writes them: CDK leaves out an empty object."""
    request: Properties = bench.request(Orchestrator={"Slurm": "{}"})
    request["InstanceGroups"][1]["SlurmConfig"]["PartitionNames"] = ["dev"]
    return request


@pytest.fixture
def created(cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench) -> Properties:
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=60)
    return properties


def live(bench: HyperPodBench) -> dict[str, Any]:
    cluster: dict[str, Any] = bench.client("sagemaker").describe_cluster(ClusterName="ml-cluster")
    return cluster


def test_a_cluster_is_created_without_eks_once_its_controller_runs(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    assert cloudformation.create(properties).succeeded
    cluster = live(bench)
    assert cluster["Orchestrator"] == {"Slurm": {}}
    assert [group["CurrentCount"] for group in cluster["InstanceGroups"]] == [1, 0]
    assert bench.eks.access_entries == {}
    bench.advance(minutes=60)
    assert [group["CurrentCount"] for group in live(bench)["InstanceGroups"]] == [1, 2]
    assert bench.eks.nodes == {}


def test_a_controller_whose_scripts_fail_fails_the_creation_with_the_reason(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(fail_lifecycle={"group": "head-group"})
    response = cloudformation.create(properties)
    assert not response.succeeded
    assert "Lifecycle scripts did not run successfully: on_create.sh ended with exit code 1" in response.reason


def test_scripts_that_fail_on_compute_nodes_leave_the_cluster_in_service(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(fail_lifecycle={"group": "worker-group-1", "times": 1})
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=120)
    assert live(bench)["ClusterStatus"] == "InService"


def test_what_nodes_are_in_slurm_is_refused_with_advice(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    new = deepcopy(created)
    new["InstanceGroups"][1]["SlurmConfig"] = {"NodeType": "Login"}
    response = cloudformation.update("ml-cluster", new, created)
    assert not response.succeeded
    assert response.reason.startswith(
        "NodeType of instance group worker-group-1 cannot be changed: give the group another name"
    )


def test_partition_of_a_group_is_changed_in_place(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    new = deepcopy(created)
    new["InstanceGroups"][1]["SlurmConfig"]["PartitionNames"] = ["vision"]
    assert cloudformation.update("ml-cluster", new, created).succeeded
    assert live(bench)["InstanceGroups"][1]["SlurmConfig"]["PartitionNames"] == ["vision"]


@pytest.mark.parametrize("to_the_api", [True, False])
def test_another_way_to_configure_slurm_is_refused_with_advice(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, *, to_the_api: bool
) -> None:
    by_scripts = deepcopy(properties)
    del by_scripts["Orchestrator"], by_scripts["NodeProvisioningMode"]
    for group in by_scripts["InstanceGroups"]:
        del group["SlurmConfig"]
    old, new = (by_scripts, properties) if to_the_api else (properties, by_scripts)
    assert cloudformation.create(old).succeeded
    bench.advance(minutes=60)
    response = cloudformation.update("ml-cluster", new, old)
    assert not response.succeeded
    assert response.reason.startswith("Orchestrator of HyperPod cluster ml-cluster cannot be changed: destroy")


def test_a_file_of_parameters_beside_the_scripts_is_refused_in_the_services_words(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.client("s3").put_object(Bucket="sagemaker-scripts", Key="eks/provisioning_parameters.json", Body=b"{}")
    response = cloudformation.create(properties)
    assert not response.succeeded
    assert "cannot include both a SLURM Orchestrator Config and a provisioning_parameters.json" in response.reason
