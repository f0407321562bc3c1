"""The plan of `ops scale`: which nodes it removes, and which Ray workers with them."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from config.labels import INSTANCE_GROUP_LABEL
from ops.change.scale_plan import MARK, ScalePlan, plan

GROUP = "worker-group-1"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
STATES = ["Running", "Pending", "ShuttingDown", "SystemUpdating", "DeepHealthCheckInProgress", "Failure", "NotFound"]
"""InstanceStatus values of nodes (AWS docs: ClusterInstanceStatusDetails)."""


def node(number: int, status: str = "Running", group: str = GROUP) -> dict[str, Any]:
    """Return a node of ListClusterNodes; a higher number is newer."""
    return {
        "InstanceGroupName": group,
        "InstanceId": f"i-{number}",
        "LaunchTime": NOON + timedelta(minutes=number),
        "InstanceStatus": {"Status": status},
    }


def kubernetes_node(number: int, *, cordoned: bool = True, marked: bool = True) -> Any:
    """Return a Kubernetes node, by default one that an earlier run chose."""
    metadata = SimpleNamespace(name=f"hyperpod-i-{number}", annotations={MARK: "true"} if marked else None)
    return SimpleNamespace(metadata=metadata, spec=SimpleNamespace(unschedulable=cordoned))


def pod(name: str, on: int | None, kind: str = "worker", group: str = "gpu-group", ending: bool = False) -> Any:
    """Return a Ray pod on a node, or waiting for one."""
    labels = {"ray.io/cluster": "rayml", "ray.io/group": group, "ray.io/node-type": kind}
    metadata = SimpleNamespace(name=name, namespace="ray", labels=labels, deletion_timestamp=NOON if ending else None)
    return SimpleNamespace(metadata=metadata, spec=SimpleNamespace(node_name=f"hyperpod-i-{on}" if on else None))


def workers(replicas: int, instance_group: str = GROUP, **more: Any) -> dict[str, Any]:
    """Return a worker group of a RayCluster."""
    template = {"spec": {"nodeSelector": {INSTANCE_GROUP_LABEL: instance_group}}}
    bounds = {"minReplicas": 1, "maxReplicas": 10}
    return {"groupName": "gpu-group", "replicas": replicas, "template": template} | bounds | more


def ray_cluster(*groups: dict[str, Any], autoscaled: bool = False) -> dict[str, Any]:
    """Return a RayCluster."""
    spec = {"workerGroupSpecs": list(groups), "enableInTreeAutoscaling": autoscaled}
    return {"metadata": {"namespace": "ray", "name": "rayml"}, "spec": spec}


def planned(wanted: int, nodes: list[dict[str, Any]], pods: list[Any], *clusters: Any, **more: Any) -> ScalePlan:
    options: dict[str, Any] = {"target": len(nodes), "kubernetes_nodes": []} | more
    return plan(group=GROUP, wanted=wanted, nodes=nodes, pods=pods, ray_clusters=clusters, **options)


def leaving(made: ScalePlan) -> list[str]:
    return [node.instance for node in made.leaving]


def test_nodes_without_a_ray_pod_go_first_then_the_newest() -> None:
    nodes = [node(1), node(2), node(3), node(4)]
    pods = [pod("a", 1), pod("c", 3), pod("d", 4)]
    assert leaving(planned(2, nodes, pods, ray_cluster(workers(3)))) == ["i-2", "i-4"]


def test_a_node_with_a_head_goes_last() -> None:
    pods = [pod("head", 3, kind="head"), pod("a", 1), pod("b", 2)]
    assert leaving(planned(1, [node(1), node(2), node(3)], pods)) == ["i-2", "i-1"]


def test_nodes_that_an_interrupted_run_chose_go_first() -> None:
    nodes = [node(1), node(2), node(3)]
    made = planned(2, nodes, [pod("a", 1)], kubernetes_nodes=[kubernetes_node(1)])
    assert leaving(made) == ["i-1"]


def test_uncordoning_a_node_cancels_the_choice() -> None:
    nodes = [node(1), node(2), node(3)]
    made = planned(2, nodes, [pod("a", 1)], kubernetes_nodes=[kubernetes_node(1, cordoned=False)])
    assert leaving(made) == ["i-3"]


def test_nodes_that_are_being_deleted_and_other_groups_do_not_count() -> None:
    nodes = [node(1), node(2, "ShuttingDown"), node(3, "Failure"), node(4, group="head-group")]
    assert leaving(planned(1, nodes, [], target=1)) == []


def test_replicas_are_lowered_by_the_pods_on_the_removed_nodes() -> None:
    nodes = [node(1), node(2), node(3), node(4)]
    pods = [pod("a", 1), pod("b", 2), pod("c", 3), pod("d", 4)]
    made = planned(2, nodes, pods, ray_cluster(workers(4)))
    (change,) = made.replicas
    assert (change.before, change.after) == (4, 2)
    assert made.clusters == {("ray", "rayml")}


def test_empty_nodes_leave_replicas_alone() -> None:
    made = planned(2, [node(1), node(2), node(3)], [pod("a", 1), pod("b", 2)], ray_cluster(workers(2)))
    assert leaving(made) == ["i-3"]
    assert made.replicas == ()
    assert made.clusters == set()


def test_an_empty_node_that_a_pending_worker_waits_for_takes_its_replica() -> None:
    pods = [pod("a", 1), pod("b", 2), pod("c", None)]
    made = planned(2, [node(1), node(2), node(3)], pods, ray_cluster(workers(3)))
    (change,) = made.replicas
    assert leaving(made) == ["i-3"]
    assert (change.before, change.after) == (3, 2)


def test_an_empty_node_takes_the_replica_of_a_worker_whose_node_is_gone() -> None:
    pods = [pod("a", 1), pod("b", 2), pod("c", 9)]
    (change,) = planned(2, [node(1), node(2), node(3)], pods, ray_cluster(workers(3))).replicas
    assert (change.before, change.after) == (3, 2)


def test_a_pending_worker_that_an_empty_node_is_left_for_keeps_its_replica() -> None:
    pods = [pod("a", 1), pod("b", 2), pod("c", None)]
    made = planned(3, [node(1), node(2), node(3), node(4)], pods, ray_cluster(workers(3)))
    assert leaving(made) == ["i-4"]
    assert made.replicas == ()


def test_worker_groups_elsewhere_are_left_alone() -> None:
    other = workers(1, instance_group="other") | {"groupName": "other"}
    pods = [pod("a", 1), pod("b", 2), pod("x", 9, group="other")]
    (change,) = planned(1, [node(1), node(2)], pods, ray_cluster(other, workers(2))).replicas
    assert (change.index, change.group) == (1, "gpu-group")


def test_nodes_that_were_never_launched_are_left_to_the_deployment() -> None:
    pods = [pod("a", 1), pod("b", 2), pod("c", None), pod("d", None)]
    made = planned(2, [node(1), node(2)], pods, ray_cluster(workers(4)), target=4)
    (change,) = made.replicas
    assert leaving(made) == []
    assert made.never_launched == 2
    assert change.after == 2


def test_a_resumed_run_lowers_only_what_the_interrupted_one_did_not() -> None:
    """The first node is drained and its replica removed, the second is drained, and on the third a worker is ending."""
    nodes = [node(1), node(2), node(3), node(4)]
    pods = [pod("a", 1), pod("b", None), pod("c", 4, ending=True)]
    cordoned = [kubernetes_node(number) for number in (2, 3, 4)]
    made = planned(1, nodes, pods, ray_cluster(workers(3)), kubernetes_nodes=cordoned)
    (change,) = made.replicas
    assert sorted(leaving(made)) == ["i-2", "i-3", "i-4"]
    assert (change.before, change.after) == (3, 1)


def test_a_resumed_run_lowers_no_replicas_twice() -> None:
    nodes = [node(1), node(2)]
    made = planned(1, nodes, [pod("a", 1)], ray_cluster(workers(1)), kubernetes_nodes=[kubernetes_node(2)])
    assert leaving(made) == ["i-2"]
    assert made.replicas == ()


def test_count_is_never_left_below_the_wanted_one() -> None:
    """Nodes that HyperPod replaces are listed beside their successors: each deleted id lowers the target."""
    nodes = [node(1), node(2), node(3), node(4, "Pending"), node(5)]
    made = planned(2, nodes, [pod("a", 1), pod("b", 2)], ray_cluster(workers(2)), target=3)
    assert len(leaving(made)) == 1
    assert made.never_launched == 0


@given(wanted=st.integers(0, 6), above=st.integers(0, 6), states=st.lists(st.sampled_from(STATES), max_size=8))
def test_any_listing_leaves_the_wanted_count(wanted: int, above: int, states: list[str]) -> None:
    target = wanted + above
    made = planned(wanted, [node(n, state) for n, state in enumerate(states)], [], target=target)
    assert target - len(made.leaving) - made.never_launched == wanted
    assert made.never_launched >= 0
