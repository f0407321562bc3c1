"""Strategies for sequences: deployments, what goes wrong in them, and when."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.handlers.support.edits import EDITS, NEVER

CHANGES = ("CreateCluster", "UpdateCluster", "DeleteCluster")
TWICE = "delivered twice"
OLDER = "an older one delivered again"
GOES = "a cluster goes"
MISHAPS = ["killed", "ThrottlingException", "InternalFailure", "AccessDeniedException", "ConflictException"]
MISHAPS += ["time-out", TWICE, OLDER, GOES]

ROLE_UNKNOWN = "role not known yet"
NEVER_DELETED = "deletion always fails"
TAKEN_BACK = "update taken back"
LAG = "reads lag"
SLOW = "nodes take hours"
TROUBLES = ["shortage", "quota", "creation fails", "no dependencies", "deep check fails"]
TROUBLES += [TAKEN_BACK, "deletion fails", NEVER_DELETED, LAG, ROLE_UNKNOWN, SLOW]
CALL_FAILS = "a call always fails"
CRASH = "the framework crashes"
LATE = "an earlier request comes late"
EVENTS = [*TROUBLES, CALL_FAILS, CALL_FAILS, CRASH, LATE, LATE]


@dataclass(frozen=True)
class Mishap:
    """Goes wrong at one call of a step: the `position`-th, counted from 0 and from the first call in `since`.

    It happens before the call is carried out, or `after` it, so that only the answer is lost. `which` chooses an older
    request.
    """

    what: str
    since: tuple[str, ...]
    position: int
    after: bool
    which: int


@dataclass(frozen=True)
class Deploying:
    """One deployment.

    `late` is when the cluster's request is delivered of which CloudFormation had to give up: the number of later
    requests before that, and the call of that request at which it arrives (None: just before it); None for a usual
    delivery.
    `given_up` is the number of the pause at which CloudFormation gives up on the cluster's request, because a user
    cancels the update or another resource fails; None for never. `guard` is the guard's logical id. `trouble` begins
    just before the deployment. With `by_hand_first` somebody has just sent the same update by hand.
    """

    edits: frozenset[str]
    fails_later: bool
    on_failure: str
    mishaps: list[Mishap]
    given_up: int | None
    guard: str
    trouble: str
    by_hand_first: bool
    late: tuple[int, int | None] | None = None


_GROUPS = ["new group", "another group"]
_CONFIRMED = "removal confirmed"
refused = st.sampled_from(sorted(NEVER))
edits = st.builds(
    frozenset.union,
    st.frozensets(st.sampled_from(sorted(EDITS.keys() - NEVER - {*_GROUPS, _CONFIRMED})), max_size=2),
    st.sampled_from([(), (), (), _GROUPS[:1], _GROUPS[1:], _GROUPS]),
    st.sampled_from([(), (_CONFIRMED,)]),
    st.sampled_from([()] * 10 + [(edit,) for edit in sorted(NEVER)]),
)
_when: list[tuple[tuple[str, ...], int]] = [
    *(((), position) for position in range(8)),
    *((CHANGES, position) for position in (0, 0, 0, 1, 1, 2)),
    *((("ListTags",), position) for position in (0, 0, 1)),
]
mishaps = st.lists(
    st.builds(
        lambda what, when, after, which: Mishap(what, when[0], when[1], after, which),
        st.sampled_from(MISHAPS),
        st.sampled_from(_when),
        st.booleans(),
        st.integers(0, 9),
    ),
    max_size=2,
)
late = st.sampled_from([None] * 4 + [(0, None), (0, 1), (0, 3), (0, 4), (0, 6), (1, None), (1, 3), (2, 6), (3, None)])
deployments = st.builds(
    Deploying,
    edits=edits,
    fails_later=st.sampled_from([False, False, True]),
    on_failure=st.sampled_from(["ROLLBACK", "ROLLBACK", "DO_NOTHING"]),
    mishaps=mishaps,
    given_up=st.sampled_from([None] * 6 + [0, 1, 2, 4]),
    guard=st.sampled_from(["Teardown"] * 5 + ["OtherTeardown"]),
    trouble=st.sampled_from([""] * 6 + [ROLE_UNKNOWN, LAG, LAG, TAKEN_BACK]),
    by_hand_first=st.sampled_from([False] * 5 + [True]),
    late=late,
).map(lambda how: how if how.on_failure == "ROLLBACK" else replace(how, late=None))
# CloudFormation gives up on a request to roll back; without a rollback, it waits for what runs.
chained = deployments.map(lambda how: replace(how, late=None))
