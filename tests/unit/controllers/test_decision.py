"""The reaper's rule, pod by pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import labels
from controllers import decision
from controllers.decision import PENDING, NodeState, Pod, PodAction, PodDecision, before_move, decide
from controllers.lease import SAVE_SECONDS, TrainingRun
from tests.unit.support.nodes_and_pods import GRACE, HEALTH, NOW, REBOOT, REPLACE, TOLERATED, Object, a_node, a_pod

READY = a_node()
SILENT = a_node(ready="Unknown", since=36)
NOT_READY = a_node(ready="False", since=36)
JUST_SILENT = a_node(ready="Unknown", since=29)
DOOMED = a_node(health=REPLACE)
TO_BE_BOOTED = a_node(health=REBOOT)
DOOMED_AND_SILENT = a_node(ready="Unknown", since=2, health=REPLACE)
GONE = None


def verdict(pod: Object, node: Object | None) -> PodDecision:
    return decide(Pod.of(pod), NodeState.of(node) if node else None, NOW, TOLERATED)


@pytest.mark.parametrize(
    ("node", "asked", "action"),
    [
        # A pod whose deletion was not requested: the reaper deletes it only if HyperPod labelled its node.
        (READY, None, PodAction.KEEP),
        (SILENT, None, PodAction.KEEP),
        (NOT_READY, None, PodAction.KEEP),
        (GONE, None, PodAction.KEEP),
        (DOOMED, None, PodAction.MOVE),
        (TO_BE_BOOTED, None, PodAction.MOVE),
        (DOOMED_AND_SILENT, None, PodAction.DELETE),
        (a_node(health="Unschedulable"), None, PodAction.KEEP),
        (a_node(health=None), None, PodAction.KEEP),
        # A Terminating pod on a healthy node is left to the kubelet, however long it takes.
        (READY, 1, PodAction.KEEP),
        (READY, 86_400, PodAction.KEEP),
        (a_node(health="Unschedulable"), 86_400, PodAction.KEEP),
        # A lost node has no kubelet to wait for; a node that is silent for a moment may have one.
        (SILENT, 4, PodAction.KEEP),
        (SILENT, 5, PodAction.FORCE),
        (NOT_READY, 4, PodAction.KEEP),
        (NOT_READY, 5, PodAction.FORCE),
        (JUST_SILENT, 20, PodAction.KEEP),
        (GONE, 4, PodAction.KEEP),
        (GONE, 5, PodAction.FORCE),
        # A labelled node has a kubelet, which respects the grace period.
        (DOOMED, GRACE + 4, PodAction.KEEP),
        (DOOMED, GRACE + 5, PodAction.FORCE),
        (TO_BE_BOOTED, GRACE + 5, PodAction.FORCE),
        (DOOMED_AND_SILENT, GRACE + 4, PodAction.KEEP),
        (DOOMED_AND_SILENT, GRACE + 5, PodAction.FORCE),
    ],
)
def test_each_pod_gets_its_verdict(node: Object | None, asked: float | None, action: PodAction) -> None:
    assert verdict(a_pod(asked=asked), node).action is action


def test_reasons_distinguish_lost_nodes_and_mention_that_a_pod_may_still_run() -> None:
    said = [verdict(a_pod(asked=40), node).reason for node in (GONE, SILENT, DOOMED)]
    assert len(set(said)) == 3
    assert "may still run" in said[1]


def test_job_supervisor_is_handled_like_a_ray_pod_and_other_pods_are_left_alone() -> None:
    supervisor = {"app.kubernetes.io/name": "job-supervisor", "ray-on-hyperpod/submitter": "true"}
    assert verdict(a_pod(asked=60, labels=supervisor), SILENT).action is PodAction.FORCE
    for labels_ in ({}, {"app": "database"}):
        for node in (SILENT, DOOMED, GONE):
            assert verdict(a_pod(asked=60, labels=labels_), node).action is PodAction.KEEP


def test_supervisor_on_a_labelled_node_has_nothing_to_save() -> None:
    supervisor = a_pod(labels={"ray-on-hyperpod/submitter": "true"})
    assert verdict(supervisor, DOOMED).action is PodAction.DELETE


SAVED = TrainingRun("saved", frozenset({"u-rayml-worker", "another"}))
SAVES = TrainingRun("saves", frozenset({"another"}))


@pytest.mark.parametrize(
    ("runs", "asked", "action", "said"),
    [
        ([], None, PodAction.DELETE, DOOMED["metadata"]["name"]),
        ([SAVES], None, PodAction.ASK, "first saves saves"),
        ([SAVES], 0, PodAction.KEEP, "still saves saves"),
        ([SAVED, SAVES], SAVE_SECONDS - 1, PodAction.KEEP, "still saves saves"),
        ([SAVED, SAVES], SAVE_SECONDS, PodAction.DELETE, f"not saved within {SAVE_SECONDS:.0f} s: saves"),
        ([SAVED], 1, PodAction.DELETE, DOOMED["metadata"]["name"]),
        # The run has ended, or lost its workers: there is nothing to save.
        ([], 1, PodAction.DELETE, DOOMED["metadata"]["name"]),
    ],
)
def test_pod_moves_off_a_live_node_once_all_runs_have_answered_or_after_a_time(
    runs: list[TrainingRun], asked: float | None, action: PodAction, said: str
) -> None:
    pod = a_pod(saves_since=asked)
    decided = before_move(Pod.of(pod), verdict(pod, DOOMED), runs, NOW)
    assert decided.action is action
    assert said in decided.reason


def test_node_that_dies_while_runs_save_is_handled_like_any_lost_node() -> None:
    assert verdict(a_pod(saves_since=1), DOOMED_AND_SILENT).action is PodAction.DELETE
    assert verdict(a_pod(asked=5, saves_since=9), SILENT).action is PodAction.FORCE


def test_request_to_save_is_withdrawn_when_the_node_has_recovered() -> None:
    assert verdict(a_pod(saves_since=10), READY).action is PodAction.WITHDRAW
    withdrawn = a_pod(saves_since=10)
    withdrawn["status"]["conditions"][0]["status"] = "False"
    assert verdict(withdrawn, READY).action is PodAction.KEEP
    assert Pod.of(withdrawn).asked_at is None, "the next label asks again"


def test_pod_without_a_node_is_kept() -> None:
    assert verdict(a_pod(node=None), GONE).action is PodAction.KEEP
    assert decide(Pod.of(a_pod(node=None)), GONE, NOW, TOLERATED, gone_seconds=3600).action is PodAction.KEEP


@pytest.mark.parametrize(("seconds", "action"), [(9.9, PodAction.KEEP), (10, PodAction.FORCE)])
def test_pod_of_a_node_that_does_not_exist_is_lost_after_ten_seconds(seconds: float, action: PodAction) -> None:
    assert decide(Pod.of(a_pod()), GONE, NOW, TOLERATED, seconds).action is action


def test_pod_with_a_finalizer_is_force_deleted_only_once() -> None:
    held = a_pod(asked=60, grace=0)
    assert Pod.of(held).deletion is not None
    assert (verdict(held, SILENT).action, verdict(held, GONE).action) == (PodAction.KEEP, PodAction.KEEP)


@pytest.mark.parametrize(
    ("spec", "cordoned", "action"),
    [
        ({}, False, PodAction.KEEP),
        ({}, True, PodAction.MOVE),
        ({"nodeSelector": {HEALTH: "Schedulable"}}, False, PodAction.MOVE),
        ({"nodeSelector": {"other": "x"}}, False, PodAction.KEEP),
    ],
)
def test_pod_moves_only_when_its_replacement_cannot_come_back(spec: Object, cordoned: bool, action: PodAction) -> None:
    pod = a_pod()
    pod["spec"] = {"nodeName": pod["spec"]["nodeName"], **spec}
    node = a_node(health=REPLACE)
    node["spec"]["unschedulable"] = cordoned
    assert verdict(pod, node).action is action


@pytest.mark.parametrize(
    ("terms", "action"),
    [
        ([[("NotIn", [REPLACE])]], PodAction.MOVE),
        ([[("NotIn", [REBOOT])]], PodAction.KEEP),
        ([[("In", ["Schedulable", REPLACE])]], PodAction.KEEP),
        ([[("Exists", None)]], PodAction.KEEP),
        ([[("DoesNotExist", None)]], PodAction.MOVE),
        ([[("Exists", None), ("In", ["Schedulable"])]], PodAction.MOVE),
        ([[("In", ["Schedulable"])], []], PodAction.KEEP),
    ],
)
def test_affinity_is_read_as_the_scheduler_reads_it(terms: list[list[tuple[str, Any]]], action: PodAction) -> None:
    pod = a_pod()
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] = [
        {"matchExpressions": [{"key": HEALTH, "operator": operator, "values": values} for operator, values in term]}
        for term in terms
    ]
    assert verdict(pod, DOOMED).action is action


def test_node_that_has_not_reported_yet_is_not_lost() -> None:
    node = a_node()
    node["status"] = {}
    assert verdict(a_pod(asked=86_400), node).action is PodAction.KEEP


@given(
    asked=st.none() | st.floats(0, 1e6),
    grace=st.sampled_from([0.0, 1.0, 30.0, 300.0]),
    since=st.floats(0, 1e6),
    health=st.none() | st.sampled_from(["Schedulable", "Unschedulable", "", "unschedulablependingreboot"]),
    cordoned=st.booleans(),
    tolerated=st.floats(0, 600),
)
def test_no_pod_on_a_healthy_node_is_ever_deleted(
    *, asked: float | None, grace: float, since: float, health: str | None, cordoned: bool, tolerated: float
) -> None:
    node = a_node(since=since, health=health)
    node["spec"]["unschedulable"] = cordoned
    decided = decide(Pod.of(a_pod(asked=asked, grace=grace)), NodeState.of(node), NOW, tolerated)
    assert decided.action is PodAction.KEEP


@given(asked=st.floats(0, 1e6), since=st.floats(0, 1e6), status=st.sampled_from(["False", "Unknown"]))
def test_never_forced_before_the_node_is_lost_for_the_time_that_pods_tolerate(
    asked: float, since: float, status: str
) -> None:
    node = NodeState.of(a_node(ready=status, since=since))
    assert node.unready_since is not None
    forced = decide(Pod.of(a_pod(asked=asked)), node, NOW, TOLERATED).action is PodAction.FORCE
    assert not forced or NOW - node.unready_since >= TOLERATED


def test_labels_are_those_of_the_project() -> None:
    """The reaper is shipped without `config`, so it repeats the labels."""
    assert decision.HEALTH_LABEL == labels.NODE_HEALTH_LABEL
    assert labels.NODE_SCHEDULABLE not in PENDING
