"""Custom::HyperPodCluster, Delete, and the teardown guard."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.model import DelayedView
from embedded_account.hyperpod.views import cluster_view
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.ownership import OwningResource
from handlers.hyperpod_cluster.service import CONSISTENCY_SECONDS
from tests.handlers.support.cloudformation import OTHER_STACK, STACK_ID, CloudFormation
from tests.handlers.support.framework import MARKER, POLL_SECONDS, Properties

TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}


def clusters(sagemaker: Any) -> list[str]:
    return [cluster["ClusterName"] for cluster in sagemaker.list_clusters()["ClusterSummaries"]]


def test_delete_is_done_when_the_cluster_is_gone(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    cloudformation.create(properties)
    bench.advance(minutes=60)
    response = cloudformation.delete("ml-cluster")
    assert response.succeeded
    assert response.polls > 20
    assert clusters(sagemaker) == []


def test_delete_sends_one_call_and_reads_no_property(cloudformation: CloudFormation, properties: Properties) -> None:
    cloudformation.create(properties)
    cloudformation.calls.clear()
    assert cloudformation.delete("ml-cluster", {"Config": "of an older version"}).succeeded
    assert cloudformation.calls.count("DeleteCluster") == 1


@pytest.mark.parametrize(
    "physical_id", ["ml-cluster", "rayhp-dev-hyperpod-ClusterEB0386A7-1A2B3C4D5E6F", "AWSCDK::Framework::MISSING"]
)
def test_delete_of_what_does_not_exist_succeeds(cloudformation: CloudFormation, physical_id: str) -> None:
    response = cloudformation.delete(physical_id)
    assert (response.succeeded, response.physical_id) == (True, physical_id)


def test_cluster_of_another_stack_is_never_deleted(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    cloudformation.create(properties, StackId=OTHER_STACK)
    assert cloudformation.delete("ml-cluster").succeeded
    assert cloudformation.delete("teardown", **TEARDOWN).succeeded
    assert "DeleteCluster" not in cloudformation.calls
    assert clusters(sagemaker) == ["ml-cluster"]


@pytest.mark.parametrize("minutes", [0, 1, 4])
def test_young_cluster_is_deleted_once_its_tags_are_known_and_not_later(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, minutes: float
) -> None:
    """ListTags may lag behind CreateCluster: a young cluster without tags may be this stack's."""
    cloudformation.kill("DescribeCluster")
    cloudformation.create(properties)
    known = bench.clock.present + timedelta(minutes=minutes)
    [cluster] = bench.hyperpod.world.clusters.values()
    cluster.outdated.append(DelayedView(known, cluster_view(cluster)))
    deleted: list[datetime] = []

    def note(called: str, carried_out: bool) -> None:
        if called == "DeleteCluster" and not carried_out:
            deleted.append(bench.clock.present)

    cloudformation.framework.interruptions.append(note)
    response = cloudformation.delete("ml-cluster")
    assert response.succeeded, response.reason
    assert not bench.hyperpod.world.clusters
    assert known <= deleted[0] <= known + timedelta(seconds=2 * POLL_SECONDS)


@pytest.mark.parametrize(("age", "wait"), [(0, CONSISTENCY_SECONDS), (200, CONSISTENCY_SECONDS - 200), (400, 0)])
def test_cluster_without_owner_is_told_of_once_its_tags_would_be_known(
    cloudformation: CloudFormation, bench: HyperPodBench, sagemaker: Any, age: float, wait: float
) -> None:
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=age / 60)
    began = bench.clock.present
    response = cloudformation.delete("ml-cluster")
    assert not response.succeeded
    assert response.reason.startswith("HyperPod cluster ml-cluster carries no tag that names its stack")
    assert "DeleteCluster" not in cloudformation.calls
    assert clusters(sagemaker) == ["ml-cluster"]
    assert wait <= (bench.clock.present - began).total_seconds() <= wait + 2 * POLL_SECONDS


def test_delete_of_a_cluster_that_is_being_created_waits_and_deletes_it(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    cloudformation.kill("DescribeCluster")
    assert cloudformation.create(properties).physical_id == "ml-cluster"
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["ClusterStatus"] == "Creating"
    assert cloudformation.delete("ml-cluster").succeeded
    assert clusters(sagemaker) == []


def test_delete_of_a_failed_cluster_removes_it(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    bench.fault(fail_creation="No capacity.")
    failed = cloudformation.create(properties)
    assert cloudformation.delete(failed.physical_id).succeeded
    assert clusters(sagemaker) == []


def test_second_delivery_of_a_delete_waits_for_the_same_end(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    arn = cloudformation.create(properties).data["ClusterArn"]
    sagemaker.delete_cluster(ClusterName=arn)
    assert cloudformation.delete("ml-cluster").succeeded
    assert clusters(sagemaker) == []


def test_handler_killed_after_create_cluster_leaks_nothing(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    guard = cloudformation.create({}, **TEARDOWN)
    cloudformation.kill("CreateCluster")
    failed = cloudformation.create(properties)
    assert (failed.succeeded, failed.physical_id) == (False, MARKER)
    assert cloudformation.delete(failed.physical_id).succeeded
    assert clusters(sagemaker) == ["ml-cluster"], "CloudFormation's Delete never reaches the handler"
    assert cloudformation.delete(guard.physical_id, **TEARDOWN).succeeded
    assert clusters(sagemaker) == []


def test_teardown_does_nothing_until_it_is_deleted(cloudformation: CloudFormation, properties: Properties) -> None:
    guard = cloudformation.create({}, **TEARDOWN)
    assert (guard.succeeded, guard.polls) == (True, 1)
    updated = cloudformation.update(guard.physical_id, {}, {}, **TEARDOWN)
    assert (updated.succeeded, updated.physical_id) == (True, guard.physical_id)
    assert cloudformation.calls == []


def test_teardown_without_leftovers_is_done_at_once(cloudformation: CloudFormation) -> None:
    response = cloudformation.delete("teardown", **TEARDOWN)
    assert (response.succeeded, response.polls) == (True, 1)


def test_teardown_waits_for_a_leftover_that_is_still_being_created(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    cloudformation.kill("CreateCluster")
    cloudformation.create(properties)
    response = cloudformation.delete("teardown", **TEARDOWN)
    assert response.succeeded
    assert clusters(sagemaker) == []
    assert cloudformation.calls.count("DeleteCluster") > 1, "a cluster in Creating refuses its deletion"


@pytest.mark.parametrize(
    "status",
    [
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
    ],
)
def test_teardown_leaves_the_cluster_alone_while_its_stack_stays(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any, status: str
) -> None:
    cloudformation.create(properties)
    response = cloudformation.delete("teardown", during=status, **TEARDOWN)
    assert (response.succeeded, response.polls) == (True, 1)
    assert sagemaker.describe_cluster(ClusterName="ml-cluster")["ClusterStatus"] == "InService"


@pytest.mark.parametrize("status", ["DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_teardown_deletes_the_cluster_of_a_stack_that_goes(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any, status: str
) -> None:
    cloudformation.create(properties)
    assert cloudformation.delete("teardown", during=status, **TEARDOWN).succeeded
    assert clusters(sagemaker) == []


@pytest.mark.parametrize(("resource", "waits_for"), [({}, "it is "), (TEARDOWN, "HyperPod cluster ml-cluster (")])
def test_deletion_that_always_fails_is_told_in_the_services_words(
    cloudformation: CloudFormation,
    properties: Properties,
    bench: HyperPodBench,
    resource: dict[str, Any],
    waits_for: str,
) -> None:
    cloudformation.create(properties)

    def fail() -> None:
        bench.fault(fail_deletion="Network interfaces are in use.")

    fail()
    cloudformation.framework.pauses.append(fail)
    response = cloudformation.delete("ml-cluster", **resource)
    assert response.reason.startswith("Delete of ml-cluster has not ended after 50 minutes")
    assert re.search(
        rf"{re.escape(waits_for)}(Failed|Deleting); the service says: Network interfaces are in use\.",
        " ".join(response.reason.split()),
    )


def test_deletion_that_fails_once_is_asked_for_again(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    cloudformation.create(properties)
    bench.fault(fail_deletion="Network interfaces are in use.")
    assert cloudformation.delete("ml-cluster").succeeded
    assert clusters(sagemaker) == []


@pytest.mark.parametrize("theirs", [False, True], ids=["its own cluster", "somebody else's cluster"])
def test_cluster_that_goes_while_the_teardown_looks_does_not_fail_it(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, *, theirs: bool
) -> None:
    cloudformation.create(properties, **({"StackId": OTHER_STACK} if theirs else {}))

    def vanish(called: str, carried_out: bool) -> None:
        if called == "ListTags" and not carried_out:
            bench.hyperpod.world.clusters.clear()

    cloudformation.framework.interruptions.append(vanish)
    response = cloudformation.delete("teardown", **TEARDOWN)
    assert response.succeeded, response.reason


def test_cluster_that_goes_while_its_deletion_looks_at_its_tags_is_gone(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    cloudformation.create(properties)

    def vanish(called: str, carried_out: bool) -> None:
        if called == "ListTags" and not carried_out:
            bench.hyperpod.world.clusters.clear()

    cloudformation.framework.interruptions.append(vanish)
    response = cloudformation.delete("ml-cluster")
    assert response.succeeded, response.reason


def test_tags_that_cannot_be_read_of_a_cluster_that_is_there_are_told(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    cloudformation.create(properties)
    bench.fault(errors={"ListTags": {"error": "ValidationException", "message": "No."}})
    assert cloudformation.delete("ml-cluster").reason == "ListTags failed (ValidationException): No."


@pytest.mark.parametrize(
    ("resource", "seconds"),
    [({}, 10), ({}, 45), ({}, 240), (TEARDOWN, 10), (TEARDOWN, 24)],
    ids=lambda each: {True: "the guard's", False: "the cluster's own"}[bool(each)] if isinstance(each, dict) else None,
)
def test_cluster_that_becomes_visible_late_is_deleted_with_its_failed_creation(
    cloudformation: CloudFormation,
    properties: Properties,
    bench: HyperPodBench,
    resource: dict[str, Any],
    seconds: int,
) -> None:
    bench.fault(lag_minutes=seconds / 60)
    cloudformation.kill("CreateCluster")
    cloudformation.create(properties)
    assert cloudformation.delete("ml-cluster", during="ROLLBACK_IN_PROGRESS", **resource).succeeded
    bench.advance(60)
    assert not bench.hyperpod.world.clusters


IN_PLACE = ("UPDATE_IN_PROGRESS", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "CREATE_COMPLETE")
CLEANUPS = (
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
    "UPDATE_ROLLBACK_IN_PROGRESS",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
)


@pytest.mark.parametrize("change", [{}, {"NodeRecovery": "None"}], ids=["the same properties", "others"])
@pytest.mark.parametrize("status", [*IN_PLACE, *CLEANUPS])
def test_deletion_that_is_delivered_again_leaves_the_clusters_successor_alone(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any, status: str, change: Properties
) -> None:
    """The template lost the cluster, and later got it back."""
    cloudformation.create(properties)
    deletion = cloudformation.event("Delete", properties, "ml-cluster")
    cloudformation.stack_status = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
    assert cloudformation.framework.handle(deletion).succeeded
    assert cloudformation.create(properties | change, during="UPDATE_IN_PROGRESS").succeeded
    cloudformation.stack_status = status
    response = cloudformation.framework.handle(deletion)
    assert response.reason.startswith("Delete of HyperPod cluster ml-cluster was superseded: ")
    assert clusters(sagemaker) == ["ml-cluster"]


def test_deletion_that_comes_too_late_leaves_a_cluster_alone_that_its_stack_has_adopted(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any
) -> None:
    """CloudFormation gave up on the deletion; a later update created the resource again."""
    cloudformation.create(properties)
    deletion = cloudformation.event("Delete", properties, "ml-cluster")
    assert cloudformation.create(properties, during="UPDATE_IN_PROGRESS").succeeded
    cloudformation.stack_status = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
    assert "came after it" in cloudformation.framework.handle(deletion).reason
    assert clusters(sagemaker) == ["ml-cluster"]


def test_deletion_never_turns_to_another_cluster_of_the_same_name(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    cloudformation.create(properties)
    bench.advance(60)
    world = bench.hyperpod.world

    def replace() -> None:
        if not world.clusters:
            cloudformation.framework.pauses.clear()
            bench.client("sagemaker").create_cluster(**properties)
            [cluster] = world.clusters.values()
            cluster.tag_values |= OwningResource(STACK_ID, "Cluster").tags

    cloudformation.framework.pauses.append(replace)
    assert cloudformation.delete("ml-cluster").succeeded
    bench.advance(60)
    assert not world.clusters or [each.status for each in world.clusters.values()] == ["InService"]


@pytest.mark.parametrize("url", [{}, {"ResponseURL": "https://localhost/response"}], ids=["", "of unknown age"])
@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", *CLEANUPS])
def test_cluster_that_left_the_template_is_deleted(
    cloudformation: CloudFormation, properties: Properties, sagemaker: Any, status: str, url: dict[str, str]
) -> None:
    """During an update CloudFormation deletes what a failed creation left behind."""
    cloudformation.create(properties)
    assert cloudformation.delete("ml-cluster", properties, during=status, **url).succeeded
    assert clusters(sagemaker) == []
