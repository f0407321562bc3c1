"""Test pods whose image is in the table of programs, as `kubectl` shows them."""

from collections.abc import Iterator

import pytest

from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.machine.processes import is_alive
from embedded_account.testing.cluster import GENERAL, Kubectl, Object, operator_pod, process_of
from embedded_account.testing.waiting import KUBECTL_PATIENCE, wait_until


@pytest.fixture(scope="module")
def namespace(nodes: Nodes, kubectl: Kubectl) -> Iterator[Kubectl]:
    """Return kubectl for a namespace whose default service account has no permissions."""
    kubectl("create", "namespace", "programs")
    yield kubectl
    kubectl("delete", "namespace", "programs", "--wait=false")


def create(kubectl: Kubectl, pod: Object) -> str:
    pod["metadata"]["namespace"] = "programs"
    kubectl.apply(pod)
    return str(pod["metadata"]["name"])


def container_of(kubectl: Kubectl, name: str) -> Object:
    statuses = kubectl.get("-n", "programs", "pod", name)["status"].get("containerStatuses", [{}])
    assert len(statuses) == 1
    container: Object = statuses[0]
    return container


def delete(kubectl: Kubectl, name: str) -> None:
    kubectl("-n", "programs", "delete", "pod", name, KUBECTL_PATIENCE)


def probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": 8080}, "failureThreshold": 1, "periodSeconds": 1}


def test_program_that_crashes_is_restarted_and_never_ready(namespace: Kubectl) -> None:
    name = create(namespace, operator_pod("crashing", args=["--no-such-flag"]))
    wait_until(lambda: container_of(namespace, name).get("restartCount", 0) >= 1, "a restart")
    wait_until(lambda: "waiting" in container_of(namespace, name)["state"], "back-off")
    status = container_of(namespace, name)
    assert not status["ready"]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 2
    conditions = namespace.get("-n", "programs", "pod", name)["status"]["conditions"]
    assert {"Ready": "False"}.items() <= {item["type"]: item["status"] for item in conditions}.items()
    delete(namespace, name)


def test_program_that_may_not_restart_fails_its_pod(namespace: Kubectl) -> None:
    pod = operator_pod("once", args=["--no-such-flag"])
    pod["spec"]["restartPolicy"] = "Never"
    name = create(namespace, pod)
    phase = ("-n", "programs", "get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_until(lambda: namespace(*phase) == "Failed", "pod Failed")
    delete(namespace, name)


def test_process_ends_with_its_pod(namespace: Kubectl, control_plane: ControlPlane) -> None:
    name = create(namespace, operator_pod("ending", readinessProbe=probe("/metrics")))
    wait_until(lambda: container_of(namespace, name).get("ready") is True, "pod ready")
    pid = process_of(control_plane)
    assert is_alive(pid)
    delete(namespace, name)
    assert not is_alive(pid)


def test_pod_whose_probe_asks_a_wrong_path_is_never_ready(namespace: Kubectl) -> None:
    name = create(namespace, operator_pod("wrong-path", readinessProbe=probe("/no-such-path")))
    wait_until(lambda: "running" in container_of(namespace, name).get("state", {}), "process running")
    later = create(namespace, operator_pod("right-path", readinessProbe=probe("/metrics")))
    wait_until(lambda: container_of(namespace, later).get("ready") is True, "pod ready")
    assert container_of(namespace, name)["ready"] is False, "the kubelet probed it before the other pod"
    delete(namespace, name)
    delete(namespace, later)


def test_liveness_probe_that_fails_restarts_the_program(namespace: Kubectl) -> None:
    name = create(namespace, operator_pod("not-live", livenessProbe=probe("/no-such-path")))
    wait_until(lambda: container_of(namespace, name).get("restartCount", 0) >= 1, "a restart")
    assert container_of(namespace, name)["lastState"]["terminated"]["exitCode"] == 137
    delete(namespace, name)


@pytest.mark.parametrize(
    ("name", "container", "message"),
    [
        ("unknown-command", {"command": ["/bin/other"]}, "no /bin/other in the rehearsal. Allowed: /manager"),
        ("unknown-port", {"readinessProbe": {"httpGet": {"port": 9}}}, "the program opens only [8080, 8082]"),
        ("other-probe", {"livenessProbe": {"exec": {"command": ["true"]}}}, "only httpGet probes"),
    ],
)
def test_container_that_could_not_work_says_why(namespace: Kubectl, name: str, container: Object, message: str) -> None:
    create(namespace, operator_pod(name, **container))
    wait_until(lambda: "message" in container_of(namespace, name).get("state", {}).get("waiting", {}), "a reason")
    waiting = container_of(namespace, name)["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert message in waiting["message"]
    delete(namespace, name)


def test_container_waits_for_the_config_map_that_it_reads(namespace: Kubectl) -> None:
    variable = {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}}
    name = create(namespace, operator_pod("configured", env=[variable], args=["--zap-log-level=$(LEVEL)"]))
    wait_until(lambda: "waiting" in container_of(namespace, name).get("state", {}), "waiting")
    namespace("-n", "programs", "create", "configmap", "settings", "--from-literal=level=error")
    wait_until(lambda: "running" in container_of(namespace, name).get("state", {}), "process running")
    delete(namespace, name)


def test_lost_node_loses_its_processes_but_reports_nothing(
    namespace: Kubectl, nodes: Nodes, control_plane: ControlPlane
) -> None:
    nodes.add("losing", labels={"group": "losing"}, capacity=GENERAL, allocatable=GENERAL)
    pod = operator_pod("lost")
    pod["spec"]["nodeSelector"] = {"group": "losing"}
    name = create(namespace, pod)
    wait_until(lambda: "running" in container_of(namespace, name).get("state", {}), "process running")
    pid = process_of(control_plane)
    nodes.stop_heartbeat("losing")
    wait_until(lambda: not is_alive(pid), "end of the process")
    assert "running" in container_of(namespace, name)["state"]
    namespace("-n", "programs", "delete", "pod", name, "--force", "--grace-period=0")
    nodes.remove("losing")
