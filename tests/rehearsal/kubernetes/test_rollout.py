"""Changed templates and removed groups, with the real operator: what it leaves, what is said of it, what mends it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import kubernetes
import pytest

from config import EksEnvironment, Environment, labels, load
from config.facts.capacity import allocatable
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.testing.cluster import Kubectl, Object
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.shared.chart import ProjectChart
from ops.change import rollout as rollouts
from ops.change.drain import Say
from ops.change.rollout import Rollout
from ops.change.scale import refuse_jobs
from ops.errors import RefusedError
from ops.jobs.running import running
from ops.max_unavailable import MaxUnavailable, max_unavailable
from ops.readiness.item import ReadinessItem, ReadinessState, Require
from ops.readiness.workloads import ray_clusters
from tests.charts.support.facts import RAY_FACTS
from tests.support.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "rollout"
GROUPS = ("first", "second")
Said = list[str]


def environment(*groups: str, replicas: int = 1, **env: str) -> EksEnvironment:
    """`small` with these worker groups, of one worker each unless told, and this environment in its pods."""
    small = load("small")
    [cluster] = small.ray.clusters
    [worker] = cluster.workers
    workers = tuple(worker.model_copy(update={"name": name, "replicas": replicas}) for name in groups)
    changed = cluster.model_copy(update={"workers": workers, "env": env})
    return small.model_copy(
        update={"ray": small.ray.model_copy(update={"namespace": NAMESPACE, "clusters": (changed,)})}
    )


class Ray:
    """The RayCluster, as a deployment changes it and as `ops` sees it."""

    def __init__(self, kubectl: Kubectl, api: kubernetes.client.ApiClient) -> None:
        self._kubectl = kubectl
        self.api = api

    def deploy(self, wanted: EksEnvironment) -> None:
        """Apply what a deployment of the ray stack applies to the RayCluster."""
        self._environment = wanted
        objects = ray_objects(wanted, RAY_FACTS)
        self.apply(objects.clusters["rayml"])

    def apply(self, *charts: ProjectChart) -> None:
        self._kubectl.apply(*(item for chart in charts for item in chart.to_json()))

    def pods(self) -> dict[str, Object]:
        """By name, those that are about to end apart."""
        listed = self._kubectl.get("-n", NAMESPACE, "pods", "-l", "ray.io/cluster=rayml")["items"]
        return {pod["metadata"]["name"]: pod for pod in listed if "deletionTimestamp" not in pod["metadata"]}

    def groups(self) -> Counter[str]:
        """How many pods that are Ready each group has."""
        ready = {"type": "Ready", "status": "True"}
        return Counter(
            pod["metadata"]["labels"]["ray.io/group"]
            for pod in self.pods().values()
            if any(ready.items() <= each.items() for each in pod["status"].get("conditions", ()))
        )

    def templates(self) -> dict[str, str]:
        """The hash that each pod carries, by its group; all pods of a group have one."""
        found = {(_label(pod, "ray.io/group"), _label(pod, labels.TEMPLATE_LABEL)) for pod in self.pods().values()}
        assert len(dict(found)) == len(found)
        return dict(found)

    def wanted_templates(self) -> dict[str, str]:
        """The hash in the spec of each group."""
        spec = self.spec()
        groups = {"headgroup": spec["headGroupSpec"]}
        groups |= {group["groupName"]: group for group in spec["workerGroupSpecs"]}
        return {name: _label(group["template"], labels.TEMPLATE_LABEL) for name, group in groups.items()}

    def spec(self) -> Object:
        spec: Object = self._kubectl.get("-n", NAMESPACE, "raycluster", "rayml")["spec"]
        return spec

    def status(self) -> ReadinessItem:
        """The line of `ops status`."""
        [item] = ray_clusters(self._environment, self.api, Require.ALL)
        return item

    def plan(self, batches: MaxUnavailable | None = None) -> Rollout:
        [made] = rollouts.plan_rollout(self._environment, self.api, "rayml", batches)
        return made

    def roll_out(self, batches: MaxUnavailable | None = None, say: Say | None = None) -> Said:
        """Carry out what is needed, and return what was said."""
        said: Said = []

        def both(line: str) -> None:
            said.append(line)
            if say:
                say(line)

        rollouts.carry_out(self.plan(batches), both, timeout=PATIENCE_SECONDS, interval=0.2)
        return said

    def refusal(self) -> str:
        """Return why a rollout is refused; "" if it is not."""
        try:
            refuse_jobs({(NAMESPACE, "rayml")}, partial(running, self.api))
        except RefusedError as error:
            return str(error)
        return ""

    def service(self) -> str:
        uid: str = self._kubectl.get("-n", NAMESPACE, "service", "rayml-head-svc")["metadata"]["uid"]
        return uid


def _label(item: Object, key: str) -> str:
    return str(item["metadata"]["labels"][key])


def _nodes(wanted: Environment) -> Iterator[NodeSpec]:
    """Yield twice the nodes of the file: batches are tried with two workers in each group."""
    for group in wanted.hyperpod.instance_groups:
        room = allocatable(group.type, group.threads_per_core)
        amounts = {"cpu": f"{room.cpu_millis}m", "memory": f"{room.memory_mib}Mi", "pods": str(room.pods)}
        amounts |= {name: str(count) for name, count in room.devices.items()}
        own = {labels.INSTANCE_GROUP_LABEL: group.name, labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE}
        for number in range(2 * group.count):
            yield NodeSpec(
                name=f"rollout-{group.name}-{number}",
                labels={"group": "rollout", **own},
                allocatable=amounts,
                capacity=amounts,
            )


@pytest.fixture(scope="module")
def made(control_plane: ControlPlane, operator: Object, nodes: Nodes, kubectl: Kubectl) -> Iterator[Ray]:
    """Everything that the RayCluster's pods need."""
    wanted = environment(*GROUPS)
    specs = list(_nodes(wanted))
    nodes.add_all(specs)
    objects: RayObjects = ray_objects(wanted, RAY_FACTS)
    configuration = str(control_plane.admin_kubeconfig)
    with kubernetes.config.new_client_from_config(config_file=configuration) as api:
        ray = Ray(kubectl, api)
        ray.apply(objects.namespace)
        ray.apply(objects.account, objects.volume)
        yield ray
    kubectl("delete", "namespace", NAMESPACE, KUBECTL_PATIENCE)
    kubectl("delete", "-f", "-", "--ignore-not-found", stdin=_volumes(objects.volume))
    for spec in specs:
        nodes.remove(spec.name)


def _volumes(chart: ProjectChart) -> str:
    items: Sequence[Any] = [item for item in chart.to_json() if item["kind"] == "PersistentVolume"]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture
def ray(made: Ray, kubectl: Kubectl) -> Iterator[Ray]:
    """A RayCluster of a head and two groups of one worker, whole and up to date."""
    made.deploy(environment(*GROUPS))
    wait_until(lambda: made.groups() == {"headgroup": 1, "first": 1, "second": 1}, "RayCluster")
    wait_until(lambda: made.status().state is ReadinessState.READY, "its status")
    yield made
    kubectl("-n", NAMESPACE, "delete", "raycluster", "rayml", KUBECTL_PATIENCE)
    wait_until(lambda: not kubectl("-n", NAMESPACE, "get", "pods", "-o", "name"), "end of its pods")


def test_pods_carry_the_hash_of_their_group_and_more_replicas_make_none_old(ray: Ray) -> None:
    ray.deploy(environment(*GROUPS, replicas=2))
    assert ray.templates() == ray.wanted_templates()
    assert not ray.plan().is_needed


def test_a_changed_template_leaves_old_pods_until_a_rollout_replaces_all_of_them(ray: Ray) -> None:
    before, service = ray.pods(), ray.service()
    ray.deploy(environment(*GROUPS, NCCL_DEBUG="WARN"))
    wait_until(lambda: "3 pods with an old template" in ray.status().detail, "its status")
    assert ray.status().detail.endswith("`ops rollout rayml --env small`")
    assert ray.pods().keys() == before.keys(), "KubeRay 1.2.0 replaces none by itself"
    said = ray.roll_out()
    assert said[-1] == "RayCluster rollout/rayml: every pod is ready and has the current template"
    assert not ray.pods().keys() & before.keys()
    assert ray.templates() == ray.wanted_templates()
    assert ray.groups() == {"headgroup": 1, "first": 1, "second": 1}
    assert ray.spec()["suspend"] is False, "KubeRay 1.3 keeps a RayCluster suspended whose field is removed"
    assert ray.service() == service
    assert not ray.plan().is_needed


def test_a_removed_group_leaves_orphans_until_a_rollout_removes_them_and_nothing_else(ray: Ray) -> None:
    before = ray.pods()
    ray.deploy(environment("first"))
    wait_until(lambda: "1 pod of a removed group (second)" in ray.status().detail, "its status")
    assert ray.pods().keys() == before.keys(), "KubeRay 1.2.0 looks at groups in the spec only"
    assert ray.status().state is ReadinessState.READY, "an orphan is no worker"
    ray.roll_out()
    kept = {name for name, pod in before.items() if _label(pod, "ray.io/group") != "second"}
    assert ray.pods().keys() == kept
    wait_until(lambda: ray.status().detail == "ready, 1 of 1 workers", "its status")


def test_a_suspension_takes_orphans_too(ray: Ray) -> None:
    ray.deploy(environment("first", NCCL_DEBUG="WARN"))
    wait_until(lambda: bool(ray.plan().outdated.orphans and ray.plan().outdated.old), "both kinds")
    ray.roll_out()
    assert ray.groups() == {"headgroup": 1, "first": 1}
    assert ray.templates() == ray.wanted_templates()


def test_an_interrupted_rollout_is_seen_survives_a_deployment_and_is_gone_on_with(ray: Ray) -> None:
    ray.deploy(environment(*GROUPS, NCCL_DEBUG="WARN"))
    said: Said = []

    def interrupt(line: str) -> None:
        said.append(line)
        if line.endswith(": suspended"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollouts.carry_out(ray.plan(), interrupt, timeout=PATIENCE_SECONDS, interval=0.2)
    assert "may still be suspended" in said[-1]
    wait_until(lambda: not ray.pods(), "end of all pods")
    ray.deploy(environment(*GROUPS, NCCL_DEBUG="INFO"))
    assert ray.status().state is ReadinessState.WAITING
    assert "suspended, 0 of 2 workers; `ops rollout rayml --env small` resumes it" in ray.status().detail
    ray.roll_out()
    assert ray.groups() == {"headgroup": 1, "first": 1, "second": 1}
    assert ray.templates() == ray.wanted_templates()


def test_batches_keep_the_other_workers_take_the_head_last_and_resume(ray: Ray) -> None:
    one = max_unavailable("50%")
    ray.deploy(environment(*GROUPS, replicas=2))
    wait_until(lambda: ray.groups() == {"headgroup": 1, "first": 2, "second": 2}, "four workers")
    ray.deploy(environment(*GROUPS, replicas=2, NCCL_DEBUG="WARN"))
    before = ray.pods()
    looks: list[tuple[Counter[str], Counter[str]]] = []

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ray.roll_out(one, interrupt)

    def look(line: str) -> None:
        pods = ray.pods()
        old = Counter(_label(pods[name], "ray.io/group") for name in pods.keys() & before.keys())
        looks.append((old, ray.groups()))

    said = ray.roll_out(one, look)
    assert said[-1] == "RayCluster rollout/rayml: every pod is ready and has the current template"
    assert not ray.pods().keys() & before.keys()
    assert ray.templates() == ray.wanted_templates()
    begun = [line for line in said if "with an old template terminating" in line]
    assert len(begun) == 3, "one of four batches was begun before the interruption"
    assert all(ready[group] >= 1 for _, ready in looks for group in GROUPS), "at most one worker of a group is gone"
    assert all(old["headgroup"] == 1 for old, _ in looks if any(old[group] for group in GROUPS)), "the head is last"
    assert all(old["second"] == 2 for old, _ in looks if old["first"]), "one group after the other"


def test_a_rollout_is_refused_while_the_head_does_not_say_what_runs(ray: Ray, nodes: Nodes) -> None:
    """The head's node is lost; before, the simulated head answers that no job runs."""
    ray.deploy(environment(*GROUPS, NCCL_DEBUG="WARN"))
    [head_node] = {pod["spec"]["nodeName"] for pod in ray.pods().values() if _label(pod, "ray.io/group") == "headgroup"}
    wait_until(lambda: not ray.refusal(), "the head's answer")
    nodes.stop_heartbeat(head_node)
    try:
        wait_until(lambda: "does not say which jobs run" in ray.refusal(), "refusal")
    finally:
        nodes.resume_heartbeat(head_node)
        wait_until(lambda: nodes.is_ready(head_node), "recovery of the head's node")
