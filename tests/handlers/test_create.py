"""Custom::HyperPodCluster, Create."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.model import DelayedView
from embedded_account.hyperpod.views import cluster_view
from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG
from handlers.hyperpod_cluster.record import DEPLOYED_TAG
from tests.handlers.support.clients import NO_RETRIES
from tests.handlers.support.cloudformation import OTHER_STACK, STACK_ID, CloudFormation
from tests.handlers.support.framework import MARKER, Properties


def test_cluster_is_in_service_and_its_name_is_the_physical_id(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    response = cloudformation.create(properties)
    cluster = sagemaker.describe_cluster(ClusterName="ml-cluster")
    assert (response.succeeded, response.physical_id) == (True, "ml-cluster")
    assert response.data == {"ClusterArn": cluster["ClusterArn"], "ClusterName": "ml-cluster"}
    assert cluster["ClusterStatus"] == "InService"


def test_life_of_a_cluster_through_the_real_sdk(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    cloudformation.framework.use(bench.client("sagemaker", config=NO_RETRIES))
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=60)
    grown = deepcopy(properties)
    grown["InstanceGroups"][1]["InstanceCount"] = 3
    assert cloudformation.update("ml-cluster", grown, properties).succeeded
    bench.fault(errors={"DeleteCluster": {"error": "ThrottlingException", "times": 1}})
    assert cloudformation.delete("ml-cluster").succeeded
    assert not bench.hyperpod.world.clusters


def test_create_makes_exactly_one_call_that_changes_something(
    cloudformation: CloudFormation, properties: Properties
) -> None:
    cloudformation.create(properties)
    reading = {"DescribeCluster", "DescribeStacks"}
    assert [call for call in cloudformation.calls if call not in reading] == ["CreateCluster"]


def test_create_does_not_wait_for_nodes(cloudformation: CloudFormation, properties: Properties, sagemaker: Any) -> None:
    assert cloudformation.create(properties).succeeded
    groups = sagemaker.describe_cluster(ClusterName="ml-cluster")["InstanceGroups"]
    assert [group["CurrentCount"] for group in groups] == [0, 0]


def test_numbers_and_booleans_reach_the_api_as_such(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any, bench: HyperPodBench
) -> None:
    group, key = properties["InstanceGroups"][1], bench.key()
    group["InstanceStorageConfigs"].append({"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": key}})
    cloudformation.create(properties)
    seen = sagemaker.describe_cluster(ClusterName="ml-cluster")["InstanceGroups"][1]
    assert (seen["TargetCount"], seen["ThreadsPerCore"]) == (2, 1)
    assert seen["InstanceStorageConfigs"] == [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 500}},
        {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": key}},
    ]


def test_cluster_carries_its_owner_and_the_given_tags(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    arn = cloudformation.create(properties, RequestId="first").data["ClusterArn"]
    tags = {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    assert tags.pop(DEPLOYED_TAG).startswith("first ")
    assert tags == {"project": "rayhp", STACK_TAG: STACK_ID, RESOURCE_TAG: "Cluster", REQUESTS_TAG: "first"}


def test_second_delivery_of_a_create_takes_over_its_own_cluster(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    first = cloudformation.create(properties, RequestId="once")
    assert cloudformation.create(properties, RequestId="once").data == first.data
    assert len(sagemaker.list_clusters()["ClusterSummaries"]) == 1


@pytest.mark.parametrize(
    "changes", [{"StackId": OTHER_STACK}, {"LogicalResourceId": "Other"}], ids=["other stack", "other resource"]
)
def test_cluster_of_somebody_else_is_not_taken_over(
    cloudformation: CloudFormation, properties: Properties, changes: dict[str, str]
) -> None:
    cloudformation.create(properties)
    response = cloudformation.create(properties, **changes)
    assert (response.succeeded, response.physical_id) == (False, MARKER)
    assert response.reason.startswith(
        f"HyperPod cluster ml-cluster exists already and belongs to Cluster of stack {STACK_ID} (status InService): "
        "choose another cluster name"
    )


def test_cluster_without_an_owner_is_not_taken_over(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    sagemaker.create_cluster(**bench.request())
    response = cloudformation.create(properties)
    assert "exists already and was not made by this stack" in response.reason


def test_missing_dependencies_chart_is_told_in_the_services_words(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    bench.eks.missing = ["health-monitoring-agent"]
    response = cloudformation.create(properties)
    assert response.physical_id == MARKER
    assert response.reason.startswith("CreateCluster failed (ValidationException): The Amazon EKS orchestrator cluster")
    assert sagemaker.list_clusters()["ClusterSummaries"] == []


def test_exceeded_quota_is_told_in_the_services_words(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(quota={"ml.p5.48xlarge": 0})
    assert cloudformation.create(properties).reason.startswith("CreateCluster failed (ResourceLimitExceeded): ")


def test_failed_cluster_fails_at_once_with_its_events_and_its_real_id(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(fail_creation="EFA health checks did not run successfully.")
    response = cloudformation.create(properties)
    first, *events = response.reason.splitlines()
    assert (response.succeeded, response.physical_id) == (False, "ml-cluster")
    assert first == "HyperPod cluster ml-cluster is Failed: EFA health checks did not run successfully."
    assert any("could not be created. EFA health checks did not run successfully." in event for event in events)


def test_unreadable_events_do_not_hide_the_failure(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    fault = {"error": "ValidationException", "message": "No such feature."}
    bench.fault(fail_creation="No capacity.", errors={"ListClusterEvents": fault})
    reason = cloudformation.create(properties).reason
    assert reason.splitlines() == [
        "HyperPod cluster ml-cluster is Failed: No capacity.",
        "(its events could not be read: ListClusterEvents failed (ValidationException): No such feature.)",
    ]


def test_response_of_a_talkative_failure_stays_small(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(fail_creation="é" * 4000)
    # The framework double refuses a response without room for the framework's own text.
    assert cloudformation.create(properties).reason.endswith(" …")


def test_shortage_of_capacity_does_not_fail_the_cluster(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(capacity={"ml.p5.48xlarge": 0})
    assert cloudformation.create(properties).succeeded


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["NodeRecover"], "Automatic", "CreateCluster: unknown field 'NodeRecover'; allowed: ClusterName, "),
        (["InstanceGroups", 0, "Count"], 1, "InstanceGroups[0]: unknown field 'Count'; allowed: InstanceCount, "),
        (
            ["InstanceGroups", 0, "InstanceCount"],
            "four",
            "InstanceGroups[0].InstanceCount: 'four' is not of type integer",
        ),
        (
            ["InstanceGroups", 0, "InstanceCount"],
            None,
            "InstanceGroups[0].InstanceCount: 'None' is not of type integer",
        ),
        (["VpcConfig"], "subnet-1", "VpcConfig: 'subnet-1' is not of type structure"),
        (["VpcConfig", "Subnets"], "subnet-1", "VpcConfig.Subnets: 'subnet-1' is not of type list"),
        (["RestrictedInstanceGroups"], [], "RestrictedInstanceGroups: not supported by this resource"),
    ],
)
def test_wrong_property_is_refused_before_any_call(
    cloudformation: CloudFormation, properties: Properties, path: list[Any], value: Any, reason: str
) -> None:
    target: Any = properties
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    response = cloudformation.create(properties)
    assert response.reason.startswith(reason)
    assert cloudformation.calls == []


def test_group_without_threads_per_core_is_refused(cloudformation: CloudFormation, properties: Properties) -> None:
    del properties["InstanceGroups"][0]["ThreadsPerCore"]
    assert cloudformation.create(properties).reason == "instance group head-group: ThreadsPerCore is missing"


def test_cluster_that_vanishes_while_it_is_created_is_an_error_after_a_while(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(errors={"DescribeCluster": "ResourceNotFound"})
    response = cloudformation.create(properties)
    assert response.reason == "HyperPod cluster ml-cluster is gone: it was deleted while it was being created"
    assert response.polls > 10


def test_service_that_does_not_know_the_new_cluster_yet_is_asked_again(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(errors={"DescribeCluster": {"error": "ResourceNotFound", "times": 3}})
    assert cloudformation.create(properties).succeeded


LOST = {"error": "InternalFailure", "times": 1, "after": True}


@pytest.mark.parametrize("minutes", [0.5, 2])
def test_create_whose_answer_is_lost_takes_over_its_cluster_when_it_becomes_known(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, minutes: float
) -> None:
    bench.fault(errors={"CreateCluster": LOST}, lag_minutes=minutes)
    response = cloudformation.create(properties)
    assert response.succeeded, response.reason
    assert cloudformation.calls.count("CreateCluster") == 2


def test_create_whose_answer_is_lost_takes_over_its_cluster_when_its_tags_become_known(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    bench.fault(errors={"CreateCluster": LOST})

    def lag(called: str, _: bool) -> None:
        if called == "CreateCluster":
            [cluster] = bench.hyperpod.world.clusters.values() or [None]
            if cluster and not cluster.outdated:
                soon = bench.clock.present + timedelta(minutes=1)
                cluster.outdated.append(DelayedView(soon, cluster_view(cluster)))

    cloudformation.framework.interruptions.append(lag)
    response = cloudformation.create(properties)
    assert response.succeeded, response.reason
    assert cloudformation.calls.count("ListTags") > 1


def test_cluster_of_somebody_else_that_is_not_new_is_refused_at_once(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    sagemaker.create_cluster(**bench.request())
    bench.advance(10)
    assert not cloudformation.create(properties).succeeded
    assert cloudformation.calls.count("DescribeCluster") == 1


@pytest.mark.parametrize("minutes", [55, 170])
def test_cluster_whose_nodes_take_longer_than_cloudformation_waits_is_left_to_its_creation(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, minutes: int
) -> None:
    """Without continuous provisioning, as with Slurm by file, the cluster is Creating until all nodes run."""
    by_file = deepcopy(properties)
    del by_file["NodeProvisioningMode"]
    bench.hyperpod.world.minutes = replace(bench.hyperpod.world.minutes, provision=minutes)
    response = cloudformation.create(by_file)
    assert response.succeeded, response.reason
    assert response.data["ClusterName"] == "ml-cluster"
    bench.advance(minutes)
    [cluster] = bench.hyperpod.world.clusters.values()
    assert cluster.status == "InService"


def test_creation_that_fails_after_cloudformation_waited_is_told_by_the_next_update(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    by_file = deepcopy(properties)
    del by_file["NodeProvisioningMode"]
    bench.hyperpod.world.minutes = replace(bench.hyperpod.world.minutes, provision=90)
    assert cloudformation.create(by_file).succeeded
    bench.fault(fail_lifecycle={"group": "head-group"})
    bench.advance(60)
    response = cloudformation.update("ml-cluster", by_file | {"NodeRecovery": "None"}, by_file)
    assert response.reason.startswith("HyperPod cluster ml-cluster is Failed")
