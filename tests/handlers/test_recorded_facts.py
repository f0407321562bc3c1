"""What a rollback takes back, and which requests come too late, by the facts that each request records."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster.ownership import ADDED_TAG
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG
from handlers.hyperpod_cluster.record import BEFORE_TAG, DEPLOYED_TAG
from tests.handlers.support.cloudformation import CloudFormation, strings
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Event, Properties
from tests.handlers.support.judging import Deeds, live

ROLLS_BACK = "UPDATE_ROLLBACK_IN_PROGRESS"
Send = Callable[[Event, str], str]


@pytest.fixture
def created(cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench) -> Properties:
    """Return the properties of a cluster whose nodes all run."""
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=120)
    return properties


@pytest.fixture
def send(cloudformation: CloudFormation) -> Send:
    """Send a request while the stack has a status; return the reason of its failure, "" if it succeeded."""

    def sent(event: Event, status: str) -> str:
        cloudformation.stack_status = status
        return cloudformation.framework.handle(event).reason

    return sent


def workers(properties: Properties, count: int) -> Properties:
    new = deepcopy(properties)
    new["InstanceGroups"][1]["InstanceCount"] = count
    return new


def update(cloudformation: CloudFormation, new: Properties, old: Properties) -> Event:
    return cloudformation.event("Update", new, "ml-cluster", OldResourceProperties=strings(old))


def targets(bench: HyperPodBench) -> dict[str, int]:
    [cluster] = bench.hyperpod.world.clusters.values()
    return {name: group.target for name, group in cluster.groups.items() if not group.deleting}


def change_by_hand(bench: HyperPodBench, deeds: Deeds, **groups: int) -> None:
    """Give these groups these counts, as somebody does in the console; create those that do not exist."""
    deeds.drift = True
    deeds.raised |= {str(count) for count in groups.values()}
    deeds.by_hand |= groups.keys() - targets(bench).keys()
    [cluster] = bench.hyperpod.world.clusters.values()
    given = {name: dict(group.specification) for name, group in cluster.groups.items()}
    for name, count in groups.items():
        given[name] = given.get(name, bench.group(name, "ml.g5.2xlarge", 1)) | {"InstanceCount": count}
    bench.client("sagemaker").update_cluster(ClusterName="ml-cluster", InstanceGroups=list(given.values()))
    bench.advance(60)


# --- counts that were raised by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "fails_later"),
    [
        (["no workers"], False),
        (["five workers", "typing error"], False),
        (["four workers"], True),
        (["other tags"], False),
        (["more workers"], False),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("chain", [False, True], ids=["", "after another update that failed"])
def test_rollback_keeps_a_count_that_was_raised_by_hand_before_the_update(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, edits: list[str], *, fails_later: bool, chain: bool
) -> None:
    """The failed template lacks the group, raises it itself, takes the count over as advised, or says nothing of it."""
    change_by_hand(bench, deeds, **{"worker-group-1": 4})
    if chain:
        running.deploy(edited(bench, ["no recovery"]), on_failure="DO_NOTHING")
        running.deploy(edited(bench, edits), fails_later=fails_later, on_failure="DO_NOTHING")
        assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    else:
        assert running.deploy(edited(bench, edits), fails_later=fails_later) == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench)["worker-group-1"] == 4


def test_rollback_lowers_what_its_update_raised_to_what_that_update_found(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    change_by_hand(bench, deeds, **{"worker-group-1": 4})
    assert running.deploy(edited(bench, ["five workers"]), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench)["worker-group-1"] == 4


def test_rollback_of_an_update_after_the_count_was_taken_over_restores_the_template(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    """What an earlier update had found does not count for the rollback of a later one."""
    change_by_hand(bench, deeds, **{"worker-group-1": 4})
    assert running.deploy(edited(bench, ["four workers"])) == "UPDATE_COMPLETE"
    assert running.deploy(edited(bench, ["fewer workers"])) == "UPDATE_COMPLETE"
    assert running.deploy(edited(bench, ["five workers"]), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench)["worker-group-1"] == 1


def test_update_that_names_a_group_made_by_hand_lowers_it_only_with_consent(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    change_by_hand(bench, deeds, more=3)
    assert running.deploy(edited(bench, ["new group"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Instance group more of HyperPod cluster ml-cluster has 3 instances" in running.reasons()[0]
    assert targets(bench)["more"] == 3


@pytest.mark.parametrize(
    ("edits", "count"),
    [(["no recovery"], 4), (["more workers"], 4), (["five workers"], 4), (["five workers", "typing error"], 5)],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_rollback_keeps_a_count_that_was_raised_by_hand_after_the_update(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, edits: list[str], count: int
) -> None:
    """A person looks at the failed update before the rollback."""
    running.deploy(edited(bench, edits), fails_later=True, on_failure="DO_NOTHING")
    change_by_hand(bench, deeds, **{"worker-group-1": count})
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench)["worker-group-1"] == count


@pytest.mark.parametrize("lost", [{BEFORE_TAG}, {DEPLOYED_TAG}, {BEFORE_TAG, DEPLOYED_TAG, ADDED_TAG}], ids=len)
def test_rollback_without_its_record_lowers_and_removes_nothing_and_says_so(
    running: Deployments,
    deeds: Deeds,
    bench: HyperPodBench,
    caplog: pytest.LogCaptureFixture,
    lost: set[str],
) -> None:
    deeds.drift, deeds.raised = True, {"3"}
    edits = ["more workers", "new group", "no recovery"]
    running.deploy(edited(bench, edits), fails_later=True, on_failure="DO_NOTHING")
    [cluster] = bench.hyperpod.world.clusters.values()
    for tag in lost:
        # Somebody edits the tags.
        cluster.tag_values[tag] = "x y"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    if BEFORE_TAG in lost:
        assert targets(bench) == {"head-group": 1, "worker-group-1": 3, "more": 1}
        assert "this rollback removes no node of worker-group-1: the record is missing" in caplog.text
    assert cluster.request["NodeRecovery"] == "Automatic"


def test_record_of_many_groups_with_long_names_fits_into_its_tags(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    """SageMaker's default limit is 20 groups; a name has up to 63 characters, a tag's value 256."""
    many = deepcopy(properties)
    many["InstanceGroups"] += [bench.group(f"{number:02}{'x' * 61}", "ml.g5.2xlarge", 1) for number in range(18)]
    assert cloudformation.create(many).succeeded
    bench.advance(120)
    raised = [group | {"InstanceCount": 12} for group in many["InstanceGroups"]]
    bench.client("sagemaker").update_cluster(ClusterName="ml-cluster", InstanceGroups=raised)
    bench.advance(120)
    refused = many | {"NodeRecover": "None"}
    for _ in range(3):
        assert not cloudformation.update("ml-cluster", refused, many).succeeded
    assert cloudformation.roll_back("ml-cluster", many, refused).succeeded
    assert set(targets(bench).values()) == {12}


# --- groups that the update added ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", [["new group"], ["new group", "five workers"], ["new group", "no recovery"]], ids=str)
def test_rollback_keeps_an_added_group_that_has_grown_since_and_says_so(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, caplog: pytest.LogCaptureFixture, chain: list[str]
) -> None:
    """Somebody, or Karpenter, gave the group more nodes: jobs can run there."""
    for until in range(len(chain)):
        running.deploy(edited(bench, chain[: until + 1]), fails_later=True, on_failure="DO_NOTHING")
    change_by_hand(bench, deeds, more=3)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench) == {"head-group": 1, "worker-group-1": 2, "more": 3}
    assert "this rollback removes no node of more: they were made or raised outside this stack" in caplog.text
    assert running.deploy(edited(bench, ["other tags"])) == "UPDATE_ROLLBACK_COMPLETE"
    told = "Instance group more of HyperPod cluster ml-cluster would be removed with its nodes"
    assert any(told in reason for reason in running.reasons())


def test_rollback_removes_an_added_group_whose_count_a_later_update_of_the_chain_changed(
    running: Deployments, bench: HyperPodBench
) -> None:
    for count in (2, 5, 1):
        new = edited(bench, ["new group"])
        new["InstanceGroups"][-1]["InstanceCount"] = count
        running.deploy(new, fails_later=True, on_failure="DO_NOTHING")
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench) == {"head-group": 1, "worker-group-1": 2}


# --- confirmations ---------------------------------------------------------------------------------------------------


def test_confirmation_counts_once(running: Deployments, deeds: Deeds, bench: HyperPodBench) -> None:
    """The name is left in the file; later somebody makes a group of that name by hand."""
    change_by_hand(bench, deeds, more=1)
    confirming = edited(bench, ["removal confirmed"])
    assert running.deploy(confirming) == "UPDATE_COMPLETE"
    bench.advance(60)
    change_by_hand(bench, deeds, more=1)
    assert running.deploy(edited(bench, ["removal confirmed", "other tags"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert "its confirmation was for an earlier deployment, so remove the group by hand" in running.reasons()[0]
    assert targets(bench)["more"] == 1


def test_confirmation_that_comes_before_the_removal_counts_for_it(running: Deployments, bench: HyperPodBench) -> None:
    early = edited(bench, ()) | {"ConfirmGroupRemoval": ["worker-group-1"]}
    assert running.deploy(early) == "UPDATE_COMPLETE"
    assert running.deploy(edited(bench, ["no workers", "removal confirmed"])) == "UPDATE_COMPLETE"
    assert targets(bench) == {"head-group": 1}


# --- first deliveries that come late ---------------------------------------------------------------------------------

SUPERSEDED = "Update of HyperPod cluster ml-cluster was superseded: "
EDITS: dict[str, Callable[[Properties, HyperPodBench], Any]] = {
    "1 -> 30": lambda new, _: new["InstanceGroups"][1].update(InstanceCount=30),
    "a new group": lambda new, bench: new["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 1)),
    "a confirmed removal": lambda new, _: (
        new["InstanceGroups"].pop(),
        new.update(ConfirmGroupRemoval=["worker-group-1"]),
    ),
}


@pytest.fixture(params=EDITS, ids=str)
def cancelled(
    request: pytest.FixtureRequest, cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> Event:
    """Return the request of an update that was cancelled before Lambda delivered it."""
    new = deepcopy(created)
    EDITS[request.param](new, bench)
    return update(cloudformation, new, created)


def rollback_of(cloudformation: CloudFormation, cancelled: Event) -> Event:
    """Return the request that CloudFormation issues once the rollback has begun."""
    cloudformation.stack_status = ROLLS_BACK
    return update(cloudformation, cancelled["OldResourceProperties"], cancelled["ResourceProperties"])


@pytest.mark.parametrize("toggled", [False, True], ids=["", "to the template before the last one"])
def test_update_that_arrives_before_its_rollback_is_superseded(
    cloudformation: CloudFormation,
    created: Properties,
    cancelled: Event,
    bench: HyperPodBench,
    send: Send,
    *,
    toggled: bool,
) -> None:
    if toggled:
        tagged = created | {"Tags": [{"Key": "team", "Value": "vision"}]}
        assert not send(update(cloudformation, tagged, created), "UPDATE_IN_PROGRESS")
        assert not send(update(cloudformation, created, tagged), "UPDATE_IN_PROGRESS")
    before = live(bench)
    assert send(cancelled, ROLLS_BACK).startswith(SUPERSEDED)
    assert not send(rollback_of(cloudformation, cancelled), ROLLS_BACK)
    assert live(bench) == before


def test_update_back_to_the_template_before_the_last_one_is_no_rollback(
    cloudformation: CloudFormation, cancelled: Event, bench: HyperPodBench, send: Send
) -> None:
    """The rollback of the last update, which has long succeeded, would have the same properties."""
    assert not send(cancelled, "UPDATE_IN_PROGRESS")
    bench.advance(60)
    before = live(bench)
    back = update(cloudformation, cancelled["OldResourceProperties"], cancelled["ResourceProperties"])
    assert send(back, ROLLS_BACK).startswith(SUPERSEDED)
    assert not send(rollback_of(cloudformation, back), ROLLS_BACK)
    assert live(bench) == before


@pytest.mark.parametrize("status", [ROLLS_BACK, "UPDATE_ROLLBACK_COMPLETE", "UPDATE_IN_PROGRESS"])
def test_update_that_arrives_after_its_rollback_is_superseded(
    cloudformation: CloudFormation, cancelled: Event, bench: HyperPodBench, send: Send, status: str
) -> None:
    before = live(bench)
    assert not send(rollback_of(cloudformation, cancelled), ROLLS_BACK)
    assert send(cancelled, status).startswith(SUPERSEDED)
    assert live(bench) == before


def test_update_that_arrives_while_its_rollback_runs_is_superseded(
    cloudformation: CloudFormation, cancelled: Event, bench: HyperPodBench, send: Send
) -> None:
    before, told = live(bench), []
    cloudformation.framework.at_pause(1, lambda: told.append(cloudformation.framework.handle(cancelled).reason))
    assert not send(rollback_of(cloudformation, cancelled), ROLLS_BACK)
    assert told[0].startswith(SUPERSEDED)
    assert live(bench) == before


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_update_that_arrives_with_the_next_update_is_superseded(
    cloudformation: CloudFormation, cancelled: Event, bench: HyperPodBench, send: Send, when: str
) -> None:
    assert not send(rollback_of(cloudformation, cancelled), ROLLS_BACK)
    created, told = cancelled["OldResourceProperties"], []
    next_one = update(cloudformation, created | {"NodeRecovery": "None"}, created)
    before = live(bench)

    def arrive() -> None:
        told.append(cloudformation.framework.handle(cancelled).reason)

    cloudformation.stack_status = "UPDATE_IN_PROGRESS"
    if when == "before":
        arrive()
    elif when == "during":
        cloudformation.framework.at_pause(0, arrive)
    assert not send(next_one, "UPDATE_IN_PROGRESS")
    if when == "after":
        arrive()
    assert told[0].startswith(SUPERSEDED)
    assert live(bench) == before
    [cluster] = bench.hyperpod.world.clusters.values()
    assert cluster.request["NodeRecovery"] == "None"


def test_update_that_is_deployed_again_after_it_never_arrived_is_carried_out(
    cloudformation: CloudFormation, cancelled: Event, bench: HyperPodBench, send: Send
) -> None:
    """Only the time of the new request distinguishes it from a late delivery of the old one."""
    assert not send(rollback_of(cloudformation, cancelled), ROLLS_BACK)
    before = live(bench)
    new, old = cancelled["ResourceProperties"], cancelled["OldResourceProperties"]
    assert not send(update(cloudformation, new, old), "UPDATE_IN_PROGRESS")
    assert live(bench) != before
    assert send(cancelled, "UPDATE_IN_PROGRESS").startswith(SUPERSEDED)


def test_update_that_never_arrived_is_rolled_back_without_touching_what_others_raised(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, send: Send, deeds: Deeds
) -> None:
    """The stack left and restored this template before, with a record; the count was raised since."""
    tagged = created | {"Tags": [{"Key": "team", "Value": "vision"}]}
    assert not send(update(cloudformation, tagged, created), "UPDATE_IN_PROGRESS")
    assert not send(update(cloudformation, created, tagged), "UPDATE_IN_PROGRESS")
    change_by_hand(bench, deeds, **{"worker-group-1": 4})
    assert not send(rollback_of(cloudformation, update(cloudformation, workers(created, 3), created)), ROLLS_BACK)
    assert targets(bench)["worker-group-1"] == 4


def test_rollback_that_is_continued_restores_what_the_update_found(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    change_by_hand(bench, deeds, **{"worker-group-1": 4})
    running.deploy(edited(bench, ["five workers", "new group"]), fails_later=True, on_failure="DO_NOTHING")
    running.framework.kill(5, after=False)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert targets(bench) == {"head-group": 1, "worker-group-1": 4}


@pytest.mark.parametrize("seconds", [10, 24])
def test_rollback_is_true_although_reads_lag(running: Deployments, bench: HyperPodBench, seconds: int) -> None:
    """A user cancels the update right after UpdateCluster, and DescribeCluster shows it later."""
    before = live(bench)
    bench.fault(lag_minutes=seconds / 60)
    running.give_up_at(0)
    assert running.deploy(edited(bench, ["new group", "more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    assert live(bench) == before


def test_rollback_of_a_refused_update_does_not_wait(running: Deployments, bench: HyperPodBench) -> None:
    began = bench.clock.present
    assert running.deploy(edited(bench, ["typing error"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert (bench.clock.present - began).total_seconds() < 30


def test_records_stay_within_the_limits_of_tags(running: Deployments, bench: HyperPodBench) -> None:
    """AddTags: 256 characters a value. The oldest entries of a long chain of updates are dropped."""
    for number in range(40):
        properties = edited(bench, ()) | {"Tags": [{"Key": "team", "Value": str(number)}]}
        running.deploy(properties, fails_later=True, on_failure="DO_NOTHING")
    [cluster] = bench.hyperpod.world.clusters.values()
    ours = {key: value for key, value in cluster.tag_values.items() if key.startswith("hyperpod-cluster:")}
    assert max(map(len, ours.values())) <= 256
    assert len(ours[REQUESTS_TAG].split()) == 6
