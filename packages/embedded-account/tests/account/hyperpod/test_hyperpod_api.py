"""Test the rest of the API: tags, lists, fault injection and the journal."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from werkzeug.exceptions import BadRequest

from embedded_account.hyperpod.api.operations import HyperPodApi
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.permissions.required import REQUIRED

Refusal = Callable[..., str]
NAME = {"ClusterName": "ml-cluster"}


def test_tags_are_added_replaced_and_deleted(bench: HyperPodBench, sagemaker: Any) -> None:
    tags = [{"Key": "stack", "Value": "1"}, {"Key": "team", "Value": "a"}]
    arn = sagemaker.create_cluster(**bench.request(Tags=tags))["ClusterArn"]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == tags
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "stack", "Value": "2"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stack", "Value": "2"}]


def test_tags_are_limited_to_fifty(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    arn = sagemaker.create_cluster(**bench.request(Tags=[{"Key": str(n), "Value": ""} for n in range(50)]))[
        "ClusterArn"
    ]
    text = refusal("ValidationException", sagemaker.add_tags, ResourceArn=arn, Tags=[{"Key": "x", "Value": ""}])
    assert "50 tags" in text


def test_moto_still_answers_for_tags_of_other_resources(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_model_package_group(ModelPackageGroupName="g", Tags=[{"Key": "a", "Value": "b"}])
    arn = sagemaker.describe_model_package_group(ModelPackageGroupName="g")["ModelPackageGroupArn"]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]


def test_cluster_is_found_by_arn_too(bench: HyperPodBench, sagemaker: Any) -> None:
    arn = sagemaker.create_cluster(**bench.request())["ClusterArn"]
    assert sagemaker.describe_cluster(ClusterName=arn)["ClusterName"] == "ml-cluster"


def test_description_echoes_the_request(bench: HyperPodBench, sagemaker: Any) -> None:
    volumes = [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]
    group = bench.group("g", "ml.p5.48xlarge", 1, InstanceStorageConfigs=volumes, MinInstanceCount=1)
    request = bench.request(InstanceGroups=[group])
    sagemaker.create_cluster(**request)
    described = sagemaker.describe_cluster(**NAME)
    assert {key: described[key] for key in ("VpcConfig", "Orchestrator", "NodeRecovery")} == {
        key: request[key] for key in ("VpcConfig", "Orchestrator", "NodeRecovery")
    }
    echoed = described["InstanceGroups"][0]
    same = ("InstanceStorageConfigs", "LifeCycleConfig", "ExecutionRole", "InstanceType", "ThreadsPerCore")
    assert {key: echoed[key] for key in same} == {key: group[key] for key in same}
    assert echoed["MinCount"] == 1


def test_lists_come_in_pages(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request(InstanceGroups=[bench.group("g", "ml.m5.xlarge", 7)]))
    bench.advance(minutes=30)
    pages = [
        len(page["ClusterNodeSummaries"])
        for page in sagemaker.get_paginator("list_cluster_nodes").paginate(**NAME, PaginationConfig={"PageSize": 3})
    ]
    assert pages == [3, 3, 1]


def test_clusters_are_listed_filtered_and_sorted(bench: HyperPodBench, sagemaker: Any) -> None:
    for name in ("b-one", "a-two"):
        arn = bench.add_eks_cluster(name)
        sagemaker.create_cluster(**bench.request(ClusterName=name, Orchestrator={"Eks": {"ClusterArn": arn}}))
        bench.advance(minutes=1)

    def names(**arguments: Any) -> list[str]:
        return [each["ClusterName"] for each in sagemaker.list_clusters(**arguments)["ClusterSummaries"]]

    assert names() == ["b-one", "a-two"]
    assert names(SortBy="NAME") == ["a-two", "b-one"]
    assert names(SortOrder="Descending") == ["a-two", "b-one"]
    assert names(NameContains="one") == ["b-one"]


def test_events_are_filtered_and_the_latest_comes_first(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=30)
    events = sagemaker.list_cluster_events(**NAME)["Events"]
    assert events[-1]["Description"] == "Cluster ml-cluster is being created."
    scaling = sagemaker.list_cluster_events(**NAME, ResourceType="InstanceGroup", InstanceGroupName="worker-group-1")
    assert [each["Description"] for each in scaling["Events"]] == [
        "Launching 2 of 2 missing instances of instance group worker-group-1."
    ]
    first = sagemaker.describe_cluster_event(**NAME, EventId=events[-1]["EventId"])["EventDetails"]
    entries = first["EventDetails"]["EventMetadata"]["Cluster"]
    assert entries["EksRoleAccessEntries"] == [bench.execution_role]
    assert entries["SlrAccessEntry"] == "AWSServiceRoleForSageMakerHyperPod"


def test_call_fails_as_often_as_asked(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(errors={"ListClusters": {"error": "AccessDeniedException", "message": "no", "times": 2}})
    assert refusal("AccessDeniedException", sagemaker.list_clusters) == "no"
    refusal("AccessDeniedException", sagemaker.list_clusters)
    sagemaker.list_clusters()


def test_refused_creation_leaves_nothing(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(create="ResourceLimitExceeded")
    refusal("ResourceLimitExceeded", sagemaker.create_cluster, **bench.request())
    assert sagemaker.list_clusters()["ClusterSummaries"] == []
    bench.fault(create=None)
    sagemaker.create_cluster(**bench.request())


def test_lost_response_leaves_a_cluster(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(create={"error": "RequestTimeoutLost", "after": True, "times": 1})
    refusal("RequestTimeoutLost", sagemaker.create_cluster, **bench.request())
    assert len(sagemaker.list_clusters()["ClusterSummaries"]) == 1


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"capacty": {}}, "capacty: Extra inputs are not permitted. Allowed faults: capacity, quota"),
        ({"errors": {"ListClusters": {"message": "x"}}}, "errors.ListClusters.error: Field required"),
        ({"errors": {"ListCluster": "x"}}, "ListCluster is invalid: not a simulated API call. Allowed: CreateCluster"),
        ({"fail_node": {"group": "nowhere"}}, "no running node matches"),
        ({"fail_node": {"grup": "nowhere"}}, "fail_node.grup: Extra inputs are not permitted"),
        ({"image_version": {"nowhere": "EndOfLife"}}, "image_version: 'nowhere' is invalid: no such group"),
        ({"image_version": {"g": "Old"}}, "image_version.g: Input should be 'UpToDate'"),
        ({"fail_lifecycle": {"times": 1}}, "fail_lifecycle.group: Field required"),
        ({"capacity": {"ml.p5.48xlarge": "2"}}, "capacity.ml.p5.48xlarge: Input should be a valid integer"),
    ],
)
def test_wrong_fault_is_refused_with_what_is_allowed(
    bench: HyperPodBench, body: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadRequest, match=complaint):
        bench.fault(**body)


def test_every_call_is_recorded_with_its_caller_or_its_refusal(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    with pytest.raises(ClientError):
        sagemaker.delete_cluster(**NAME)
    calls = [fields for kind, fields in bench.journal if kind == "api"]
    assert [call["operation"] for call in calls] == ["CreateCluster", "DeleteCluster"]
    assert calls[0]["caller"].endswith(":root")
    assert calls[1]["refused"].startswith("ConflictException: ")


def test_call_that_is_not_simulated_says_so(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    volume = {"NodeId": "i-0123456789abcdef0", "VolumeId": "vol-0123456789abcdef0"}
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
    text = refusal("ValidationException", sagemaker.attach_cluster_node_volume, ClusterArn=arn, **volume)
    assert text.startswith("The rehearsal does not simulate AttachClusterNodeVolume. Allowed: CreateCluster")


def test_every_simulated_call_has_its_permissions(bench: HyperPodBench) -> None:
    assert HyperPodApi(bench.hyperpod).handlers.keys() == REQUIRED.keys()


def test_moto_answers_again_after_the_bench() -> None:
    from moto.sagemaker.responses import SageMakerResponse

    def answers() -> list[object]:
        return [getattr(SageMakerResponse, name, None) for name in ("create_cluster", "update_cluster")]

    before = answers()
    with HyperPodBench():
        assert all(during is not earlier for during, earlier in zip(answers(), before, strict=True))
    assert answers() == before
