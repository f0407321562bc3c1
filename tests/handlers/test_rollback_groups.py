"""Which instance groups a rollback removes: those that the failed updates added, and no other."""

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Properties
from tests.handlers.support.judging import Deeds, live


def make_by_hand(bench: HyperPodBench, deeds: Deeds, *names: str) -> None:
    """Create these groups as somebody does in the console, and wait for their nodes; by default one, `by-hand`."""
    deeds.drift = True
    made = [bench.group(name, "ml.g5.2xlarge", 1) for name in names or ["by-hand"]]
    groups = [*edited(bench, ())["InstanceGroups"], *made]
    bench.client("sagemaker").update_cluster(ClusterName="ml-cluster", InstanceGroups=groups)
    bench.advance(60)


@pytest.mark.parametrize("earlier", [False, True], ids=["", "after it was taken back once"])
@pytest.mark.parametrize("how", ["wrong type", "typing error", "fails later"])
def test_rollback_keeps_a_group_that_the_failed_update_took_over(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, how: str, *, earlier: bool
) -> None:
    """The group existed before, with somebody's work: the failed update names it, but did not add it."""
    named = edited(bench, ["typing error"] if how == "typing error" else [])
    kind = "ml.g5.4xlarge" if how == "wrong type" else "ml.g5.2xlarge"
    named["InstanceGroups"].append(bench.group("by-hand", kind, 1))
    if earlier:
        assert running.deploy(named, fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
        bench.advance(60)
    make_by_hand(bench, deeds)
    assert running.deploy(named, fails_later=how == "fails later") == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_keeps_a_group_whose_removal_the_old_template_confirms(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    """The confirmation was for an earlier group: nobody confirms a removal during a rollback."""
    consenting = edited(bench, ()) | {"ConfirmGroupRemoval": ["by-hand"]}
    assert running.deploy(consenting) == "UPDATE_COMPLETE"
    make_by_hand(bench, deeds, "by-hand", "theirs")
    assert running.deploy(edited(bench, ["typing error"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][2:] == ["by-hand", "theirs"]


def more(bench: HyperPodBench, *names: str) -> Properties:
    """Return properties with these additional groups."""
    properties = edited(bench, ())
    properties["InstanceGroups"] += [bench.group(name, "ml.g5.2xlarge", 1) for name in names]
    return properties


@pytest.mark.parametrize("second", [("one", "two"), ("two",)], ids=["both", "the second only"])
def test_rollback_of_a_chain_of_failed_updates_removes_what_each_of_them_added(
    running: Deployments, bench: HyperPodBench, second: tuple[str, ...]
) -> None:
    before = live(bench)
    assert running.deploy(more(bench, "one"), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.deploy(more(bench, *second), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_removes_an_added_group_whose_removal_a_refused_update_confirmed(
    running: Deployments, bench: HyperPodBench
) -> None:
    before = live(bench)
    assert running.deploy(more(bench, "more"), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    refused = edited(bench, ["removal confirmed", "typing error"])
    assert running.deploy(refused, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_removes_an_added_group_whose_namesake_was_still_going(
    stacks: Deployments, bench: HyperPodBench
) -> None:
    assert stacks.deploy(more(bench, "more")) == "CREATE_COMPLETE"
    bench.advance(60)
    assert stacks.deploy(edited(bench, ["removal confirmed"])) == "UPDATE_COMPLETE"
    assert stacks.deploy(edited(bench, ())) == "UPDATE_COMPLETE"  # which consents to nothing any more
    assert bench.hyperpod.world.clusters["ml-cluster"].groups["more"].deleting
    before = live(bench)
    assert stacks.deploy(more(bench, "more"), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_keeps_a_group_that_is_named_as_one_of_an_earlier_failed_update(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    """The rollback of that update removed the note of the groups that it added."""
    assert running.deploy(more(bench, "by-hand"), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    make_by_hand(bench, deeds)
    running.framework.kill(0, after=True)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_keeps_a_group_that_is_named_as_one_that_an_update_added_and_another_removed(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    assert running.deploy(more(bench, "by-hand")) == "UPDATE_COMPLETE"
    bench.advance(60)
    assert running.deploy(edited(bench, ["removal confirmed"])) == "UPDATE_COMPLETE"
    bench.advance(60)
    assert running.deploy(edited(bench, ())) == "UPDATE_COMPLETE"
    make_by_hand(bench, deeds)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_leaves_a_group_alone_that_neither_template_has(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    make_by_hand(bench, deeds)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Instance group by-hand of HyperPod cluster ml-cluster would be removed" in running.reasons()[0]
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"
