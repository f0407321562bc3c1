"""Sequences that random exploration finds late or never, one for each defect that it once found.

Each only lists what people, AWS and chance do. The invariants of all sequences decide whether it holds.
"""

from collections.abc import Callable
from typing import Any, Final

from tests.handlers.support import steps
from tests.handlers.support.sequences import Sequences
from tests.handlers.support.steps import CHANGES, Deploying, Mishap

Sequence = Callable[[Sequences], object]


def deploying(*edits: str, **changes: Any) -> Deploying:
    """Return a deployment with these edits in which nothing goes wrong, except for `changes`."""
    how: dict[str, Any] = {
        "fails_later": False,
        "on_failure": "ROLLBACK",
        "mishaps": [],
        "given_up": None,
        "guard": "Teardown",
        "trouble": "",
        "by_hand_first": False,
    }
    return Deploying(frozenset(edits), **how | changes)


def before(what: str, *since: str, position: int = 0, which: int = 0) -> list[Mishap]:
    """Return a mishap before the `position`-th call, counted from the first call in `since`."""
    return [Mishap(what, since, position, after=False, which=which)]


def after(what: str, *since: str, position: int = 0, which: int = 0) -> list[Mishap]:
    """Return a mishap after the `position`-th call, counted from the first call in `since`."""
    return [Mishap(what, since, position, after=True, which=which)]


def older_update_during_a_newer_one(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("more workers"))
    state.update_stack(how=deploying("fewer workers", mishaps=after(steps.OLDER, *CHANGES, which=1)))


def creation_given_up_while_its_role_is_unknown(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying(trouble=steps.ROLE_UNKNOWN, given_up=0))


def field_taken_away_while_the_cluster_is_busy(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("labels"))
    state.change_it_by_hand(deed="software")
    state.update_stack(how=deploying())


def field_taken_away_where_omissions_keep_it(state: Sequences) -> None:
    state.start(state="running", keeps_omitted=True)
    state.update_stack(how=deploying("labels", "own image"))
    state.update_stack(how=deploying())


def image_taken_away_while_the_cluster_is_busy(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("own image"))
    state.change_it_by_hand(deed="software")
    state.update_stack(how=deploying())


def guard_replaced(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying(guard="OtherTeardown"))


def answer_of_a_creation_lost_while_reads_lag(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying(trouble=steps.LAG, mishaps=after("InternalFailure", "CreateCluster")))


def creation_killed_while_reads_lag(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying(trouble=steps.LAG, mishaps=after("killed", "CreateCluster")))


def first_look_at_a_new_cluster_killed_while_reads_lag(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying(trouble=steps.LAG, mishaps=before("killed", "DescribeCluster")))


def deletion_that_always_fails(state: Sequences) -> None:
    state.start(state="running")
    state.let_something_happen(what=steps.NEVER_DELETED, which=0)
    state.delete_stack(mishaps=[])


def update_sent_by_hand_before_and_taken_back(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("more workers", trouble=steps.TAKEN_BACK, by_hand_first=True))


def groups_added_in_a_chain(state: Sequences) -> None:
    state.start(state="running")
    state.update_in_a_chain(chain=[deploying("new group"), deploying("new group", "another group")], mishaps=[])


def group_added_in_a_chain_whose_removal_is_confirmed_and_refused(state: Sequences) -> None:
    state.start(state="running")
    state.update_in_a_chain(chain=[deploying("new group"), deploying("removal confirmed", "typing error")], mishaps=[])


def group_added_while_its_namesake_goes(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying("new group"))
    state.wait(minutes=240, repaired=False)
    state.update_stack(how=deploying("removal confirmed"))
    state.update_stack(how=deploying())
    state.update_stack(how=deploying("new group", fails_later=True))


def group_made_by_hand_under_the_name_of_one_that_was_rolled_back(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("new group", fails_later=True))
    state.wait(minutes=30, repaired=False)
    state.change_it_by_hand(deed="more")
    state.update_stack(how=deploying("more workers", mishaps=after("killed")))


def cluster_that_goes_before_its_tags_are_read(state: Sequences) -> None:
    state.start(state="running")
    state.delete_stack(mishaps=before(steps.GOES, "ListTags"))


def tags_deployed_after_counts_were_raised(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="raise")
    state.update_stack(how=deploying("other tags"))


def group_removed_and_nothing_else(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("no workers", "removal confirmed"))


def rollback_to_a_template_that_confirms_a_removal(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("removal confirmed"))
    state.change_it_by_hand(deed="more")
    state.change_it_by_hand(deed="theirs")
    state.update_stack(how=deploying("typing error"))


def update_cancelled_at_once_while_reads_lag(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("new group", "more workers", trouble=steps.LAG, given_up=0))
    state.wait(minutes=10, repaired=True)


def creation_delivered_again_after_counts_were_raised(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="raise")
    state.let_something_happen(what=steps.LATE, which=0)
    state.update_stack(how=deploying("other tags"))


def update_delivered_again_as_its_rollback_begins(state: Sequences) -> None:
    killed = after("killed", *CHANGES)
    state.start(state="running")
    # The seventh call is the rollback's first.
    state.update_stack(how=deploying("new group", mishaps=[*killed, *before(steps.OLDER, position=7, which=1)]))


def template_of_a_chain_that_leaves_out_what_the_one_before_it_gave(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying("own network"))
    state.update_in_a_chain(chain=[deploying(), deploying("new group")], mishaps=[])


def cluster_that_goes_and_is_created_again_while_a_group_is_added(state: Sequences) -> None:
    state.start(state="running")
    # The Create is delivered again before UpdateCluster; the cluster disappears at the Create's first call.
    mishaps = [*before(steps.OLDER, *CHANGES), *before(steps.GOES, position=6)]
    state.update_in_a_chain(chain=[deploying("new group", mishaps=mishaps)], mishaps=[])


def cluster_that_goes_and_is_created_again_once_its_update_was_accepted(state: Sequences) -> None:
    state.start(state="running")
    # UpdateCluster is the seventh call. Before the next one the cluster disappears, and the Create comes again.
    mishaps = [*after(steps.GOES, position=7), *after(steps.OLDER, *CHANGES, position=1)]
    state.update_stack(how=deploying("more workers", mishaps=mishaps))


def cluster_that_goes_and_is_created_again_while_its_update_is_looked_at(state: Sequences) -> None:
    state.start(state="running")
    mishaps = [*before(steps.GOES, *CHANGES, position=1), *before(steps.OLDER, *CHANGES, position=1)]
    state.update_stack(how=deploying("bigger disks", mishaps=mishaps))


def tags_taken_back_while_reads_lag(state: Sequences) -> None:
    state.start(state="running")
    # CloudFormation deploys the third template while ListTags still shows the tags before the second.
    state.let_something_happen(what=steps.LAG, which=0)
    state.update_in_a_chain(chain=[deploying(), deploying("other tags"), deploying("labels")], mishaps=[])


def group_left_out_after_its_count_was_raised(state: Sequences) -> None:
    state.start(state="running")
    state.refuse_an_update_after_a_change_by_hand(deed="raise", how=deploying("no workers"), refused="typing error")
    state.update_stack(how=deploying("no workers"))


def count_raised_by_hand_and_raised_by_a_refused_update(state: Sequences) -> None:
    state.start(state="running")
    state.refuse_an_update_after_a_change_by_hand(deed="raise", how=deploying("five workers"), refused="typing error")


def count_raised_by_hand_and_taken_over_by_an_update_that_fails_later(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="raise workers")
    state.update_stack(how=deploying("four workers", "labels", fails_later=True))


def count_raised_by_hand_and_raised_further_by_an_update_that_fails_later(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="raise workers")
    state.update_stack(how=deploying("five workers", fails_later=True))


def update_that_raises_a_count_and_fails_later(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("five workers", fails_later=True))


def update_that_arrives_before_its_rollback(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("more workers", "new group", late=(0, None)))


def update_that_arrives_during_its_rollback(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("no workers", "removal confirmed", late=(0, 5)))


def update_that_arrives_before_the_next_update(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("more workers", late=(1, None)))
    state.update_stack(how=deploying("labels"))


def update_that_arrives_during_the_next_update(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("more workers", late=(1, 6)))
    state.update_stack(how=deploying("labels"))


def updates_of_a_chain_that_arrive_with_its_rollback(state: Sequences) -> None:
    state.start(state="running")
    chain = [deploying("new group", late=(0, None)), deploying("no workers", late=(0, None))]
    state.update_in_a_chain(chain=chain, mishaps=[])


def update_after_one_that_never_arrived_is_rolled_back(state: Sequences) -> None:
    state.start(state="running")
    chain = [deploying("more workers", late=(9, None)), deploying("new group", "more workers")]
    state.update_in_a_chain(chain=chain, mishaps=[])


def confirmation_that_is_left_in_the_file(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="more")
    state.update_stack(how=deploying("removal confirmed"))
    state.wait(minutes=30, repaired=False)
    state.change_it_by_hand(deed="more")
    state.update_stack(how=deploying("removal confirmed", "other tags"))


def deletion_delivered_again_while_the_cluster_returns(state: Sequences) -> None:
    state.start(state="running")
    again = deploying("labels", guard="OtherTeardown")
    state.remove_the_cluster_and_return_it(how=deploying(), again=again, delivered=(0, 4))


def creation_that_takes_hours(state: Sequences) -> None:
    state.start(state="nothing")
    state.create_stack(how=deploying("not continuous", trouble=steps.SLOW))
    state.wait(minutes=240, repaired=True)


def groups_that_karpenter_has_grown(state: Sequences) -> None:
    state.start(state="running")
    state.change_it_by_hand(deed="grow")
    state.update_stack(how=deploying("labels"))
    state.refuse_an_update_after_a_change_by_hand(deed="grow", how=deploying("five workers"), refused="typing error")


def group_of_a_failed_update_that_karpenter_has_grown(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("new group", fails_later=True, on_failure="DO_NOTHING"))
    state.change_it_by_hand(deed="grow")
    state.go_back(mishaps=[])


def counts_raised_by_hand_between_a_failed_update_and_its_rollback(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("new group", fails_later=True, on_failure="DO_NOTHING"))
    state.change_it_by_hand(deed="raise")
    state.go_back(mishaps=[])
    state.update_stack(how=deploying("labels"))


def count_raised_by_hand_to_the_one_that_a_refused_update_asked_for(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("four workers", "typing error", on_failure="DO_NOTHING"))
    state.change_it_by_hand(deed="raise")
    state.go_back(mishaps=[])


def cluster_of_a_failed_creation_that_the_next_update_deletes(state: Sequences) -> None:
    state.start(state="nothing")
    mishaps = before("killed", "CreateCluster", position=1)
    state.create_stack(how=deploying("not continuous", on_failure="DO_NOTHING", mishaps=mishaps))
    state.update_without_rollback(how=deploying("labels"))


def group_added_in_a_chain_that_comes_back_to_its_first_template(state: Sequences) -> None:
    state.start(state="running")
    chain = [deploying("new group"), deploying(), deploying("not continuous")]
    state.update_in_a_chain(chain=chain, mishaps=[])


def update_back_to_the_first_template_that_arrives_during_its_rollback(state: Sequences) -> None:
    state.start(state="running")
    state.update_stack(how=deploying("five workers"))
    state.update_stack(how=deploying(late=(0, 1)))


REGRESSIONS: Final[tuple[Sequence, ...]] = (
    older_update_during_a_newer_one,
    creation_given_up_while_its_role_is_unknown,
    field_taken_away_while_the_cluster_is_busy,
    field_taken_away_where_omissions_keep_it,
    image_taken_away_while_the_cluster_is_busy,
    guard_replaced,
    answer_of_a_creation_lost_while_reads_lag,
    creation_killed_while_reads_lag,
    first_look_at_a_new_cluster_killed_while_reads_lag,
    deletion_that_always_fails,
    update_sent_by_hand_before_and_taken_back,
    groups_added_in_a_chain,
    group_added_in_a_chain_whose_removal_is_confirmed_and_refused,
    group_added_while_its_namesake_goes,
    group_made_by_hand_under_the_name_of_one_that_was_rolled_back,
    cluster_that_goes_before_its_tags_are_read,
    tags_deployed_after_counts_were_raised,
    group_removed_and_nothing_else,
    rollback_to_a_template_that_confirms_a_removal,
    update_cancelled_at_once_while_reads_lag,
    creation_delivered_again_after_counts_were_raised,
    update_delivered_again_as_its_rollback_begins,
    template_of_a_chain_that_leaves_out_what_the_one_before_it_gave,
    cluster_that_goes_and_is_created_again_while_a_group_is_added,
    cluster_that_goes_and_is_created_again_once_its_update_was_accepted,
    cluster_that_goes_and_is_created_again_while_its_update_is_looked_at,
    tags_taken_back_while_reads_lag,
    group_left_out_after_its_count_was_raised,
    count_raised_by_hand_and_raised_by_a_refused_update,
    count_raised_by_hand_and_taken_over_by_an_update_that_fails_later,
    count_raised_by_hand_and_raised_further_by_an_update_that_fails_later,
    update_that_raises_a_count_and_fails_later,
    update_that_arrives_before_its_rollback,
    update_that_arrives_during_its_rollback,
    update_that_arrives_before_the_next_update,
    update_that_arrives_during_the_next_update,
    updates_of_a_chain_that_arrive_with_its_rollback,
    update_after_one_that_never_arrived_is_rolled_back,
    confirmation_that_is_left_in_the_file,
    deletion_delivered_again_while_the_cluster_returns,
    creation_that_takes_hours,
    groups_that_karpenter_has_grown,
    group_of_a_failed_update_that_karpenter_has_grown,
    counts_raised_by_hand_between_a_failed_update_and_its_rollback,
    count_raised_by_hand_to_the_one_that_a_refused_update_asked_for,
    cluster_of_a_failed_creation_that_the_next_update_deletes,
    group_added_in_a_chain_that_comes_back_to_its_first_template,
    update_back_to_the_first_template_that_arrives_during_its_rollback,
)
