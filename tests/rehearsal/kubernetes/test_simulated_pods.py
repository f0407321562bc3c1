"""`ops` against the control plane's own refusals: pods that kwok simulates run nothing that could answer."""

from collections.abc import Iterator
from contextlib import suppress

import kubernetes
import pytest

from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import Kubectl, pod
from ops.jobs import direct, pod_of_worker
from ops.jobs.head_api import HeadApi, HeadUnreachableError, RayApiError
from ops.jobs.run import RunError, RunRequest
from ops.jobs.runs import Runs
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

SAID = r"pod default/quiet-head is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"
HEAD_SAID = SAID.replace("pod default/quiet-head", "the head's pod")
REQUEST = RunRequest("train", "rayml", "true", "/fsx", None, 1, 1, 0)


@pytest.fixture(scope="module")
def core(control_plane: ControlPlane, nodes: Nodes, kubectl: Kubectl) -> Iterator[kubernetes.client.CoreV1Api]:
    """The API of a namespace with a simulated head."""
    head = pod("quiet-head")
    head["metadata"]["labels"] = {"ray.io/cluster": "rayml", "ray.io/node-type": "head"}
    kubectl.apply(head)
    kubectl("wait", "--for=condition=Ready", "pod/quiet-head", KUBECTL_PATIENCE)
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        yield kubernetes.client.CoreV1Api(client)
    kubectl("delete", "pod", "quiet-head", KUBECTL_PATIENCE)


def test_no_job_runs_on_it_and_nothing_else_can_be_asked_for(core: kubernetes.client.CoreV1Api) -> None:
    head = HeadApi(core, "default", "quiet-head")

    def jobs() -> object:
        with suppress(HeadUnreachableError):
            return head.jobs()
        return None

    wait_until(lambda: jobs() == [], "the list of jobs")
    with pytest.raises(RayApiError, match=HEAD_SAID):
        head.job("train")
    with pytest.raises(HeadUnreachableError, match=HEAD_SAID):
        next(head.tail("train"))


def test_no_command_runs_in_it(core: kubernetes.client.CoreV1Api) -> None:
    with pytest.raises(RunError, match=SAID):
        direct.submit_in_head(core, "default", "quiet-head", REQUEST)
    simulated = core.read_namespaced_pod("quiet-head", "default")
    with pytest.raises(RunError, match=rf"quiet-head does not run it: container \S+ of {SAID}\. Fix: "):
        pod_of_worker.run_in(Runs(core.api_client, "default"), simulated, ["true"])


def test_no_run_is_begun_on_it(core: kubernetes.client.CoreV1Api) -> None:
    with pytest.raises(
        RunError, match=rf"{SAID}\. Fix: `make rehearse KEEP=1 JOBS=1` keeps a rehearsal in which jobs run"
    ):
        direct.refuse_simulated(core, "default", "rayml")
    direct.refuse_simulated(core, "default", "other")
