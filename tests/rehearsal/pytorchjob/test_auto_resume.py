"""What docs/operate/pytorchjobs.md says of a lost node: under Kubeflow's real operator, with real processes.

HyperPod's part is a stand-in, which says so. Needs .venv-jobs, and builds the operator on the first run.
"""

import io
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import config
from config import EksEnvironment
from config.labels import NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.pods.programs import RealRay
from embedded_account.machine.processes import ProcessError, ProcessSupervisor
from k8s_charts.shared.names import RAY_DIRECTORY, submitters_group
from ops.jobs.follow import follow
from ops.jobs.package import entry
from ops.jobs.packing import LIBRARY, Package
from ops.jobs.run import OwnPods, RunRequest
from ops.jobs.runs import Runs
from rehearsal import paths
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.cluster import DETECTION_SECONDS, DrillCluster
from rehearsal.drills.cluster.kubectl import rendered
from rehearsal.job.machine import require_machine
from rehearsal.paths import RAY_ENVIRONMENT
from rehearsal.pytorchjob import operator
from rehearsal.pytorchjob.auto_resume import AutoResume
from tests.support.impersonation import api_as
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.product, pytest.mark.long]

NAMESPACE = "hyperpod-ray"
SCRIPT = Path(__file__).with_name("training.py")
WORDS = ("40", "5", "13")
RUN = "torch"


def environment() -> EksEnvironment:
    """`small` in a namespace in which HyperPod resumes PyTorchJobs, with workers that this machine can run."""
    small = config.load("small")
    *others, group = small.hyperpod.instance_groups
    [cluster] = small.ray.clusters
    [workers] = cluster.workers
    group = group.model_copy(update={"instance_type": "ml.m5.2xlarge"})
    workers = workers.model_copy(update={"cpu": 2, "memory_gib": 4, "replicas": 2, "max_replicas": 2})
    ray = small.ray.model_copy(
        update={"namespace": NAMESPACE, "clusters": [cluster.model_copy(update={"workers": [workers]})]}
    )
    hyperpod = small.hyperpod.model_copy(update={"instance_groups": [*others, group]})
    return small.model_copy(update={"ray": ray, "hyperpod": hyperpod})


class Place:
    """The control plane, the environment's objects, the operator, and somebody of the submitters' group."""

    def __init__(self, directory: Path) -> None:
        self.environment = environment()
        built = binaries.ensure(paths.BINARIES, print)
        kubeflow = binaries.ensure(paths.BINARIES, print, binaries.KUBEFLOW)
        [manifest] = rendered(*objects.ray_objects(self.environment).clusters.values())
        image = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
        self.plane = ControlPlane(
            directory / "cluster",
            built,
            name="pytorch",
            node_monitor_grace_period=DETECTION_SECONDS,
            real_rays=[RealRay(image, RAY_ENVIRONMENT)],
        )
        self.cluster = DrillCluster(self.environment, self.plane.directory, Console(), self.plane)
        self.supervisor = ProcessSupervisor(directory)
        self.cluster.start(workers=2)
        # The RayCluster is only a template here: it holds no node.
        self.cluster.manifest["spec"]["suspend"] = True
        self.cluster.kubectl.apply([self.cluster.manifest])
        self.cluster.kubectl.apply(operator.objects(kubeflow))
        operator.start(self.plane, kubeflow, self.supervisor, directory)
        claim = self.environment.fsx.claim
        self.storage = self.plane.directory / "claims" / f"{NAMESPACE}_{claim}" / RAY_DIRECTORY / "runs"
        self.storage.mkdir(parents=True)
        self.ann = Runs(api_as(self.plane, "ann", submitters_group(NAMESPACE)), NAMESPACE)

    def stop(self) -> None:
        self.supervisor.stop_all()
        self.cluster.stop()

    def replace(self, node: str) -> str:
        """Replace a node as HyperPod does: the new one has another name."""
        new, group = f"{node}-new", objects.worker_group(self.environment)
        self.cluster.nodes.remove(node)
        self.cluster.nodes.add_all([objects.hyperpod_node(self.environment, group, new)])
        return new

    def pods(self) -> dict[str, str]:
        """Map each pod of the run that is not being deleted to its node."""
        pods = self.cluster.world.pods(NAMESPACE)
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in pods
            if pod["metadata"]["name"].startswith(f"{RUN}-worker-") and "deletionTimestamp" not in pod["metadata"]
        }

    def complete(self) -> set[int]:
        """The steps of the complete checkpoints of the run."""
        whole = (self.storage / RUN).glob("checkpoints/*/manifest.json")
        return {int(manifest.parent.name.partition("@")[0]) for manifest in whole}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        require_machine()
    except ProcessError as error:
        pytest.skip(str(error))
    started = Place(tmp_path_factory.mktemp("pytorch"))
    yield started
    started.stop()


def request(storage: str) -> RunRequest:
    wanted = entry(str(SCRIPT), WORDS, None, [], "torchrun")
    assert isinstance(wanted.package, Package)
    return RunRequest(
        name=RUN,
        cluster="rayml",
        command=wanted.command,
        storage=storage,
        package=wanted.package,
        max_attempts=2,
        max_stalled=1,
        give_up_after=0,
        own_pods=OwnPods(workers=2),
    )


def undisturbed(directory: Path) -> bytes:
    """Return the model of the same training in two processes of this machine, which nothing disturbs."""
    torchrun = RAY_ENVIRONMENT / "bin" / "torchrun"
    argv = [str(torchrun), "--nproc-per-node=2", "--standalone", str(SCRIPT), *WORDS]
    own = {"RUN_NAME": RUN, "RUN_STORAGE": str(directory), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    own["PYTHONPATH"] = str(LIBRARY.parent)
    subprocess.run(argv, env=own, check=True, capture_output=True)
    return (directory / RUN / "model.pt").read_bytes()


def test_job_that_loses_a_node_ends_with_the_same_model(place: Place, tmp_path: Path) -> None:
    (place.storage / "hold").touch()
    mount = place.environment.fsx.mount_path
    wanted = request(f"{mount}/{RAY_DIRECTORY}/runs")
    checked = place.ann.preview(wanted)
    assert checked["metadata"]["annotations"]["sagemaker.amazonaws.com/job-max-retry-count"] == "1"
    assert place.pods() == {}, "a dry run creates nothing"

    place.ann.create(wanted, again=False)
    said, codes = io.StringIO(), list[int]()
    following = threading.Thread(target=lambda: codes.append(follow(place.ann, RUN, Console(file=said))), daemon=True)
    following.start()
    wait_until(lambda: 10 in place.complete(), "the checkpoint of step 10")
    assert len(set(place.pods().values())) == 2, "each node has one pod"
    [run] = place.ann.all()
    assert (run.name, run.kind, run.phase) == (RUN, "pytorchjob", "running")

    lost = place.pods()[f"{RUN}-worker-1"]
    place.cluster.nodes.stop_heartbeat(lost)
    wait_until(lambda: not place.cluster.nodes.is_ready(lost), "the loss of the node")
    resume = AutoResume(place.plane.api, place.replace)
    told = resume.act(lost)
    assert told == [
        f"simulated HyperPod: PyTorchJob {RUN} restarts, retry 1 of 1: 2 pods are ended",
        f"simulated HyperPod: node {lost} is replaced by {lost}-new",
    ]
    wait_until(lambda: place.pods().get(f"{RUN}-worker-1", lost) == f"{lost}-new", "the pod on the new node")
    (place.storage / "hold").unlink()
    following.join(600)

    assert codes == [0], said.getvalue()
    assert "rank 0 begins at step 0" in said.getvalue()
    assert "rank 0 begins at step 10" in said.getvalue()
    assert (place.storage / RUN / "DONE.json").is_file()
    assert (place.storage / RUN / "model.pt").read_bytes() == undisturbed(tmp_path)

    place.ann.delete(RUN, place.ann.get(RUN).kind)
    wait_until(lambda: not place.pods(), "the end of the pods")


def test_node_without_a_pod_of_a_job_is_replaced_and_nothing_restarts(place: Place) -> None:
    [node, *_] = [name for name in place.cluster.nodes.names() if name.startswith("hyperpod-")]
    place.cluster.nodes.set_label(node, NODE_HEALTH_LABEL, NODE_SCHEDULABLE)
    assert AutoResume(place.plane.api, lambda name: f"{name}-new").act(node) == [
        f"simulated HyperPod: node {node} is replaced by {node}-new"
    ]
    assert shlex.split(request("/fsx").command)[0] == "torchrun"
