"""Test pods in sandboxes: own network, files and processes, and the manifest's commands and probes unchanged."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import urllib3

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.kubernetes.pods.programs import RealRay
from embedded_account.machine.processes import is_alive
from embedded_account.testing.cluster import GENERAL, PYTHON_IMAGE, Kubectl, Object, pod
from embedded_account.testing.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until

RAY_IMAGE = "registry.example.invalid/ray:2.42.1"
SERVER = "exec {python} -m http.server 8080 --directory /fsx"
IDLE = "exec sleep 300"


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """Keep its files where a pod has a folder of its own, which must not hide them.

    The other Ray is where a pod has none: CI's temporary files are in /dev/shm.
    """
    ray = RealRay(r"(^|/)ray:2.42.1$", Path(sys.prefix))
    with TemporaryDirectory(dir="/dev/shm") as directory, TemporaryDirectory(dir="/var/tmp") as installed:
        other = RealRay(r"(^|/)ray:2.60.0$", Path(installed))
        (other.environment / "bin").mkdir()
        (other.environment / "bin" / "ray").write_text("#!/bin/sh\necho the other Ray\n")
        (other.environment / "bin" / "ray").chmod(0o755)
        missing = RealRay(r"(^|/)ray:2.61.0$", Path(directory) / "missing")
        made = ControlPlane(Path(directory), binaries, name="sandboxes", real_rays=[ray, other, missing])
        made.start()
        yield made
        made.stop()


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    """Return kubectl for a cluster with one node and the bound claim `fsx-claim`."""
    Nodes(plane.api).add("node-1", labels={"group": "one"}, capacity=GENERAL, allocatable=GENERAL)
    told = Kubectl(plane)
    told.apply(*claim("fsx-claim"))
    told("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/fsx-claim", KUBECTL_PATIENCE)
    return told


def claim(name: str) -> list[Object]:
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": size, "csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0"}} | common
    wanted = {"resources": {"requests": size}, "volumeName": name} | common
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted},
    ]


def shell(name: str, script: str, *, container: Object | None = None, **spec: Any) -> Object:
    """Return a pod of Ray's image that runs a script in a login shell, with the claim at /fsx."""
    own = {
        "name": "main",
        "image": RAY_IMAGE,
        "command": ["/bin/bash", "-lc", "--"],
        "args": [script.format(python=sys.executable)],
        "volumeMounts": [{"name": "fsx", "mountPath": "/fsx"}],
    }
    made = pod(
        name,
        containers=[own | (container or {})],
        volumes=[{"name": "fsx", "persistentVolumeClaim": {"claimName": "fsx-claim"}}],
        restartPolicy="Never",
        terminationGracePeriodSeconds=5,
        **spec,
    )
    made["metadata"]["labels"] = {"app": name}
    return made


def run(kubectl: Kubectl, made: Object) -> str:
    """Apply a pod and wait for it to be ready; return its name."""
    kubectl.apply(made)
    name = str(made["metadata"]["name"])
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", KUBECTL_PATIENCE)
    return name


def finished(kubectl: Kubectl, made: Object) -> Object:
    """Apply a pod and wait for its end; return its status."""
    kubectl.apply(made)
    name = made["metadata"]["name"]
    wait_until(lambda: kubectl.get("pod", name)["status"]["phase"] in ("Succeeded", "Failed"), f"end of {name}")
    status: Object = kubectl.get("pod", name)["status"]
    return status


def printed(kubectl: Kubectl, name: str, script: str) -> str:
    made = finished(kubectl, shell(name, script))
    log = kubectl("logs", name)
    assert made["phase"] == "Succeeded", log
    return log


def test_pods_find_each_other_by_the_names_of_services(kubectl: Kubectl) -> None:
    spec = {"selector": {"app": "server"}, "clusterIP": "None", "ports": [{"port": 8080}]}
    kubectl.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    run(kubectl, shell("server", "echo from the server > /fsx/page; " + SERVER))
    get = "for n in $(seq 50); do wget -q -T 2 -O- http://{} && exit 0; sleep 0.1; done; exit 1"
    for number, host in enumerate(("web", "web.default.svc", "web.default.svc.cluster.local")):
        assert printed(kubectl, f"client-{number}", get.replace("{}", f"{host}:8080/page")) == "from the server\n"


def test_a_pod_runs_the_ray_of_its_image(kubectl: Kubectl) -> None:
    made = shell("other", "ray", container={"image": RAY_IMAGE.replace("2.42.1", "2.60.0")})
    assert finished(kubectl, made)["phase"] == "Succeeded"
    assert kubectl("logs", "other") == "the other Ray\n"


def test_an_image_whose_ray_is_not_installed_starts_no_container_and_says_so(kubectl: Kubectl) -> None:
    kubectl.apply(shell("missing", "ray", container={"image": RAY_IMAGE.replace("2.42.1", "2.61.0")}))

    def waiting() -> Object:
        [status] = kubectl.get("pod", "missing")["status"].get("containerStatuses") or [{}]
        found: Object = status.get("state", {}).get("waiting", {})
        return found

    wait_until(lambda: waiting().get("reason") == "CreateContainerConfigError", "the missing Ray is noticed")
    assert waiting()["message"].endswith("Fix: install Ray there")
    kubectl("delete", "pod", "missing", "--wait=false")


def test_pod_has_an_address_and_a_name_of_its_own(kubectl: Kubectl) -> None:
    address = kubectl.get("pod", run(kubectl, shell("own", IDLE)))["status"]["podIP"]
    wait_until(lambda: "own" in kubectl("exec", "own", "--", "cat", "/etc/hosts"), "the pod's own name")
    said = kubectl("exec", "own", "--", "/bin/bash", "-c", "hostname; ip -4 -o address show eth0; getent hosts own")
    hostname, interface, known = said.splitlines()
    assert hostname == "own"
    assert f"inet {address}/" in interface
    assert known.split()[0] == address


def test_service_account_works_as_in_a_cluster(kubectl: Kubectl) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    ask = (
        f'wget -q -O- --ca-certificate={folder}/ca.crt --header="Authorization: Bearer $(cat {folder}/token)"'
        " https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version"
    )
    assert '"gitVersion"' in printed(kubectl, "asking", ask)


def test_nothing_outside_the_cluster_is_reachable(kubectl: Kubectl, plane: ControlPlane) -> None:
    port = plane.endpoint.rpartition(":")[2]
    script = f"! (echo > /dev/tcp/127.0.0.1/{port}) && ! timeout 1 bash -c 'echo > /dev/tcp/192.0.2.7/80'"
    assert finished(kubectl, shell("locked-in", script))["phase"] == "Succeeded"


def test_claim_is_the_same_folder_in_every_pod_and_no_folder_of_this_machine(kubectl: Kubectl) -> None:
    printed(kubectl, "writing", "echo shared > /fsx/word")
    assert printed(kubectl, "reading", "cat /fsx/word") == "shared\n"
    assert not Path("/fsx").exists()


def test_memory_and_scratch_are_a_pods_own(plane: ControlPlane, kubectl: Kubectl) -> None:
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Mi"}}
    made = shell("remembering", "touch /dev/shm/mine /tmp/ray/mine; df --output=size -m /dev/shm | tail -1")
    made["spec"]["volumes"].append(volume)
    made["spec"]["containers"][0]["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    assert finished(kubectl, made)["phase"] == "Succeeded"
    assert kubectl("logs", "remembering").split() == ["32"]
    listed = printed(kubectl, "forgetful", "ls /dev/shm /tmp/ray").split()
    assert listed == ["/dev/shm:", plane.directory.relative_to("/dev/shm").parts[0], "/tmp/ray:"]


def test_pods_start_while_other_programs_remove_files_beside_their_mounts(kubectl: Kubectl) -> None:
    is_over = threading.Event()
    with TemporaryDirectory(dir="/var/tmp") as beside, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(keep_writing, Path(beside), is_over)
        mount = [{"name": "fsx", "mountPath": f"{beside}/missing/fsx"}]
        started = [shell(f"beside-{number}", "true", container={"volumeMounts": mount}) for number in range(4)]
        try:
            kubectl.apply(*started)
            ends = [finished(kubectl, each) for each in started]
        finally:
            is_over.set()
        writing.result()
    assert [each["phase"] for each in ends] == ["Succeeded"] * 4
    assert {each["containerStatuses"][0]["restartCount"] for each in ends} == {0}


def keep_writing(directory: Path, is_over: threading.Event) -> None:
    """Create and remove files until `is_over` is set."""
    while not is_over.is_set():
        for number in range(500):
            (directory / f"{number}").touch()
        for number in range(500):
            (directory / f"{number}").unlink()


def test_pod_sees_its_own_processes_and_all_of_them_end_with_it(kubectl: Kubectl) -> None:
    name = run(kubectl, shell("parent", "setsid sleep 4242 & " + IDLE))
    pid = pid_of("sleep 4242")
    seen = kubectl("exec", name, "--", "ps", "-A", "-o", "args=")
    assert "sleep 4242" in seen
    assert "kube-apiserver" not in seen
    kubectl("delete", "pod", name, KUBECTL_PATIENCE)
    assert not is_alive(pid)


def test_program_that_is_killed_fails_its_pod_with_its_code(kubectl: Kubectl) -> None:
    status = finished(kubectl, shell("killed", "kill -9 $$"))
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_probes_are_the_manifests_commands(kubectl: Kubectl) -> None:
    ask = "wget --tries 1 -T 4 -q -O- http://localhost:8080/page | grep -q from"
    probe = {"exec": {"command": ["/bin/sh", "-c", ask]}, "timeoutSeconds": 5, "periodSeconds": 1}
    probed = {"readinessProbe": probe}
    kubectl.apply(shell("unready", IDLE, container=probed))
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/unready", KUBECTL_PATIENCE)
    run(kubectl, shell("probed", "echo from > /fsx/page; " + SERVER, container=probed))
    conditions = kubectl.get("pod", "unready")["status"]["conditions"]
    ready = [item["status"] for item in conditions if item["type"] == "Ready"]
    assert ready == ["False"], "the kubelet probed it before the other pod"


def test_init_containers_come_first_and_may_fail_the_pod(kubectl: Kubectl) -> None:
    def with_init(name: str, script: str) -> Object:
        made = shell(name, "cat /fsx/prepared")
        made["spec"]["initContainers"] = [
            shell(name, script)["spec"]["containers"][0] | {"name": f"init-{number}"} for number in (1, 2)
        ]
        return made

    assert finished(kubectl, with_init("prepared", "echo once >> /fsx/prepared"))["phase"] == "Succeeded"
    assert kubectl("logs", "prepared") == "once\nonce\n"
    status = finished(kubectl, with_init("unprepared", "exit 4"))
    assert status["phase"] == "Failed"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_hook_runs_before_the_end(kubectl: Kubectl) -> None:
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo hook >> /fsx/order"]}}}
    waiting = "trap 'echo term >> /fsx/order; exit 0' TERM; while true; do sleep 0.1; done"
    name = run(kubectl, shell("hooked", waiting, container={"lifecycle": hook}))
    kubectl("delete", "pod", name, KUBECTL_PATIENCE)
    assert printed(kubectl, "order", "cat /fsx/order") == "hook\nterm\n"


def test_port_forward_reaches_what_listens_on_a_pods_localhost(kubectl: Kubectl) -> None:
    listens = {"readinessProbe": {"exec": {"command": ["wget", "-q", "-O-", "http://127.0.0.1:8123/"]}}}
    name = run(kubectl, shell("local", SERVER.replace("8080", "8123 --bind 127.0.0.1"), container=listens))
    with kubectl.start("port-forward", f"pod/{name}", ":8123") as forwarding:
        assert forwarding.stdout
        port = forwarding.stdout.readline().split("127.0.0.1:")[1].split()[0]
        answer = urllib3.PoolManager(retries=False).request(
            "GET", f"http://127.0.0.1:{port}/", timeout=PATIENCE_SECONDS
        )
    assert answer.status == 200


def test_controller_runs_in_a_sandbox_like_rays_pods(kubectl: Kubectl) -> None:
    """It listens on the manifest's own address, and its HTTP probe uses the pod's address."""
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    command = ["python", "-m", "http.server", "8080"]
    own = {"name": "main", "image": PYTHON_IMAGE, "command": command, "readinessProbe": probe}
    run(kubectl, pod("controller", containers=[own]))


def test_lost_node_loses_everything_of_its_pods(kubectl: Kubectl, plane: ControlPlane) -> None:
    nodes = Nodes(plane.api)
    nodes.add("losing", labels={"group": "losing"}, capacity=GENERAL, allocatable=GENERAL)
    name = run(kubectl, shell("lost", "setsid sleep 4343 & " + IDLE, nodeSelector={"group": "losing"}))
    pid = pid_of("sleep 4343")
    nodes.stop_heartbeat("losing")
    wait_until(lambda: not is_alive(pid), "end of the pod's processes")
    assert kubectl.get("pod", name)["status"]["phase"] == "Running", "no kubelet reported the end"


def pid_of(command: str) -> int:
    """Wait for the one process with this command line; return its pid."""
    wait_until(lambda: len(_pids_of(command)) == 1, command)
    return _pids_of(command)[0]


def _pids_of(command: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip() == command.encode():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
