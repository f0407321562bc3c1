"""The sleeper from its own manifests, with their rights, beside the real operator: a group sleeps and wakes.

Times are short here: a group is idle after seconds. HyperPod, STS and Lambda are fakes, and the head answers as Ray.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from config import labels, load, naming
from controllers.hand import Hand
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import ACCELERATED, GENERAL, Kubectl, Object
from embedded_account.testing.cluster import pod as a_pod
from k8s_charts.controllers.code import ControllerCode, ControllerCodeChart
from k8s_charts.controllers.replicas import REPLICAS
from k8s_charts.controllers.sleeper import SleeperChart, sleeper_objects
from k8s_charts.shared.names import SLEEPER, SLEEPER_CODE
from tests.rehearsal.kubernetes.cluster import ray_cluster
from tests.support import fake_aws, fake_ray
from tests.support.fake_aws import FakeAws
from tests.support.fake_ray import FakeJob, FakeRay
from tests.support.sleeping_environment import with_sleep
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "sleeper"
RAY = "sleeper-ray"
GROUP = "sleepers"
COUNT = 2
ROLE = "arn:aws:iam::111122223333:role/sleeper"
DEV = load("dev")


def objects(aws: FakeAws, token: Path) -> list[Object]:
    """The sleeper as deployed, but for the group, how soon it is idle, and what EKS writes into its pods."""
    kuberay, ray = (
        part.model_copy(update={"namespace": namespace})
        for part, namespace in ((DEV.kuberay, NAMESPACE), (DEV.ray, RAY))
    )
    environment = with_sleep(DEV.model_copy(update={"kuberay": kuberay, "ray": ray}))
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
    rays = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RAY}}
    app = cdk8s.App()
    code = ControllerCodeChart(app, "code", controllers=[ControllerCode("sleeper", SLEEPER_CODE, NAMESPACE)])
    chart = SleeperChart(app, "sleeper", sleeper=sleeper_objects(environment, ROLE))
    made: list[Object] = [own, rays, *code.to_json(), *chart.to_json()]
    [deployment] = [item for item in made if item["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    workers = {"cluster": "rayml", "name": "gpu-group", "replicas": COUNT, "min_replicas": 1}
    group = {"group": GROUP, "count": COUNT, "min": 0, "after_seconds": 10, "hours": None, "workers": [workers]}
    kept = [word for word in container["args"] if not word.startswith("--group=")]
    container["args"] = [*kept, f"--group={json.dumps(group)}"]
    variables = {
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_ENDPOINT_URL_STS": aws.address,
        "AWS_ENDPOINT_URL_LAMBDA": aws.address,
    }
    container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    return made


class HyperPod:
    """The group's nodes, which come and go with the counts that the function sets."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.target = 0
        self.set(COUNT)

    def set(self, count: int) -> None:
        for number in range(self.target, count):
            place = {labels.INSTANCE_GROUP_LABEL: GROUP}
            self._nodes.add(f"sleeps-{number}", labels=place, allocatable=ACCELERATED, capacity=ACCELERATED)
        for number in range(count, self.target):
            self._nodes.remove(f"sleeps-{number}")
        self.target = count

    def answer(self, event: Any) -> Object:
        self.set(event.get("counts", {}).get(GROUP, self.target))
        groups = {GROUP: {"target": self.target, "current": self.target}}
        return {"cluster": "InService", "groups": groups, "refused": ""}


class Cluster:
    """What a test sees and does."""

    def __init__(self, kubectl: Kubectl, hyperpod: HyperPod, ray: FakeRay, aws: FakeAws, logs: Path) -> None:
        self.kubectl = kubectl
        self.hyperpod = hyperpod
        self.ray = ray
        self.aws = aws
        self._logs = logs

    def running(self) -> int:
        """How many workers run."""
        items = self.kubectl.get("-n", RAY, "pods", "-l", "ray.io/node-type=worker")["items"]
        return sum(item["status"]["phase"] == "Running" and "nodeName" in item["spec"] for item in items)

    def is_awake(self) -> bool:
        return self.hyperpod.target == COUNT and self.running() == COUNT

    def is_asleep(self) -> bool:
        return self.hyperpod.target == 0 and self.running() == 0

    def told(self) -> set[str]:
        events = self.kubectl.get("-n", RAY, "events")["items"]
        return {event["reason"] for event in events if event["source"].get("component") == SLEEPER}

    def said(self) -> list[Object]:
        lines = [line for log in self._logs.glob(f"{NAMESPACE}_*.log") for line in log.open()]
        return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.fixture(scope="module")
def cluster(
    operator: Object,
    nodes: Nodes,
    kubectl: Kubectl,
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """Sleeper, operator and a RayCluster with two workers on the group's nodes."""
    token = tmp_path_factory.mktemp("irsa") / "token"
    token.write_text("a-token")
    hyperpod = HyperPod(nodes)
    for number in (1, 2):
        place = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
        nodes.add(f"keeps-sleeper-{number}", labels=place, allocatable=GENERAL, capacity=GENERAL)
    rays = ray_cluster("rayml", workers=COUNT)
    rays["metadata"]["namespace"] = RAY
    [workers] = rays["spec"]["workerGroupSpecs"]
    workers["template"]["spec"]["nodeSelector"] = {labels.INSTANCE_GROUP_LABEL: GROUP}
    workers["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    with fake_aws.serve(ROLE, naming.group_counts(DEV)) as aws, fake_ray.serve() as ray:
        aws.answer = hyperpod.answer
        made = objects(aws, token)
        kubectl.apply(*(item for item in made if item["kind"] == "Namespace"))
        kubectl.apply(rays)
        found = Cluster(kubectl, hyperpod, ray, aws, control_plane.logs / "pods")
        # Somebody uses the group until a test lets it sleep.
        ray.jobs["first"] = FakeJob({"entrypoint": "x"})
        wait_until(lambda: found.running() == COUNT, "the workers")
        answers_at(kubectl, ray.host)
        kubectl.apply(*made)
        kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{SLEEPER}", KUBECTL_PATIENCE)
        yield found
        kubectl("-n", RAY, "delete", "raycluster", "rayml", KUBECTL_PATIENCE)
        kubectl("delete", "namespace", NAMESPACE, RAY, KUBECTL_PATIENCE)
    hyperpod.set(0)
    for number in (1, 2):
        nodes.remove(f"keeps-sleeper-{number}")


def answers_at(kubectl: Kubectl, address: str) -> None:
    """Give the head an address at which the fake of Ray answers."""
    [head] = kubectl.get("-n", RAY, "pods", "-l", "ray.io/node-type=head")["items"]
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    name = head["metadata"]["name"]
    kubectl("-n", RAY, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)


def test_a_group_sleeps_when_its_job_has_ended_and_a_pod_wakes_it(cluster: Cluster) -> None:
    wait_until(lambda: bool(cluster.aws.events), "the sleeper reads the counts")
    assert cluster.is_awake()
    cluster.ray.jobs["first"].end("SUCCEEDED", 0)
    wait_until(cluster.is_asleep, "sleep")
    replicas = cluster.kubectl.get("-n", RAY, "raycluster", "rayml")["spec"]["workerGroupSpecs"][0]
    assert (replicas["replicas"], replicas["minReplicas"]) == (0, 0)
    pod = a_pod("notebook-0", nodeSelector={labels.INSTANCE_GROUP_LABEL: GROUP})
    pod["metadata"]["namespace"] = "default"
    cluster.kubectl.apply(pod)
    wait_until(cluster.is_awake, "wake")
    replicas = cluster.kubectl.get("-n", RAY, "raycluster", "rayml")["spec"]["workerGroupSpecs"][0]
    assert (replicas["replicas"], replicas["minReplicas"]) == (COUNT, 1)
    assert [event["counts"] for event in cluster.aws.events if event] == [{GROUP: 0}, {GROUP: COUNT}]
    wait_until(lambda: cluster.told() == {"GroupSleeps", "GroupWakes"}, "events")


def request(cluster: Cluster, hand: Hand) -> None:
    """Annotate the RayCluster as `ops sleep` and `ops wake` do."""
    cluster.kubectl("-n", RAY, "annotate", "raycluster", "rayml", f"{labels.HAND}/{GROUP}={hand}", "--overwrite")


def has_ended(cluster: Cluster) -> bool:
    found = cluster.kubectl.get("-n", RAY, "raycluster", "rayml")["metadata"].get("annotations", {})
    return f"{labels.HAND}/{GROUP}" not in found


def test_a_user_ends_a_request_to_sleep(cluster: Cluster) -> None:
    request(cluster, Hand(awake=False, at=time.time()))
    wait_until(lambda: has_ended(cluster), "the end of the request")
    assert cluster.is_awake()


def test_the_rights_suffice_and_one_of_two_replicas_acts(cluster: Cluster) -> None:
    said = cluster.said()
    assert [line for line in said if line["message"] in ("permissions", "error")] == []
    assert len({line["holder"] for line in said if line["message"] == "acts"}) == 1
    pods = cluster.kubectl.get("-n", NAMESPACE, "pods")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == REPLICAS
    assert all(condition_of(pod, "Ready") == "True" for pod in pods)


def open_shell(cluster: Cluster, until: str) -> None:
    """Mark a node as `ops node shell` does, or remove the mark without a time."""
    key = f"{labels.SHELL}01234567"
    cluster.kubectl("annotate", "node", "sleeps-0", f"{key}={until} ada" if until else f"{key}-")


def condition_of(pod: Object, kind: str) -> str:
    return next(str(each["status"]) for each in pod["status"]["conditions"] if each["type"] == kind)


def test_the_other_replica_continues_when_the_first_is_gone(cluster: Cluster) -> None:
    [holder] = {line["holder"] for line in cluster.said() if line["message"] == "acts"}
    open_shell(cluster, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
    cluster.kubectl("-n", NAMESPACE, "delete", "pod", holder, "--wait=false")
    cluster.kubectl("delete", "pod", "notebook-0", "--wait=false")
    kept = "used by shell of ada on node sleeps-0"
    wait_until(lambda: any(line.get("reason") == kept for line in cluster.said()), "the shell counts")
    assert cluster.is_awake()
    open_shell(cluster, "")
    wait_until(cluster.is_asleep, "sleep")
    holders = [line["holder"] for line in cluster.said() if line["message"] == "acts"]
    assert len(holders) == 2
    assert holders[0] != holders[1]


def test_a_person_wakes_it_for_a_while(cluster: Cluster) -> None:
    request(cluster, Hand(awake=True, at=time.time() + 60))
    wait_until(cluster.is_awake, "wake")
    assert not has_ended(cluster)
    request(cluster, Hand(awake=False, at=time.time()))
    wait_until(cluster.is_asleep, "sleep")
    assert not has_ended(cluster), "until something uses it"
    request(cluster, Hand(awake=True, at=time.time()))
    wait_until(lambda: has_ended(cluster), "the end of the request")
    assert [line for line in cluster.said() if line["message"] in ("permissions", "error")] == []
