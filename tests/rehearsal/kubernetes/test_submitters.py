"""Runs on a real control plane, as somebody of the submitters' group and as somebody who is not: RBAC decides.

The supervisor is the chart's, with its own service account; the head is a pod whose address answers as Ray would.
"""

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cdk8s
import kubernetes
import pytest
from rich.console import Console

import config
from config import labels
from config.facts.versions import PYTHON_IMAGE
from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import GENERAL, Kubectl, Object, helm, pod
from k8s_charts.controllers.code import RELEASE, ControllerCode, ControllerCodeChart
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.shared.names import JOB_SUPERVISOR, JOB_SUPERVISOR_CODE, RAYJOB_SUBMITTER, RUN_LABEL, submitters_group
from ops.errors import UnreachableError
from ops.jobs import direct, follow, pod_of_worker
from ops.jobs.checkpoint import answer, ask, job_of
from ops.jobs.head_api import HeadApi, HeadUnreachableError
from ops.jobs.packing import Package
from ops.jobs.run import RunError, RunRequest
from ops.jobs.runs import Runs, as_submitter
from ops.smoke import run as smoke_run
from ops.smoke.run import SmokeError
from tests.rehearsal.kubernetes.cluster import install_objects, is_allowed, ray_cluster
from tests.support.fake_ray import FakeJob, FakeRay, serve
from tests.support.impersonation import api_as
from tests.support.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "submitted"
ROOT = Path(__file__).resolve().parents[3]
# Each job prints two lines and succeeds, unless it is told to last.
RAY = """
import sys, time
from tests.support import fake_ray
host, _, port = sys.argv[1].partition("=")[2].rpartition(":")
with fake_ray.serve(host, int(port)) as ray:
    while True:
        time.sleep(0.2)
        for job in list(ray.jobs.values()):
            if "ray_resume checkpoint" in job.request["entrypoint"]:
                job.output = "run lasts saved step 7 (000000007@0001.01)\\n"
                job.end("SUCCEEDED", 0)
            elif not job.output:
                job.output = "epoch 1\\nepoch 2\\n"
            elif job.status == "RUNNING" and "last" not in job.request["entrypoint"]:
                job.end("FAILED", 4)
"""
# As CDK labels each object of a manifest, to prune those that left it.
CDK_LABEL = "aws.cdk.eks/prune-c8f5e7"
VARIABLES = {"TEXT": "$(HOME)=it's\n--", "EMPTY": ""}
PACKAGE = Package("_ray_pkg_0123456789abcdef.zip", b"a zip file")


def runs_as(control_plane: ControlPlane, user: str, *groups: str) -> Runs:
    """Runs as somebody else sees them."""
    return Runs(api_as(control_plane, user, *groups), NAMESPACE)


def request(name: str) -> RunRequest:
    return RunRequest(
        name=name,
        cluster="rayml",
        command="python train.py --epochs '$(three)'",
        storage="/fsx/runs",
        package=PACKAGE,
        max_attempts=10,
        max_stalled=3,
        give_up_after=0,
        variables=VARIABLES,
    )


@pytest.fixture(scope="module")
def ray() -> Iterator[FakeRay]:
    with serve() as fake:
        yield fake


@pytest.fixture(scope="module")
def place(
    nodes: Nodes, kubectl: Kubectl, binaries: Binaries, control_plane: ControlPlane, ray: FakeRay
) -> Iterator[None]:
    """The namespace as the ray stack leaves it, with a RayCluster whose head is there."""
    kinds = kuberay_module_directory(binaries) / "config/crd/bases"
    kubectl("apply", "--server-side", "-f", kinds / "ray.io_rayclusters.yaml")
    served = ("api-resources", "--api-group=ray.io", "-o", "name")
    wait_until(lambda: "rayclusters" in kubectl(*served), "RayCluster's kind")
    place = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    nodes.add("supervisors-1", labels=place, allocatable=GENERAL, capacity=GENERAL)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
    kubectl.apply(namespace)
    install_objects(control_plane, RELEASE, NAMESPACE, code_chart())
    kubectl.apply(*supervisor_objects())
    cluster = ray_cluster("rayml", workers=1)
    cluster["metadata"]["namespace"] = NAMESPACE
    kubectl.apply(cluster)
    kubectl.apply(head())
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/rayml-head", KUBECTL_PATIENCE)
    status = f'{{"status": {{"podIP": "{ray.host}", "podIPs": [{{"ip": "{ray.host}"}}]}}}}'
    kubectl("-n", NAMESPACE, "patch", "pod", "rayml-head", "--subresource=status", "--type=merge", "-p", status)
    yield
    kubectl("delete", "namespace", NAMESPACE, KUBECTL_PATIENCE)
    nodes.remove("supervisors-1")


def code_chart() -> ControllerCodeChart:
    code = ControllerCode("job_supervisor", JOB_SUPERVISOR_CODE, NAMESPACE)
    return ControllerCodeChart(cdk8s.App(), "code", controllers=[code])


def supervisor_objects() -> list[Object]:
    supervisor = JobSupervisor(NAMESPACE, PYTHON_IMAGE)
    return list(JobSupervisorChart(cdk8s.App(), "supervisor", supervisor=supervisor).to_json())


def earlier_objects() -> list[Object]:
    """The supervisor's manifest of earlier deployments: with the code, and CDK's label."""
    objects = [item for item in supervisor_objects() if item["metadata"]["name"] != RAYJOB_SUBMITTER]
    [template] = [item for item in objects if item["kind"] == "CronJob"]
    [volume] = template["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"]
    volume["configMap"] = {"name": JOB_SUPERVISOR}
    [code] = code_chart().to_json()
    code["metadata"] = {"name": JOB_SUPERVISOR, "namespace": NAMESPACE}
    for item in (*objects, code):
        item["metadata"]["labels"] = {CDK_LABEL: ""}
    return [*objects, code]


def roll_back(kubectl: Kubectl) -> None:
    """Restore the manifest as CDK's function does: what has the label and is not in the manifest is deleted."""
    kubectl("apply", "--prune", "-l", CDK_LABEL, "-f", "-", stdin=cdk8s.Yaml.stringify(*earlier_objects()))


def names_of_code(kubectl: Kubectl) -> set[str]:
    found = {item["metadata"]["name"] for item in kubectl.get("-n", NAMESPACE, "configmaps")["items"]}
    return found & {JOB_SUPERVISOR, JOB_SUPERVISOR_CODE}


def head() -> Object:
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "ray-head", "image": "example.invalid/ray:2.42.1", "securityContext": safe}
    own = pod(
        "rayml-head",
        containers=[container],
        nodeSelector={"group": "head"},
        securityContext={"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    )
    own["metadata"] |= {
        "namespace": NAMESPACE,
        "labels": {"ray.io/cluster": "rayml", "ray.io/node-type": "head"},
    }
    return own


@pytest.fixture
def ann(place: None, control_plane: ControlPlane) -> Runs:
    """Somebody of the submitters' group."""
    return runs_as(control_plane, "ann", submitters_group(NAMESPACE))


@pytest.fixture
def bob(place: None, control_plane: ControlPlane) -> Runs:
    """Somebody whom the cluster knows, and no more."""
    return runs_as(control_plane, "bob")


def phases(runs: Runs, name: str) -> list[str]:
    return [item.status.phase for item in runs.pods(name)]


def kill_last_supervisor(control_plane: ControlPlane) -> None:
    log = (control_plane.logs / "kubelet.log").read_text().splitlines()
    pids = [int(line.split()[-1]) for line in log if "started job-supervisor as process" in line]
    os.kill(pids[-1], signal.SIGKILL)


def followed(runs: Runs, name: str) -> tuple[int, str]:
    """Exit code and output."""
    shown = io.StringIO()
    return follow.follow(runs, name, Console(file=shown, width=400)), shown.getvalue()


def test_submitter_submits_follows_and_sees_the_exit_code(ann: Runs, ray: FakeRay) -> None:
    with as_submitter():
        assert ann.cluster(None) == "rayml"
        ann.create(request("works"), again=False)
    wait_until(lambda: "works-1" in ray.jobs, "the submission")
    job = ray.jobs["works-1"]
    assert job.request["entrypoint"] == "python train.py --epochs '$(three)'"
    assert VARIABLES.items() <= job.request["runtime_env"]["env_vars"].items()
    assert ray.packages == {PACKAGE.name: PACKAGE.content}
    job.output = "epoch 1\nepoch 2\n"
    threading.Timer(3, partial(job.end, "SUCCEEDED", 0)).start()
    code, output = followed(ann, "works")
    assert code == 0
    assert "epoch 1\nepoch 2\n" in output
    assert "── submitted: submission_id works-1" in output
    with as_submitter():
        [run] = [run for run in ann.all() if run.name == "works"]
    assert (run.phase, run.state["attempt"]) == ("succeeded", 1)


def test_name_in_use_is_one_message_and_nothing_is_submitted_twice(ann: Runs, ray: FakeRay) -> None:
    ann.create(request("twice"), again=False)
    wait_until(lambda: "twice-1" in ray.jobs, "the submission")
    for again in (False, True):
        with pytest.raises(RunError, match="the run twice is in use"):
            ann.create(request("twice"), again=again)
    ray.jobs["twice-1"].end("FAILED", 3)
    assert followed(ann, "twice")[0] == 3
    wait_until(lambda: ann.get("twice").finished, "the end of its Job")
    with pytest.raises(RunError, match="Fix: --again resumes it"):
        ann.create(request("twice"), again=False)
    ann.create(request("twice"), again=True)
    wait_until(lambda: "twice-2" in ray.jobs, "the next attempt")
    ray.jobs["twice-2"].end("SUCCEEDED", 0)
    assert followed(ann, "twice")[0] == 0
    assert [id for id in ray.submissions if id.startswith("twice")] == ["twice-1", "twice-2"]


def test_supervisor_that_is_killed_is_restarted_by_its_job_and_submits_nothing(
    ann: Runs, ray: FakeRay, control_plane: ControlPlane
) -> None:
    ann.create(request("killed"), again=False)
    wait_until(lambda: "killed-1" in ray.jobs, "the submission")
    kill_last_supervisor(control_plane)
    wait_until(lambda: len(ann.pods("killed")) == 2, "another pod")
    ray.jobs["killed-1"].end("SUCCEEDED", 0)
    assert followed(ann, "killed")[0] == 0
    assert [id for id in ray.submissions if id.startswith("killed")] == ["killed-1"]


@pytest.fixture
def earlier(place: None, control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[None]:
    """The place as a deployment left it before the code was a release; afterwards the newer one is back."""
    helm(control_plane, "uninstall", RELEASE, f"--namespace={NAMESPACE}")
    kubectl("-n", NAMESPACE, "delete", "cronjob", JOB_SUPERVISOR, KUBECTL_PATIENCE)
    kubectl.apply(*earlier_objects())
    yield
    install_objects(control_plane, RELEASE, NAMESPACE, code_chart())
    kubectl("-n", NAMESPACE, "delete", "cronjob", JOB_SUPERVISOR, KUBECTL_PATIENCE)
    kubectl.apply(*supervisor_objects())


def test_run_from_before_the_code_was_a_release_keeps_its_code_and_is_submitted_once(
    ann: Runs, ray: FakeRay, earlier: None, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    """Its Job mounts the earlier ConfigMap for as long as it lives, also after an update that is rolled back."""
    ann.create(request("upgraded"), again=False)
    wait_until(lambda: "upgraded-1" in ray.jobs, "the submission")
    [first] = [item.metadata.name for item in ann.pods("upgraded")]

    install_objects(control_plane, RELEASE, NAMESPACE, code_chart())
    kubectl.apply(*supervisor_objects())
    assert names_of_code(kubectl) == {JOB_SUPERVISOR, JOB_SUPERVISOR_CODE}
    assert [item.metadata.name for item in ann.pods("upgraded")] == [first]

    kill_last_supervisor(control_plane)
    wait_until(lambda: "Running" in phases(ann, "upgraded") and len(phases(ann, "upgraded")) == 2, "its successor")

    roll_back(kubectl)
    helm(control_plane, "uninstall", RELEASE, f"--namespace={NAMESPACE}")
    assert names_of_code(kubectl) == {JOB_SUPERVISOR}

    ray.jobs["upgraded-1"].end("SUCCEEDED", 0)
    assert followed(ann, "upgraded")[0] == 0
    assert [id for id in ray.submissions if id.startswith("upgraded")] == ["upgraded-1"]


def test_run_that_a_submitter_stops_ends_in_ray(ann: Runs, ray: FakeRay) -> None:
    ann.create(request("stopped"), again=False)
    wait_until(lambda: "stopped-1" in ray.jobs, "the submission")
    ann.stop("stopped")
    assert followed(ann, "stopped")[0] == 130
    assert ray.stops == ["stopped-1"]


@pytest.fixture
def pod_of_ray(place: None, kubectl: Kubectl) -> Iterator[str]:
    """A pod whose port 8265 answers as Ray's dashboard would, to be reached through the API server only."""
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "ray",
        "image": PYTHON_IMAGE,
        "command": ["python", "-c", RAY],
        "args": ["--listen=:8265"],
        "env": [{"name": "PYTHONPATH", "value": str(ROOT)}],
        "securityContext": safe,
    }
    own = pod("answers", containers=[container], terminationGracePeriodSeconds=1)
    own["spec"]["securityContext"] = head()["spec"]["securityContext"]
    own["metadata"]["namespace"] = NAMESPACE
    kubectl.apply(own)
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/answers", KUBECTL_PATIENCE)
    yield "answers"
    kubectl("-n", NAMESPACE, "delete", "pod", "answers", KUBECTL_PATIENCE)


def test_without_a_supervisor_the_job_is_submitted_through_a_port_forward(ann: Runs, pod_of_ray: str) -> None:
    """As the administrator: the client's web sockets leave impersonation out. Who may is in the table below."""
    ray = HeadApi(ann.core, NAMESPACE, pod_of_ray)
    wait_until(lambda: _answers(ray), "Ray")
    direct.submit(ray, request("direct"))
    with pytest.raises(RunError, match="Ray already has a job named direct"):
        direct.submit(ray, request("direct"))
    shown = io.StringIO()
    assert direct.follow(ray, "direct", Console(file=shown)) == 4
    assert shown.getvalue() == "epoch 1\nepoch 2\n"
    direct.submit(ray, replace(request("lasts"), command="last"))
    said = answer(ask(job_of(ray, "lasts"), seconds=60), interval=0.1)
    assert said == "run lasts saved step 7 (000000007@0001.01)"
    ray.stop("lasts")
    assert direct.follow(ray, "lasts", Console(file=shown)) == 130


def test_command_in_a_pod_gets_stdin_to_its_end_and_its_exit_code_is_passed_on(
    pod_of_ray: str, control_plane: ControlPlane, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """As the administrator, as above."""
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as api:
        runs = Runs(api, NAMESPACE)
        pod = runs.core.read_namespaced_pod(pod_of_ray, NAMESPACE)
        (tmp_path / "stdin").write_bytes(b"sent\xff" * 50_000)
        kept = os.dup(0)
        try:
            with (tmp_path / "stdin").open("rb") as sent:
                os.dup2(sent.fileno(), 0)
            code = pod_of_worker.run_in(runs, pod, ["sh", "-c", "cat; echo said >&2; exit 7"])
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    assert code == 7
    assert capfdbinary.readouterr() == (b"sent\xff" * 50_000, b"said\n")


def _answers(ray: HeadApi) -> bool:
    try:
        return ray.jobs() == []
    except HeadUnreachableError:
        return False


def test_outsider_is_refused_everything_and_nothing_is_made(bob: Runs, kubectl: Kubectl, ray: FakeRay) -> None:
    for attempt in (
        partial(bob.cluster, None),
        partial(bob.create, request("foreign"), again=False),
        bob.all,
        partial(bob.stop, "works"),
        partial(bob.delete, "works"),
        partial(bob.pods, "works"),
        partial(bob.log, "rayml-head"),
    ):
        with pytest.raises(UnreachableError, match=r"refuses this request \(403\).*access\.submitters"), as_submitter():
            attempt()
    assert not kubectl.get("-n", NAMESPACE, "jobs", "-l", f"{RUN_LABEL}=foreign")["items"]
    assert not [id for id in ray.submissions if id.startswith("foreign")]


@pytest.mark.parametrize(
    ("verb", "what", "ann_may"),
    [
        ("get", "pods/portforward", True),
        ("get", "pods/exec", True),
        ("create", "pods/portforward", True),
        ("create", "pods/exec", True),
        ("get", "pods/log", True),
        ("create", "jobs", True),
        ("get", "secrets", False),
        ("create", "rolebindings", False),
        ("update", "cronjobs", False),
        ("update", "configmaps", False),
        ("create", "rayclusters", False),
        ("delete", "rayclusters", False),
        ("create", "rayjobs", True),
        ("delete", "rayjobs", True),
        ("update", "rayjobs", False),
        ("patch", "rayjobs", False),
    ],
)
def test_the_groups_role_is_enough_and_no_more(
    place: None, control_plane: ControlPlane, verb: str, what: str, *, ann_may: bool
) -> None:
    resource, _, subresource = what.partition("/")
    groups = {
        "jobs": "batch",
        "cronjobs": "batch",
        "rolebindings": "rbac.authorization.k8s.io",
        "rayclusters": "ray.io",
        "rayjobs": "ray.io",
    }
    attributes = {
        "namespace": NAMESPACE,
        "verb": verb,
        "group": groups.get(resource, ""),
        "resource": resource,
        "subresource": subresource,
    }
    for group, may in ((submitters_group(NAMESPACE), ann_may), ("somebody-else", False)):
        assert is_allowed(control_plane, group, attributes) is may


@pytest.fixture
def smoke(ann: Runs, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], list[str]]]:
    """Return a function that runs the smoke test as ann; the head is simulated, and its address answers as Ray."""
    monkeypatch.setattr(direct, "refuse_simulated", lambda *_: None)
    small = config.load("small")
    environment = small.model_copy(update={"ray": small.ray.model_copy(update={"namespace": NAMESPACE})})

    def run(timeout: float = PATIENCE_SECONDS) -> tuple[dict[str, Any], list[str]]:
        said: list[str] = []
        return smoke_run.run(ann, environment, "rayml", said.append, timeout=timeout), said

    return run


def smoke_job(ray: FakeRay) -> FakeJob:
    """Return the job of the smoke test, once it is submitted."""
    wait_until(lambda: any(name.startswith("smoke-") for name in ray.jobs), "the submission")
    [job] = [job for name, job in ray.jobs.items() if name.startswith("smoke-")]
    return job


def test_smoke_test_returns_the_jobs_result_and_leaves_no_run(
    ann: Runs, ray: FakeRay, smoke: Callable[..., tuple[dict[str, Any], list[str]]]
) -> None:
    ray.jobs.clear()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(smoke)
        job = smoke_job(ray)
        assert job.request["entrypoint"].startswith("python smoke.py --patience ")
        job.output = 'a line\nsmoke: {"workers": [], "problems": ["one"]}\n'
        job.end("FAILED", 1)
        found, said = running.result(PATIENCE_SECONDS)
    assert found == {"workers": [], "problems": ["one"]}
    assert "rayml: all-reduce over all workers, run smoke-rayml-" in said[0]
    wait_until(lambda: not [run for run in ann.all() if run.name.startswith("smoke-")], "the run's deletion")


def test_smoke_test_without_a_result_names_the_last_lines_and_one_in_vain_is_stopped(
    ann: Runs, ray: FakeRay, smoke: Callable[..., tuple[dict[str, Any], list[str]]]
) -> None:
    ray.jobs.clear()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(smoke)
        job = smoke_job(ray)
        job.output = "ModuleNotFoundError: torch\n"
        job.end("FAILED", 1)
        with pytest.raises(
            SmokeError, match=r"ended without a result: .*ModuleNotFoundError: torch.* Fix: see `ops job"
        ):
            running.result(PATIENCE_SECONDS)
    ray.jobs.clear()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(smoke, timeout=0.0)
        with pytest.raises(SmokeError, match="did not end in 0 s"):
            running.result(PATIENCE_SECONDS)

    def states() -> set[str]:
        return {run.phase for run in ann.all() if run.name.startswith("smoke-")}

    wait_until(lambda: states() == {"failed", "stopped"}, "the run's stop")
