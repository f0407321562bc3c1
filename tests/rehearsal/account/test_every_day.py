"""The commands of every day against one HyperPod cluster with a real control plane and the real KubeRay operator.

The head is a RayCluster's own, but its container runs a small web server instead of Ray; the workers are simulated.
"""

import dataclasses
import json
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import boto3
import cdk8s
import pytest
import yaml
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from config import labels, load, naming
from config.facts import charts_lock, support
from config.facts.versions import PYTHON_IMAGE
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.hyperpod import simulator_of
from embedded_account.kubernetes.building import binaries as programs
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine import isolation
from embedded_account.server import AccountServer
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.testing.clients import Clients
from embedded_account.testing.cluster import Kubectl, Object
from embedded_account.testing.eks_setup import set_up
from embedded_account.testing.stacks import StackDeployer, topic
from handlers.group_counts.counts import Wanted, set_counts
from k8s_charts.helm.kuberay import CHART
from k8s_charts.ray.viewers import ViewersChart
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE, REAPER, RUN_LABEL, RUN_STOP, viewers_group
from ops.commands.whole import app
from ops.policy.role import PersonRole
from rehearsal import paths
from tests.rehearsal.account import delivery_roles
from tests.rehearsal.account.small_cluster import create_hyperpod, install_dependencies
from tests.rehearsal.kubernetes.cluster import (
    OPERATOR_NAMESPACE,
    definitions,
    install_definitions,
    is_allowed,
    operator_objects,
    ray_cluster,
)
from tests.support import assumed_role, people, workflows
from tests.support.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until
from tests.support.workflows import WorkflowCommand

pytestmark = pytest.mark.product

SMALL = load("small")
CLUSTER = naming.eks_cluster(SMALL)
HYPERPOD = SMALL.hyperpod.cluster_name
HEAD_GROUP, WORKERS = (group.name for group in SMALL.hyperpod.instance_groups)
ROLES = (PersonRole.OPERATOR, PersonRole.SCIENTIST, PersonRole.DEPLOYER)
VIEWER = people.role_name(PersonRole.VIEWER)
VISITOR = "RehearsalVisitor"
CONFINED = "RehearsalConfined"
"""A role with a viewer's policies that administers Kubernetes."""
VOLUME_NAMESPACE = naming.volume_namespace(SMALL)
READING = {
    **dict.fromkeys(("cost --live", "events", "job list", "kubeconfig", "logs head", "logs lifecycle"), 0),
    **dict.fromkeys(("logs reaper", "node list"), 0),
    **dict.fromkeys(("job logs none", "wait --timeout 0s"), 1),
}
"""A viewer's commands, each with its arguments and exit code; `data ls`, `plan` and `status` have their own tests."""
MAY_VIEW = {
    **dict.fromkeys(("get pods/log", "list pods", "watch rayclusters.ray.io", "list jobs.batch"), True),
    **dict.fromkeys(("get secrets", "list secrets", "get configmaps", "create pods", "delete pods"), False),
    **dict.fromkeys(("get pods/exec", "create pods/exec", "get pods/portforward", "create pods/portforward"), False),
    **dict.fromkeys(("get pods/proxy", "get services/proxy", "patch rayclusters.ray.io", "create jobs.batch"), False),
}
"""What the viewers' group may do in Ray's namespace: verb and resource with its API group."""
IN_KUBERNETES = (
    *("dashboard", "image build", "isolation-check", "job list", "job top", "job logs run-1", "job checkpoint run-1"),
    "job profile run-1",
    "job exec run-1 -- true",
    *("logs head", "node list", "pause", "resume", "rollout", "scale worker-group-1 0", "wait"),
)
"""Commands that ask the Kubernetes API, each with its arguments."""
WORKFLOWS = [each for each in workflows.commands("small") if each.words[1] not in {"deploy", "plan"}]
"""The commands of GitHub's workflows that ask the Kubernetes API; `test_delivery` has the others."""
OF_WORKFLOWS = {
    "wait": (("--timeout", "0s"), 1, "Ray image"),
    "isolation-check": ((), 1, "a rehearsal does not enforce policies: nothing was tried"),
    "smoke": ((), 1, "the environment has no job supervisor"),
    "drift": ((), 0, "no drift in what was compared"),
}
"""Of these commands: arguments of the test, the exit code, and what is printed where it ends."""
REFUSED: list[str] = []
"""What the tests expect to be refused, in order. Commands must be refused nothing."""
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
SYSTEM_NODE = {"cpu": "4", "memory": "14Gi", "pods": "58"}
# It answers as its pod, and lists no jobs, as Ray's dashboard would.
SERVER = """
import http.server, os, sys
host, _, port = sys.argv[1].partition("=")[2].rpartition(":")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"[]" if self.path.startswith("/api/jobs") else os.environ["HOSTNAME"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
print("the head serves", flush=True)
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


class EveryDay:
    """The deployed environment, and `ops` as people with the policies of `ops policy` use it."""

    def __init__(
        self, account: Account, clients: Clients, directory: Path, binaries: Binaries, delivery: dict[str, str]
    ) -> None:
        self.account = account
        self.binaries = binaries
        self.clients = clients
        self._directory = directory
        plane = account.clusters.get(CLUSTER).control_plane
        assert isinstance(plane, ControlPlane)
        self.control_plane = plane
        self.kubectl = Kubectl(plane)
        self._keys = {
            name: assumed_role.credentials(clients, f"arn:aws:iam::{account.account_id}:role/{name}")
            for name in (*map(people.role_name, ROLES), VIEWER, VISITOR, CONFINED)
        }
        self.delivery = delivery
        for each in (WORKFLOWS[0], WORKFLOWS[-1]):
            self._keys[each.github_environment] = delivery_roles.job_credentials(
                account,
                clients,
                delivery_roles.role_of(delivery, each.github_environment),
                github_environment=each.github_environment,
                seconds=each.seconds,
            )

    def environment(self, *words: str, name: str = "") -> dict[str, str]:
        """Return the variables of a command, with credentials of the role `name`, by default the one it is for."""
        return isolation.child_environment(
            self._directory,
            endpoint=self.account.endpoint,
            region=SMALL.region,
            account_id=SMALL.account,
            extra=self._keys[name or people.role_name(people.roles_of(words)[0])]
            | {DIRECTORY_VARIABLE: str(DIRECTORY), support.TODAY_VARIABLE: str(support.today())},
        )

    def ops(self, *words: str, name: str = "") -> Result:
        """Run a command of `ops` in this process, as `environment` says."""
        end = words.index("--") if "--" in words else len(words)
        typed = [*words[:end], "--env", "small", *words[end:]]
        return CliRunner(env=self.environment(*words, name=name)).invoke(app, typed)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `ops` as a process, which Ctrl-C can end."""
        # Whoever runs the tests in the background lets them ignore SIGINT.
        command = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-u", "-m", "ops", *words, "--env", "small"]
        return subprocess.Popen(
            command,
            # Neither kubectl nor the AWS CLI is found.
            env=self.environment(*words) | {"PATH": "/var/empty"},
            cwd=paths.REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def nodes(self) -> dict[str, Any]:
        """Return the data of `ops node list` by instance."""
        listed = self.ops("node", "list", "-o", "json")
        assert listed.exit_code == 0, listed.output
        return {node["instance"]: node for node in json.loads(listed.stdout)}

    def node_of(self, kind: str) -> str:
        """Return the instance that runs the head or the worker."""
        return next(name for name, node in self.nodes().items() if any(kind in pod for pod in node["pods"]))

    def pods(self, kind: str) -> list[Object]:
        """Return the RayCluster's Ready heads or workers."""
        selector = f"ray.io/cluster=rayml,ray.io/node-type={kind}"
        listed = self.kubectl.get("-n", SMALL.ray.namespace, "pods", "-l", selector)["items"]
        return [pod for pod in listed if _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]


def _is_ready(pod: Object) -> bool:
    ready = {"type": "Ready", "status": "True"}
    return any(ready.items() <= each.items() for each in pod["status"].get("conditions", ()))


def cluster_object() -> Object:
    made = ray_cluster("rayml", workers=1)
    made["metadata"] |= {
        "namespace": SMALL.ray.namespace,
        "annotations": {"ray.io/overwrite-container-cmd": "true"},
    }
    probe = {"httpGet": {"path": "/", "port": 8265}, "periodSeconds": 1}
    head = {
        "name": "ray-head",
        "image": PYTHON_IMAGE,
        "command": ["python", "-u", "-c", SERVER, "--listen=0.0.0.0:8265"],
        "ports": [{"containerPort": 8265}],
        "readinessProbe": probe,
        "livenessProbe": probe,
        "resources": {},
    }
    [worker] = made["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    worker |= {"name": "ray-worker", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    head_spec = {"containers": [head], "nodeSelector": {labels.INSTANCE_GROUP_LABEL: HEAD_GROUP}}
    worker_spec = {"containers": [worker], "nodeSelector": {labels.INSTANCE_GROUP_LABEL: WORKERS}}
    made["spec"]["headGroupSpec"]["template"] = {"spec": head_spec}
    made["spec"]["workerGroupSpecs"][0]["template"] = {"spec": worker_spec}
    return made


def reaper_pod() -> Object:
    container = {"name": "reaper", "image": PYTHON_IMAGE, "command": ["python", "-u", "-c", REAPING]}
    metadata = {"name": "ray-reaper-1", "namespace": OPERATOR_NAMESPACE, "labels": {"app.kubernetes.io/name": REAPER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def viewers_objects() -> list[Object]:
    namespaces = (SMALL.ray.namespace, OPERATOR_NAMESPACE, VOLUME_NAMESPACE, IMAGE_BUILD_NAMESPACE)
    chart = ViewersChart(cdk8s.App(), "viewers", ray_namespace=SMALL.ray.namespace, namespaces=namespaces)
    return list(chart.to_json())


REAPING = "import sys, time; print('watching', flush=True); time.sleep(3600)"


def give_access(clients: Clients, workflows: list[str]) -> None:
    """Create the roles of people, whose policies let them use the account, and their access and that of `workflows`."""
    eks = clients("eks")
    people.make_role(clients, SMALL, PersonRole.OPERATOR, VISITOR)
    viewer = people.make_role(clients, SMALL, PersonRole.VIEWER)
    group = viewers_group(SMALL.ray.namespace)
    eks.create_access_entry(clusterName=CLUSTER, principalArn=viewer, kubernetesGroups=[group])
    admins = [people.make_role(clients, SMALL, role) for role in ROLES]
    for arn in (*admins, *workflows, people.make_role(clients, SMALL, PersonRole.VIEWER, CONFINED)):
        eks.create_access_entry(clusterName=CLUSTER, principalArn=arn)
        eks.associate_access_policy(
            clusterName=CLUSTER, principalArn=arn, policyArn=ADMIN_POLICY, accessScope={"type": "cluster"}
        )


@pytest.fixture(scope="module")
def every_day(account_server: AccountServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryDay]:
    """Deploy the environment once for all tests of this module."""
    account = account_server.account
    built = programs.ensure(paths.BINARIES, print)
    keys = account.keys
    session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=SMALL.region)

    def clients(service: str) -> Any:
        return session.client(service, endpoint_url=account.endpoint)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(account, "binaries", built.directory)
        monkeypatch.setattr(account, "clusters", ClusterHost(account))
        eks = set_up(account, clients)
        try:
            arn = eks.create(name=CLUSTER)["arn"]
            delivery = delivery_roles.deploy(clients, SMALL, tmp_path_factory.mktemp("delivery"))
            give_access(clients, [delivery["DeployRoleArn"], delivery["ReadRoleArn"]])
            made = EveryDay(account, clients, tmp_path_factory.mktemp("every-day"), built, delivery)
            namespaces = (SMALL.ray.namespace, OPERATOR_NAMESPACE, VOLUME_NAMESPACE, IMAGE_BUILD_NAMESPACE)
            install_dependencies(made.kubectl, namespaces)
            create_hyperpod(clients, arn, eks.vpc_id, eks.subnets[0])
            install_definitions(made.kubectl, built)
            group = {"group": "system"}
            account.clusters.get(CLUSTER).nodes.add(
                "system-1", labels=group, capacity=SYSTEM_NODE, allocatable=SYSTEM_NODE
            )
            made.kubectl.apply(*operator_objects(built), reaper_pod(), *viewers_objects())
            made.kubectl.apply(cluster_object())
            wait_until(lambda: made.pods("head") and made.pods("worker"), "the RayCluster")
            since = len(account.journal.entries())
            yield made
            assert people.refusals(account, since) == REFUSED
            clients("sagemaker").delete_cluster(ClusterName=HYPERPOD)
            wait_until(lambda: clients("sagemaker").list_clusters()["ClusterSummaries"] == [], "the cluster is deleted")
        finally:
            service_of(account).wait_until_active(CLUSTER)
            clients("eks").delete_cluster(name=CLUSTER)


def test_status_shows_what_is_there_and_names_what_is_not_ready(every_day: EveryDay) -> None:
    result = every_day.ops("status", "-o", "json")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert not [
        value
        for value in found.values()
        if isinstance(value, dict) and "unseen" in value and value != found["file_system"]
    ]
    assert {stack["state"] for stack in found["stacks"]} == {"not deployed"}
    assert [(g["name"], g["count"], g["target"], g["software"]) for g in found["instance_groups"]] == [
        (HEAD_GROUP, 1, 1, "UpToDate"),
        (WORKERS, 2, 2, "UpToDate"),
    ]
    assert {node["health"] for node in found["nodes"]} == {"Schedulable"}
    [cluster] = found["ray_clusters"]
    assert (cluster["workers"], cluster["wanted"], cluster["image"]) == (1, 1, PYTHON_IMAGE)
    assert cluster["head"].startswith("rayml-head")
    assert found["jobs"] == []
    waiting = {item["kind"] for item in found["items"] if item["state"] != "ready"}
    assert {"Ray image", "volume claim"} <= waiting


def test_status_shows_the_file_system_behind_rays_claim(every_day: EveryDay) -> None:
    clients, namespace, name = every_day.clients, SMALL.ray.namespace, SMALL.fsx.claim
    subnet = clients("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    own = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    request = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "SubnetIds": [subnet], "LustreConfiguration": own}
    made = clients("fsx").create_file_system(**request)["FileSystem"]["FileSystemId"]
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    source = {"csi": {"driver": "fsx.csi.aws.com", "volumeHandle": made}, "capacity": {"storage": "1200Gi"}}
    asked = {"volumeName": name, "resources": {"requests": {"storage": "1200Gi"}}}
    every_day.kubectl.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec | source},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec | asked,
        },
    )
    claims = ("-n", namespace, "pvc", name)
    wait_until(lambda: every_day.kubectl.get(*claims)["status"]["phase"] == "Bound", "the claim")
    for person in (people.role_name(PersonRole.OPERATOR), VIEWER):
        found = json.loads(every_day.ops("status", "-o", "json", name=person).stdout)["file_system"]
        assert (found["id"], found["capacity_gib"], found["used_gib"]) == (made, 1200, None), found
    every_day.kubectl("-n", namespace, "delete", "pvc", name, KUBECTL_PATIENCE)
    every_day.kubectl("delete", "pv", name, KUBECTL_PATIENCE)
    clients("fsx").delete_file_system(FileSystemId=made)


def test_dashboard_reaches_the_head_and_the_one_in_its_place(every_day: EveryDay) -> None:
    [head] = every_day.pods("head")
    browser = build_opener(HTTPCookieProcessor())
    with every_day.start("dashboard") as process:
        try:
            assert process.stdout
            address = process.stdout.readline().split()[0]
            assert address.startswith("http://localhost:")
            assert _answer(browser, address) == head["metadata"]["name"]
            with pytest.raises(HTTPError):
                _answer(build_opener(), address.partition("?")[0])
            every_day.kubectl("-n", SMALL.ray.namespace, "delete", "pod", head["metadata"]["name"], KUBECTL_PATIENCE)
            wait_until(lambda: every_day.pods("head"), "a new head")
            [new] = every_day.pods("head")
            assert new["metadata"]["name"] != head["metadata"]["name"]
            wait_until(lambda: _answer(browser, address) == new["metadata"]["name"], "the new head's answer")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 130
        finally:
            process.kill()
    with pytest.raises(URLError):
        _answer(browser, address)


def _answer(browser: OpenerDirector, address: str) -> str:
    try:
        with browser.open(address, timeout=PATIENCE_SECONDS) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        if error.code != 503:
            raise
        return error.read().decode()


def test_logs_of_pods_are_followed_until_ctrl_c(every_day: EveryDay) -> None:
    printed = every_day.ops("logs", "head")
    assert printed.exit_code == 0, printed.output
    assert "] the head serves" in printed.stdout
    with every_day.start("logs", "reaper", "--follow") as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "[ray-reaper-1] watching\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 130
        finally:
            process.kill()


def test_logs_of_a_simulated_pod_say_that_it_is(every_day: EveryDay) -> None:
    result = every_day.ops("logs", "worker")
    assert result.exit_code == 1
    assert "is simulated: no program runs in it" in result.stderr


def test_logs_of_nodes_come_from_cloudwatch(every_day: EveryDay) -> None:
    result = every_day.ops("logs", "lifecycle")
    assert result.exit_code == 0, result.output
    for node in every_day.nodes().values():
        assert f"[LifecycleConfig/{node['group']}/{node['instance']}]" in result.stdout
    nothing = every_day.ops("logs", "health")
    assert nothing.exit_code == 1
    assert "has no events in streams SagemakerHealthMonitoringAgent/" in nothing.stderr


def test_events_of_hyperpod_and_kubernetes_are_merged(every_day: EveryDay) -> None:
    pod = cluster_object()["spec"]["workerGroupSpecs"][0]["template"]["spec"] | {"nodeSelector": {"no": "node"}}
    metadata = {"name": "nowhere", "namespace": SMALL.ray.namespace}
    every_day.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    wait_until(lambda: "Pod ray/nowhere: FailedScheduling" in every_day.ops("events").stdout, "the warning")
    result = every_day.ops("events")
    assert result.exit_code == 0
    assert f"HyperPod Info {HYPERPOD}: Cluster {HYPERPOD} is InService." in result.stdout
    every_day.kubectl("-n", SMALL.ray.namespace, "delete", "pod", "nowhere", KUBECTL_PATIENCE)


def test_support_bundle_holds_every_part_and_no_secret(every_day: EveryDay, tmp_path: Path) -> None:
    namespace = SMALL.ray.namespace
    planted = {"HF_TOKEN": "planted-by-name", "NOTE": "AKIAIOSFODNN7EXAMPLE of ann@mail.example.com"}
    pod = cluster_object()["spec"]["workerGroupSpecs"][0]["template"]["spec"] | {"nodeSelector": {"no": "node"}}
    pod["containers"][0]["env"] = [{"name": name, "value": value} for name, value in planted.items()]
    metadata = {"name": "planted", "namespace": namespace}
    every_day.kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": "planted-in-a-secret"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "planted-in-a-map"}},
    )
    listed = every_day.ops("support-bundle", "--dry-run", "--out", str(tmp_path / "b.tar.gz"))
    assert listed.exit_code == 0, listed.output
    assert f"kubernetes/{namespace}/rayclusters.json" in listed.stdout
    assert not (tmp_path / "b.tar.gz").exists()

    result = every_day.ops("support-bundle", "--out", str(tmp_path / "b.tar.gz"), "-o", "json")
    every_day.kubectl("-n", namespace, "delete", "pod/planted", "secret/planted", "configmap/planted", KUBECTL_PATIENCE)
    assert result.exit_code == 0, result.output
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        files = {
            each.name.partition("/")[2]: archive.extractfile(each).read().decode()  # type: ignore[union-attr]
            for each in archive
        }
    manifest = json.loads(files["manifest.json"])
    assert manifest == json.loads(result.stdout)
    assert {each["file"] for each in manifest["files"]} == set(files) - {"manifest.json"}
    reasons = {each["part"]: each["reason"] for each in manifest["missing"]}
    [worker] = [part for part in reasons if part.startswith("logs/worker/")]
    assert "is simulated: no program runs in it" in reasons[worker]
    # Nothing has run a supervisor, a build, or a check of a node here.
    assert {"logs/supervisor", "logs/image-build", "logs/health.log"} <= set(reasons)
    assert not [part for part in reasons if not part.startswith(("logs/", "Kubernetes objects: rayjobs"))]
    for file, holds in {
        "versions.json": '"boto3"',
        "environment/small.yaml": "account-1",
        "status.json": '"ray_clusters"',
        "hyperpod/cluster.json": HYPERPOD,
        "hyperpod/nodes.json": '"InstanceId"',
        "nodes.json": '"Schedulable"',
        "events.json": "is InService",
        "kubernetes/version.json": '"gitVersion"',
        "kubernetes/nodes.json": labels.NODE_HEALTH_LABEL,
        f"kubernetes/{namespace}/pods.json": '"planted"',
        "logs/reaper/ray-reaper-1.reaper.log": "watching",
        "logs/lifecycle.log": "LifecycleConfig/",
    }.items():
        assert holds in files[file], file
    [head] = [text for file, text in files.items() if file.startswith("logs/head/")]
    assert head.startswith("the head serves\n")
    everything = "\n".join(files.values())
    token = every_day.environment("support-bundle")["AWS_SESSION_TOKEN"]
    for secret in (*planted.values(), "planted-in-a", "AKIAIOSFODNN7EXAMPLE", "mail.example.com", SMALL.account, token):
        assert secret not in everything, secret


def test_kubeconfig_names_the_cluster(every_day: EveryDay) -> None:
    printed = yaml.safe_load(every_day.ops("kubeconfig").stdout)
    plane = every_day.account.clusters.get(CLUSTER).control_plane
    assert printed["clusters"][0]["cluster"]["server"] == plane.endpoint


def test_crds_without_an_owner_are_adopted(
    every_day: EveryDay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cached chart holds KubeRay's own CRDs, which the fixture applied without Helm."""
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(charts_lock, "verify", lambda *_: None)
    for definition in definitions(every_day.binaries):
        (tmp_path / f"{definition['metadata']['name']}.yaml").write_text(json.dumps(definition))
    chart = charts_lock.find(CHART, SMALL.kuberay_version)
    with tarfile.open(tmp_path / chart.file_name, "w:gz") as archive:
        for file in tmp_path.glob("*.yaml"):
            archive.add(file, f"{CHART}/crds/{file.name}")
    refused = every_day.ops("kuberay", "crds")
    assert refused.exit_code == 1, refused.output
    assert "rayclusters.ray.io: the same as in KubeRay 1.2.0; without an owner" in refused.stdout
    adopted = every_day.ops("kuberay", "crds", "--adopt", "--yes")
    assert adopted.exit_code == 0, adopted.output
    assert "rayclusters.ray.io: adopted" in adopted.stdout
    found = json.loads(every_day.ops("kuberay", "crds", "-o", "json").stdout)
    assert (found["accepted"], {each["owner"] for each in found["crds"]}) == (True, {"stack"})


def test_what_runs_is_priced_and_no_job_is_listed(every_day: EveryDay) -> None:
    priced = json.loads(every_day.ops("cost", "--live", "-o", "json").stdout)
    assert {(item["item"], item["amount"]) for item in priced["live"]["items"]} >= {
        (group.name, f"{group.count} x {group.instance_type}") for group in SMALL.hyperpod.instance_groups
    }
    listed = every_day.ops("job", "list", "-o", "json")
    assert (listed.exit_code, json.loads(listed.stdout)) == (0, []), listed.output


def test_shell_on_a_node_takes_the_target_that_session_manager_knows(every_day: EveryDay) -> None:
    node = every_day.node_of("worker")
    printed = every_day.ops("node", "shell", f"hyperpod-{node}", "--print")
    assert printed.exit_code == 0, printed.output
    assert re.search(rf"--target sagemaker-cluster:[a-z0-9]+_{WORKERS}-{node}\b", printed.stdout)


@pytest.mark.parametrize("words", IN_KUBERNETES)
def test_a_role_without_access_to_kubernetes_is_refused_in_one_message(every_day: EveryDay, words: str) -> None:
    result = every_day.ops(*words.split(), name=VISITOR)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    [said] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert re.search(r"(401|Unauthorized).* Fix: ", said), said


@pytest.mark.parametrize("words", READING)
def test_a_viewer_is_refused_nothing_that_reads(every_day: EveryDay, words: str) -> None:
    before = len(every_day.account.journal.entries())
    result = every_day.ops(*words.split(), name=VIEWER)
    assert result.exit_code == READING[words], result.output
    # An event's own words are on standard output.
    assert not re.search("403|forbidden|not authorized|cannot be read", result.stderr)
    assert people.refusals(every_day.account, before) == []


def test_a_viewer_sees_what_an_operator_sees_but_no_jobs_of_the_head(every_day: EveryDay) -> None:
    listed = every_day.ops("node", "list", "-o", "json", name=VIEWER)
    assert json.loads(listed.stdout) == list(every_day.nodes().values())
    as_viewer, as_operator = (
        json.loads(every_day.ops("status", "-o", "json", name=name).stdout) for name in (VIEWER, "")
    )
    [jobs] = as_viewer.pop("jobs")
    assert re.search(r"unknown: the head ray/rayml-head-\w+ does not say which jobs run: .*403", jobs["state"])
    del as_operator["jobs"], as_operator["time"], as_viewer["time"]
    assert as_viewer == as_operator


def test_the_viewers_group_reads_and_runs_nothing(every_day: EveryDay) -> None:
    for words, may in MAY_VIEW.items():
        verb, _, what = words.partition(" ")
        resource, _, group = what.partition(".")
        name, _, part = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part}
        attributes = asked | {"namespace": SMALL.ray.namespace}
        assert is_allowed(every_day.control_plane, viewers_group(SMALL.ray.namespace), attributes) is may, words


def test_kubernetes_refuses_a_viewers_change(every_day: EveryDay) -> None:
    run = {"name": "run-1", "namespace": SMALL.ray.namespace, "labels": {RUN_LABEL: "run-1"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "run", "image": PYTHON_IMAGE}]}}
    spec = {"suspend": True, "template": template}
    every_day.kubectl.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": run, "spec": spec})
    result = every_day.ops("job", "stop", "run-1", name=VIEWER)
    assert result.exit_code == 2, result.output
    assert re.search(r"\(403\): jobs.batch \"run-1\" is forbidden: .* cannot patch", result.stderr)
    for name, code, says in (
        (VIEWER, 2, "lets only submitters run commands in pods. Fix: list your IAM role under access.submitters"),
        (people.role_name(PersonRole.SCIENTIST), 1, "there is no run none in namespace"),
    ):
        result = every_day.ops("job", "exec", "none", "--", "true", name=name)
        assert result.exit_code == code, result.output
        assert says in result.stderr
    job = every_day.kubectl.get("-n", SMALL.ray.namespace, "job", "run-1")
    assert RUN_STOP not in job["metadata"].get("annotations", {})
    every_day.kubectl("-n", SMALL.ray.namespace, "delete", "job", "run-1", KUBECTL_PATIENCE)


def test_aws_refuses_a_viewers_change_even_to_an_admin_of_kubernetes(every_day: EveryDay) -> None:
    node, before = every_day.node_of("worker"), len(every_day.account.journal.entries())
    result = every_day.ops("node", "reboot", node, "--yes", "--force", name=CONFINED)
    assert result.exit_code == 2, result.output
    assert "AWS refuses BatchRebootClusterNodes (AccessDeniedException)" in result.stderr
    [refused] = people.refusals(every_day.account, before)
    assert "sagemaker:BatchRebootClusterNodes" in refused
    REFUSED.append(refused)
    assert every_day.nodes()[node]["status"] == "Running"


def test_reboot_is_followed_until_the_worker_is_back(every_day: EveryDay) -> None:
    node = every_day.node_of("worker")
    result = every_day.ops("node", "reboot", node, "--yes")
    assert result.exit_code == 0, result.output
    assert "UnschedulablePendingReboot" in result.stdout
    assert f"{node} and its Ray pods are back" in result.stdout
    assert node in every_day.nodes()


def test_drained_node_loses_its_worker_to_the_other_one(every_day: EveryDay) -> None:
    node = every_day.node_of("worker")
    result = every_day.ops("node", "drain", node, "--yes")
    assert result.exit_code == 0, result.output
    wait_until(lambda: every_day.pods("worker"), "the worker elsewhere")
    assert every_day.node_of("worker") != node
    assert every_day.nodes()[node]["hindrance"] == "cordoned"
    every_day.kubectl("uncordon", f"hyperpod-{node}")


def test_new_software_is_started_and_the_worker_comes_back(
    every_day: EveryDay, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = simulator_of(every_day.account).world
    monkeypatch.setattr(world, "minutes", dataclasses.replace(world.minutes, software=1))
    result = every_day.ops("update-software", "--group", WORKERS, "--yes")
    assert result.exit_code == 0, result.output
    wait_until(lambda: {node["status"] for node in every_day.nodes().values()} == {"Running"}, "the updated nodes")
    wait_until(lambda: every_day.pods("worker"), "the worker")


def remove_pods_of_lost(every_day: EveryDay, node: str) -> None:
    """Do the reaper's work for a lost node: Kubernetes itself would remove its pods after a minute."""
    wait_until(lambda: node not in _names(every_day.kubectl.get("nodes")), "the end of the node")
    for pod in every_day.kubectl.get("-n", SMALL.ray.namespace, "pods")["items"]:
        if pod["spec"].get("nodeName") == node:
            name = pod["metadata"]["name"]
            every_day.kubectl("-n", SMALL.ray.namespace, "delete", "pod", name, "--force", "--ignore-not-found")


def _names(found: Object) -> set[str]:
    return {item["metadata"]["name"] for item in found["items"]}


def test_replacement_is_followed_until_another_node_has_the_worker(every_day: EveryDay) -> None:
    node = every_day.node_of("worker")
    with ThreadPoolExecutor() as pool:
        reaper = pool.submit(remove_pods_of_lost, every_day, f"hyperpod-{node}")
        result = every_day.ops("node", "replace", f"hyperpod-{node}", "--yes")
        reaper.result()
    assert result.exit_code == 0, result.output
    assert f"the node in place of {node} and its Ray pods are back" in result.stdout
    assert node not in every_day.nodes()
    assert len(every_day.nodes()) == 3


def test_a_node_less_is_deleted_and_who_waits_for_another_reads_why_there_is_none(every_day: EveryDay) -> None:
    done = every_day.ops("scale", WORKERS, "1", "--yes", "--force")
    assert done.exit_code == 0, done.output
    assert len(every_day.nodes()) == 2
    [kind] = {group.instance_type for group in SMALL.hyperpod.instance_groups if group.name == WORKERS}
    limits = simulator_of(every_day.account).world.faults.capacity
    limits[kind] = 1
    raise_count(every_day, 2)
    events = every_day.clients("sagemaker").list_cluster_events

    def short() -> bool:
        return any(each["EventLevel"] == "Error" for each in events(ClusterName=HYPERPOD)["Events"])

    wait_until(short, "the shortage")
    for role in (PersonRole.OPERATOR, PersonRole.VIEWER, PersonRole.DEPLOYER):
        since = len(every_day.account.journal.entries())
        waited = every_day.ops("wait", "--timeout", "0s", name=people.role_name(role))
        assert f"sufficient {kind} capacity" in waited.output, waited.output
        assert people.refusals(every_day.account, since) == []
    of_deployment = delivery_roles.role_of(every_day.delivery, SMALL.name).rpartition("/")[2]
    since = len(every_day.account.journal.entries())
    waited = every_day.ops("wait", "--timeout", "0s", name=SMALL.name)
    assert f"sufficient {kind} capacity" in waited.output, waited.output
    assert people.refusals(every_day.account, since, of_deployment) == []
    del limits[kind]
    wait_until(lambda: len(every_day.nodes()) == 3, "the node that was missing")
    wait_until(lambda: {node["status"] for node in every_day.nodes().values()} == {"Running"}, "the nodes")
    wait_until(lambda: every_day.pods("worker"), "the worker")


def raise_count(every_day: EveryDay, count: int) -> None:
    """Call UpdateCluster as the operator, as `ops resume` does."""
    keys = assumed_role.credentials(
        every_day.clients, f"arn:aws:iam::{SMALL.account}:role/{people.role_name(PersonRole.OPERATOR)}"
    )
    sagemaker = people.client_of(boto3, every_day.account.endpoint, keys)("sagemaker")
    set_counts(sagemaker, sagemaker.describe_cluster(ClusterName=HYPERPOD), {WORKERS: Wanted(count)})


def test_check_keeps_pods_off_the_node(every_day: EveryDay) -> None:
    busy = every_day.node_of("worker")
    node = next(name for name, node in every_day.nodes().items() if node["group"] == WORKERS and name != busy)
    result = every_day.ops("node", "check", node, "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    found = every_day.nodes()[node]
    assert (found["status"], found["deep_check"]) == ("DeepHealthCheckInProgress", "InProgress")
    again = every_day.ops("node", "check", node, "--yes")
    assert again.exit_code == 1
    assert "Allowed: Running" in again.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("cost", "--live"),
        ("image", "build", "--dry-run"),
        ("job", "list"),
        ("job", "logs", "none"),
        ("job", "checkpoint", "none"),
        ("job", "profile", "none"),
        ("pause", "--dry-run"),
        ("resume", "--dry-run"),
        ("rollout", "--dry-run"),
        ("scale", WORKERS, "1", "--dry-run"),
        ("update-software", "--dry-run"),
        ("wait", "--timeout", "0s"),
    ],
    ids=lambda words: words[0],
)
def test_other_commands_are_refused_nothing(every_day: EveryDay, words: tuple[str, ...]) -> None:
    """The drills change the cluster as the operator; here each command looks, and may find nothing to do."""
    before = len(every_day.account.journal.entries())
    result = every_day.ops(*words)
    assert result.exit_code in (0, 1), result.output
    assert "not authorized" not in result.output
    assert people.refusals(every_day.account, before) == []


@pytest.mark.parametrize("command", WORKFLOWS, ids=str)
def test_a_workflows_job_is_refused_nothing(every_day: EveryDay, command: WorkflowCommand) -> None:
    """The stack is there for `ops drift`, which looks for Ray's pods where the ray stack is deployed."""
    more, code, said = OF_WORKFLOWS[command.words[1]]
    stacks, name = StackDeployer(every_day.clients("cloudformation")), naming.stack(SMALL, "ray")
    stacks.deploy(name, {"Resources": {"T": topic()}})
    since = len(every_day.account.journal.entries())
    env = every_day.environment(name=command.github_environment)
    result = CliRunner(env=env).invoke(app, [*command.words[1:], *more])
    stacks.delete(name)
    assert result.exit_code == code, result.output
    assert said in result.output
    role = delivery_roles.role_of(every_day.delivery, command.github_environment).rpartition("/")[2]
    assert people.refusals(every_day.account, since, role) == []


def test_neither_a_scientist_nor_another_environments_operator_changes_the_cluster(every_day: EveryDay) -> None:
    node = every_day.node_of("worker")
    arn = every_day.clients("sagemaker").describe_cluster(ClusterName=HYPERPOD)["ClusterArn"]
    other = SMALL.model_copy(update={"name": "other"})
    for environment, role, name in (
        (SMALL, PersonRole.SCIENTIST, "RehearsalScientist2"),
        (other, PersonRole.OPERATOR, "RehearsalOtherOperator"),
    ):
        keys = assumed_role.credentials(every_day.clients, people.make_role(every_day.clients, environment, role, name))
        sagemaker = people.client_of(boto3, every_day.account.endpoint, keys)("sagemaker")
        assert sagemaker.describe_cluster(ClusterName=HYPERPOD)["ClusterArn"] == arn
        with pytest.raises(ClientError, match=f"BatchRebootClusterNodes on resource: {arn}"):
            sagemaker.batch_reboot_cluster_nodes(ClusterName=HYPERPOD, NodeIds=[node])
        REFUSED.append(f"sagemaker:BatchRebootClusterNodes on {arn}")
