"""`ops` against the control plane's own refusals: pods that kwok simulates run nothing that could answer."""

from collections.abc import Iterator

import kubernetes
import pytest

from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import Kubectl, pod
from ops.jobs import direct
from ops.jobs.head_api import Head, HeadUnreachableError
from ops.jobs.run import Request, RunError
from tests.support.waiting import KUBECTL_PATIENCE

pytestmark = pytest.mark.product

SAID = r"pod default/quiet-head is simulated: no program runs in it; `make rehearse-job` runs real Ray"
REQUEST = Request("train", "rayml", "true", "/fsx", None, 1, 1, 0)


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


def test_its_jobs_cannot_be_asked_for(core: kubernetes.client.CoreV1Api) -> None:
    head = Head(core, "default", "quiet-head")
    with pytest.raises(HeadUnreachableError, match=SAID):
        head.jobs()
    with pytest.raises(HeadUnreachableError, match=SAID):
        next(head.tail("train"))


def test_no_command_runs_in_it(core: kubernetes.client.CoreV1Api) -> None:
    with pytest.raises(RunError, match=SAID):
        direct.submit_in_head(core, "default", "quiet-head", REQUEST)


def test_no_run_is_begun_on_it(core: kubernetes.client.CoreV1Api) -> None:
    with pytest.raises(RunError, match=SAID):
        direct.refuse_simulated(core, "default", "rayml")
    direct.refuse_simulated(core, "default", "other")
