"""SleepingGroups: groups whose counts another hand sets within a range, in updates, rollbacks and late deliveries."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from embedded_account.hyperpod import views
from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster.record import SLEEPING_TAG, fingerprint
from handlers.hyperpod_cluster.request import SLEEPING
from tests.handlers.support.cloudformation import CloudFormation, strings
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Properties
from tests.handlers.support.judging import Deeds

GPU = "worker-group-1"
REFUSED = "refused"
Range = tuple[int, int | None]
"""A template's count of the group, and its minimum asleep; None if the group does not sleep."""
Live = Callable[[], int]
SetLive = Callable[[int], None]

TABLE: list[tuple[str, Range, Range, int, int | str, int]] = [
    # case, template before, template after, live before -> live after the update -> live after its rollback
    ("without sleep a lower count is raised", (2, None), (2, None), 1, 2, 2),
    ("added while all nodes run", (4, None), (4, 0), 4, 4, 4),
    ("added while some nodes run", (4, None), (4, 0), 2, 2, 4),
    ("added with a higher count", (4, None), (6, 0), 4, 4, 4),
    ("added with a lower count", (4, None), (2, 0), 4, 2, 4),
    ("added with a count that was raised by hand before", (4, None), (6, 0), 6, 6, 6),
    ("removed while asleep", (4, 0), (4, None), 0, 4, 4),
    ("removed while half awake", (4, 0), (4, None), 2, 4, 4),
    ("removed while awake", (4, 0), (4, None), 4, 4, 4),
    ("removed with a higher count while asleep", (4, 0), (6, None), 0, 6, 4),
    ("removed with a higher count while awake", (4, 0), (6, None), 4, 6, 4),
    ("removed with a lower count while asleep", (4, 0), (2, None), 0, 2, 2),
    ("removed with a lower count while awake", (4, 0), (2, None), 4, 2, 2),
    ("unchanged while asleep", (4, 0), (4, 0), 0, 0, 0),
    ("unchanged while half awake", (4, 0), (4, 0), 2, 2, 2),
    ("unchanged while awake", (4, 0), (4, 0), 4, 4, 4),
    ("raised while asleep", (4, 0), (6, 0), 0, 0, 0),
    ("raised while half awake", (4, 0), (6, 0), 2, 2, 2),
    ("raised while awake", (4, 0), (6, 0), 4, 4, 4),
    ("lowered while asleep", (4, 0), (2, 0), 0, 0, 0),
    ("lowered while half awake", (4, 0), (2, 0), 1, 1, 1),
    ("lowered below what is awake", (4, 0), (2, 0), 3, 2, 2),
    ("lowered while awake", (4, 0), (2, 0), 4, 2, 2),
    ("minimum raised above what is live", (4, 0), (4, 2), 0, 4, 4),
    ("minimum raised to what is live", (4, 0), (4, 2), 2, 2, 2),
    ("minimum lowered", (4, 2), (4, 0), 2, 2, 2),
    ("lower than the minimum", (4, 2), (4, 2), 1, 4, 4),
    ("raised by hand above the count", (4, 0), (4, 0), 6, REFUSED, 6),
    ("raised by hand above the count, which is lowered", (4, 0), (2, 0), 6, REFUSED, 6),
    ("raised by hand to a count within the new range", (4, 0), (6, 0), 5, 5, 5),
    ("raised by hand to the new count", (4, 0), (6, 0), 6, 6, 6),
    ("raised by hand above a group that no longer sleeps", (4, 0), (4, None), 6, REFUSED, 6),
]
"""What happens to the group's count. A live count within the range is the other hand's: nobody changes it. Any other
is handled as in a group that does not sleep, and so is every count where the template that is wanted has no `sleep`."""


def template(properties: Properties, count: int, minimum: int | None, **more: Any) -> Properties:
    """Return properties in which the group has this count and this range."""
    new = deepcopy(properties) | more
    new["InstanceGroups"][1]["InstanceCount"] = count
    return new | ({} if minimum is None else {SLEEPING: {GPU: minimum}})


@pytest.fixture
def live(bench: HyperPodBench) -> Live:
    """Return the count that HyperPod strives for."""

    def count() -> int:
        [cluster] = bench.hyperpod.world.clusters.values()
        return cluster.groups[GPU].target

    return count


@pytest.fixture
def set_live(bench: HyperPodBench) -> SetLive:
    """Set the count as the other hand does, with UpdateCluster."""

    def changed(count: int) -> None:
        [cluster] = bench.hyperpod.world.clusters.values()
        groups = [dict(group.specification) for group in cluster.groups.values()]
        groups[1]["InstanceCount"] = count
        bench.client("sagemaker").update_cluster(ClusterName="ml-cluster", InstanceGroups=groups)
        bench.advance(60)

    return changed


@pytest.mark.parametrize("also", [{}, {"NodeRecovery": "None"}], ids=["alone", "with another change"])
@pytest.mark.parametrize(
    ("old", "new", "before", "after", "back"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_count_of_a_sleeping_group_after_an_update_and_its_rollback(
    cloudformation: CloudFormation,
    properties: Properties,
    live: Live,
    set_live: SetLive,
    bench: HyperPodBench,
    *,
    old: Range,
    new: Range,
    before: int,
    after: int | str,
    back: int,
    also: dict[str, Any],
) -> None:
    """Another change sends all groups with their counts in one UpdateCluster."""
    first, second = template(properties, *old), template(properties, *new, **also)
    assert cloudformation.create(first).succeeded
    bench.advance(120)
    assert live() == old[0]
    set_live(before)
    response = cloudformation.update("ml-cluster", second, first)
    if after == REFUSED:
        assert "raised outside this stack" in " ".join(response.reason.split())
        assert live() == before
    else:
        assert response.succeeded, response.reason
        assert live() == after
    bench.advance(60)
    response = cloudformation.roll_back("ml-cluster", first, second)
    assert response.succeeded, response.reason
    assert live() == back
    [cluster] = bench.hyperpod.world.clusters.values()
    assert cluster.request["NodeRecovery"] == "Automatic"


# --- when the other hand acts in the middle --------------------------------------------------------------------------


@pytest.fixture
def asleep(
    cloudformation: CloudFormation, properties: Properties, set_live: SetLive, bench: HyperPodBench
) -> Properties:
    """Return the template of a cluster whose group of four nodes is asleep."""
    template_asleep = template(properties, 4, 0)
    assert cloudformation.create(template_asleep).succeeded
    bench.advance(120)
    set_live(0)
    cloudformation.calls.clear()
    return template_asleep


@pytest.mark.parametrize("during", ["update", "rollback"])
def test_group_that_wakes_during_a_request_stays_awake(
    cloudformation: CloudFormation, asleep: Properties, live: Live, bench: HyperPodBench, during: str
) -> None:
    """The request waits for a busy cluster, and reads the count again before it sends its update."""
    other = asleep | {"NodeRecovery": "None"}
    if during == "rollback":
        assert cloudformation.update("ml-cluster", other, asleep).succeeded
        bench.advance(60)
    bench.client("sagemaker").update_cluster_software(ClusterName="ml-cluster")

    def wake() -> None:
        [cluster] = bench.hyperpod.world.clusters.values()
        group = cluster.groups[GPU]
        group.target = group.specification["InstanceCount"] = 4

    cloudformation.framework.at_pause(1, wake)
    send = cloudformation.update if during == "update" else cloudformation.roll_back
    new, old = (other, asleep) if during == "update" else (asleep, other)
    response = send("ml-cluster", new, old)
    assert response.succeeded, response.reason
    assert cloudformation.calls.count("UpdateCluster") >= 2
    assert live() == 4


@pytest.mark.parametrize(("count", "back"), [(1, 1), (4, 4), (6, 4)])
def test_rollback_leaves_a_group_that_changed_since_its_update_within_the_old_range(
    cloudformation: CloudFormation, asleep: Properties, live: Live, set_live: SetLive, *, count: int, back: int
) -> None:
    """The failed template allowed six nodes, and the one to which the stack returns four."""
    failed = template(asleep, 6, 0, NodeRecovery="None")
    assert cloudformation.update("ml-cluster", failed, asleep).succeeded
    assert live() == 0
    set_live(count)
    assert cloudformation.roll_back("ml-cluster", asleep, failed).succeeded
    assert live() == back


def test_rollback_says_nothing_of_a_group_that_is_within_its_range(
    cloudformation: CloudFormation, asleep: Properties, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asleep | {"NodeRecovery": "None"}
    assert cloudformation.update("ml-cluster", failed, asleep).succeeded
    assert cloudformation.roll_back("ml-cluster", asleep, failed).succeeded
    assert "removes no node" not in caplog.text


CANCELLED: dict[str, Range] = {"sleep removed": (4, None), "count raised": (6, 0), "minimum raised": (4, 3)}


@pytest.mark.parametrize("when", ["before its rollback", "after its rollback", "after the next update"])
@pytest.mark.parametrize("edit", CANCELLED)
def test_update_that_arrives_late_leaves_the_group_asleep(
    cloudformation: CloudFormation, asleep: Properties, live: Live, edit: str, when: str
) -> None:
    """CloudFormation gave up on an update before Lambda delivered it."""
    count, minimum = CANCELLED[edit]
    old = {key: value for key, value in asleep.items() if key != SLEEPING}
    new = template(old, count, minimum)
    cancelled = cloudformation.event("Update", new, "ml-cluster", OldResourceProperties=strings(asleep))
    reasons = []
    if when == "before its rollback":
        cloudformation.stack_status = "UPDATE_ROLLBACK_IN_PROGRESS"
        reasons.append(cloudformation.framework.handle(cancelled).reason)
    assert cloudformation.roll_back("ml-cluster", asleep, new).succeeded
    if when == "after the next update":
        assert cloudformation.update("ml-cluster", asleep | {"NodeRecovery": "None"}, asleep).succeeded
    if when != "before its rollback":
        reasons.append(cloudformation.framework.handle(cancelled).reason)
    assert reasons[0].startswith("Update of HyperPod cluster ml-cluster was superseded: ")
    assert live() == 0


# --- what the function is told ---------------------------------------------------------------------------------------


def told(bench: HyperPodBench) -> str:
    """Return the fingerprint in the tag that the function reads; "" without the tag."""
    [cluster] = bench.hyperpod.world.clusters.values()
    return cluster.tag_values.get(SLEEPING_TAG, "")


def test_cluster_tells_which_ranges_the_newest_template_has(
    cloudformation: CloudFormation, asleep: Properties, bench: HyperPodBench
) -> None:
    assert told(bench) == fingerprint({GPU: [0, 4]})
    more = template(asleep, 6, 1)
    assert cloudformation.update("ml-cluster", more, asleep).succeeded
    assert told(bench) == fingerprint({GPU: [1, 6]})
    assert cloudformation.roll_back("ml-cluster", asleep, more).succeeded
    assert told(bench) == fingerprint({GPU: [0, 4]})


def test_cluster_tells_that_no_group_sleeps_before_the_count_is_raised(
    cloudformation: CloudFormation, asleep: Properties, bench: HyperPodBench
) -> None:
    """The function still exists: it must not lower the count again."""
    seen = []

    def look(called: str, carried_out: bool) -> None:
        if called == "UpdateCluster" and not carried_out:
            seen.append(told(bench))

    cloudformation.framework.interruptions.append(look)
    awake = {key: value for key, value in asleep.items() if key != SLEEPING}
    assert cloudformation.update("ml-cluster", awake, asleep).succeeded
    assert seen == [fingerprint({})]


def test_cluster_without_groups_that_sleep_has_no_such_tag(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    assert cloudformation.create(properties).succeeded
    bench.advance(60)
    other = properties | {"NodeRecovery": "None"}
    assert cloudformation.update("ml-cluster", other, properties).succeeded
    assert cloudformation.roll_back("ml-cluster", properties, other).succeeded
    assert told(bench) == ""


# --- creation, new groups, chains ------------------------------------------------------------------------------------


def test_creation_makes_all_nodes_and_sends_no_range(
    cloudformation: CloudFormation, properties: Properties, live: Live
) -> None:
    response = cloudformation.create(template(properties, 4, 1))
    assert response.succeeded, response.reason
    assert live() == 4


@pytest.mark.parametrize("count", [0, 2, 4])
def test_creation_that_adopts_its_cluster_leaves_a_count_within_the_range(
    cloudformation: CloudFormation, asleep: Properties, live: Live, set_live: SetLive, count: int
) -> None:
    """An earlier creation of the same resource failed, and was not rolled back."""
    set_live(count)
    response = cloudformation.create(asleep | {"NodeRecovery": "None"})
    assert response.succeeded, response.reason
    assert live() == count


def test_group_that_is_added_with_sleep_begins_awake_and_goes_with_its_update(
    cloudformation: CloudFormation, asleep: Properties, bench: HyperPodBench, set_live: SetLive
) -> None:
    new = deepcopy(asleep)
    new["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 3))
    new[SLEEPING]["more"] = 0
    assert cloudformation.update("ml-cluster", new, asleep).succeeded
    [cluster] = bench.hyperpod.world.clusters.values()
    assert cluster.groups["more"].target == 3
    bench.advance(60)
    cluster.groups["more"].target = cluster.groups["more"].specification["InstanceCount"] = 0
    assert cloudformation.roll_back("ml-cluster", asleep, new).succeeded
    bench.advance(60)
    assert "more" not in cluster.groups


def test_rollback_of_a_chain_of_failed_updates_leaves_a_group_within_its_range(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, live: Live, set_live: SetLive
) -> None:
    deeds.unknown_fields = {"InstanceCount"}
    base = edited(bench, ())
    assert running.deploy(template(base, 4, 0)) == "UPDATE_COMPLETE"
    set_live(0)
    more = template(base, 6, 0, Tags=[{"Key": "team", "Value": "vision"}])
    assert running.deploy(more, fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert live() == 0
    assert running.deploy(template(base, 2, None), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert live() == 2
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live() == 2
    # Without `sleep` the group has its count again.
    assert running.deploy(template(base, 4, None)) == "UPDATE_COMPLETE"
    assert live() == 4


@pytest.mark.parametrize("value", ["gpu", ["gpu"], {GPU: "some"}, {GPU: {}}, {"another": "0"}], ids=str)
def test_range_of_an_unknown_shape_or_group_means_nothing(
    cloudformation: CloudFormation, asleep: Properties, live: Live, value: Any
) -> None:
    assert cloudformation.update("ml-cluster", asleep | {SLEEPING: value}, asleep).succeeded
    assert live() == 4


def test_karpenter_does_not_raise_a_sleeping_group_with_its_template(
    cloudformation: CloudFormation,
    asleep: Properties,
    live: Live,
    bench: HyperPodBench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody enabled autoscaling outside the stack: elsewhere a count that the template changes is sent."""
    monkeypatch.setattr(views, "ECHOED", (*views.ECHOED, "AutoScaling"))
    [cluster] = bench.hyperpod.world.clusters.values()
    cluster.request["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter", "Status": "InService"}
    more = template(asleep, 6, 0, NodeRecovery="None")
    assert cloudformation.update("ml-cluster", more, asleep).succeeded
    assert live() == 0
    assert cloudformation.roll_back("ml-cluster", asleep, more).succeeded
    assert live() == 0
