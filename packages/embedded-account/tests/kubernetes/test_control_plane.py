import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import urllib3

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.kubernetes.building.binaries import KUBERNETES_VERSION, Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.machine.processes import ProcessError, ProgramEndedError, is_alive, living
from embedded_account.testing.cluster import COMPONENTS, GENERAL, Kubectl, operator_pod, process_of
from embedded_account.testing.plugin import KNOWN_TOKEN
from embedded_account.testing.processes import peer, processes_below, socket_inodes
from embedded_account.testing.waiting import KUBECTL_PATIENCE, wait_until


def answer_to(control_plane: ControlPlane, token: str) -> urllib3.BaseHTTPResponse:
    """Return the API server's response to a SelfSubjectReview with this token."""
    client = urllib3.PoolManager(ssl_context=ssl.create_default_context(cadata=control_plane.ca_pem.decode()))
    return client.request(
        "POST",
        f"{control_plane.endpoint}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        headers={"Authorization": f"Bearer {token}"},
    )


def pids_of(directory: Path) -> dict[str, int]:
    return {file.stem: int(file.read_text()) for file in (directory / "run").glob("*.pid")}


def test_endpoint_answers_as_the_pinned_version(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"] == KUBERNETES_VERSION


def test_authenticator_decides_who_a_bearer_is(control_plane: ControlPlane) -> None:
    user = answer_to(control_plane, KNOWN_TOKEN).json()["status"]["userInfo"]
    assert user["username"] == "ann"
    assert "submitters" in user["groups"]


def test_unknown_bearer_is_refused(control_plane: ControlPlane) -> None:
    assert answer_to(control_plane, "somebody-else").status == 401


def test_service_account_tokens_name_the_given_issuer(control_plane: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = control_plane.api.create(path, {"spec": {}})["status"]["token"]
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    assert claims["iss"] == "https://oidc.example.invalid/id/TESTS"
    assert header["alg"] == "RS256"


def etcd_ports(plane: ControlPlane) -> list[int]:
    """Return etcd's ports for clients and for peers, from its command line."""
    words = Path(f"/proc/{pids_of(plane.directory)['etcd']}/cmdline").read_text().split("\0")
    flags = dict(word.split("=", 1) for word in words if "=" in word)
    return [int(flags[f"--listen-{kind}-urls"].rsplit(":", 1)[1]) for kind in ("client", "peer")]


def etcd_answers(plane: ControlPlane, port: int, certificate: str = "") -> bool:
    """Return whether etcd answers a client with this certificate of the control plane; "" means no certificate."""
    folder = plane.directory / "pki"
    context = ssl.create_default_context(cafile=str(folder / "etcd-ca.crt"))
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    try:
        with urllib3.PoolManager(ssl_context=context, retries=False) as client:
            return client.request("GET", f"https://127.0.0.1:{port}/version").status == 200
    except urllib3.exceptions.HTTPError:
        return False


def test_etcd_answers_the_api_server_and_nobody_else(control_plane: ControlPlane) -> None:
    client, peer = etcd_ports(control_plane)
    assert etcd_answers(control_plane, client, "apiserver-etcd-client")
    assert etcd_answers(control_plane, peer, "etcd")
    for port in (client, peer):
        assert not etcd_answers(control_plane, port)
        assert not etcd_answers(control_plane, port, "admin")
        with pytest.raises(urllib3.exceptions.HTTPError):
            urllib3.request("GET", f"http://127.0.0.1:{port}/version", retries=False)


def listening() -> dict[int, str]:
    """Return the address of each listening TCP socket on this machine, by inode."""
    rows = (line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()[1:])
    return {int(row[9]): str(peer(row[1])[0]) for row in rows if row[3] == "0A"}


def ports_of_programs(control_plane: ControlPlane) -> dict[str, list[str]]:
    """Return the addresses of the listening ports of each program of a control plane that has any."""
    addresses = listening()
    found: dict[str, list[str]] = defaultdict(list)
    for pid, command in processes_below(control_plane.directory).items():
        # Leave out pods of other tests in this control plane: they listen on ports for metrics and health.
        if not command.startswith((sys.executable, str(control_plane.binaries["kuberay-operator"]))):
            found[Path(command.split()[0]).name] += [addresses[each] for each in socket_inodes(pid) & addresses.keys()]
    return {name: each for name, each in found.items() if each}


def test_only_the_programs_of_the_documented_table_listen_and_on_localhost(control_plane: ControlPlane) -> None:
    ports = {"etcd": 2, "kube-apiserver": 1, "podserver": 1}
    wait_until(lambda: ports.keys() <= ports_of_programs(control_plane).keys(), "all ports")
    assert ports_of_programs(control_plane) == {name: ["127.0.0.1"] * count for name, count in ports.items()}


def test_refused_request_says_why(control_plane: ControlPlane) -> None:
    with pytest.raises(KubernetesClientError, match=r'404: nodes "nowhere" not found'):
        control_plane.api.get("/api/v1/nodes/nowhere")


def test_deleted_namespace_is_emptied_and_goes_only_after_its_last_finalizer(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    metadata = {"name": "kept", "namespace": "leaving", "finalizers": ["example.invalid/hold"]}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"name": "free", "finalizers": []}})
    kubectl("delete", "namespace", "leaving", "--wait=false")

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in kubectl.get("configmaps", "-n", "leaving")["items"]}

    wait_until(lambda: left() == {"kept"}, "the end of the object without a finalizer")
    status = kubectl.get("namespace", "leaving")["status"]
    assert status["phase"] == "Terminating"
    kubectl("patch", "configmap", "kept", "-n", "leaving", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    wait_until(lambda: "leaving" not in names_of_namespaces(control_plane), "the end of the namespace")


def test_what_an_object_of_a_new_kind_owned_goes_with_it(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "owners", "singular": "owner", "kind": "Owner"}
    spec = {"group": "example.invalid", "scope": "Namespaced", "names": names, "versions": [version]}
    kubectl.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "owners.example.invalid"},
            "spec": spec,
        }
    )
    kubectl("wait", "--for=condition=Established", "crd/owners.example.invalid", KUBECTL_PATIENCE)
    kubectl.apply({"apiVersion": "example.invalid/v1", "kind": "Owner", "metadata": {"name": "gone"}})
    uid = kubectl.get("owner", "gone")["metadata"]["uid"]
    owner = {"apiVersion": "example.invalid/v1", "kind": "Owner", "name": "gone", "uid": uid}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [owner]}})
    kubectl("delete", "owner", "gone")

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in kubectl.get("configmaps")["items"]}

    wait_until(lambda: "owned" not in left(), "the end of the owned object")
    kubectl("delete", "crd", "owners.example.invalid")


def names_of_namespaces(control_plane: ControlPlane) -> set[str]:
    return {item["metadata"]["name"] for item in control_plane.api.get("/api/v1/namespaces")["items"]}


def test_stop_leaves_no_process_frees_the_port_and_wipes_the_data(tmp_path: Path, binaries: Binaries) -> None:
    plane = ControlPlane(tmp_path, binaries, name="short-lived", authenticator_url=None)
    plane.start()
    Nodes(plane.api).add("only", capacity=GENERAL, allocatable=GENERAL)
    Kubectl(plane).apply(operator_pod("running"))
    log = plane.logs / "kubelet.log"
    wait_until(lambda: "as process" in log.read_text(), "a pod's process")
    pids = pids_of(tmp_path)
    program = process_of(plane)
    assert is_alive(program)
    port = int(plane.endpoint.rpartition(":")[2])
    assert pids.keys() == {*COMPONENTS}
    plane.stop()
    assert not [name for name, pid in pids.items() if is_alive(pid)]
    wait_until(lambda: not is_alive(program), "end of the pod's process")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    assert not (tmp_path / "data").exists()
    assert (tmp_path / "logs" / "kube-apiserver.log").is_file()


def test_control_plane_ends_with_whoever_started_it_however_that_ended(tmp_path: Path, binaries: Binaries) -> None:
    program = f"""
import threading
from pathlib import Path
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
plane = ControlPlane(Path({str(tmp_path)!r}), Binaries(Path({str(binaries.directory)!r})), name="orphan")
starter = threading.Thread(target=plane.start)  # a thread that ends must not take the control plane along
starter.start()
starter.join()
print(plane.api.text("/readyz"), flush=True)
threading.Event().wait()
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ok\n"
        pids = pids_of(tmp_path)
        assert pids.keys() == {*COMPONENTS}
        assert all(map(is_alive, pids.values()))
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    wait_until(lambda: not any(map(is_alive, pids.values())), "the end of all components")


def test_the_end_of_each_program_is_noticed_and_kwok_is_started_again(tmp_path: Path, binaries: Binaries) -> None:
    told: list[ProgramEndedError] = []
    plane = ControlPlane(tmp_path, binaries, name="watched")
    plane.failed = told.append
    plane.start()
    try:
        programs = pids_of(tmp_path)
        # `programs` lists what the control plane starts. The kubelet starts one more, the server of the nodes.
        wait_until(lambda: set(living(tmp_path)) > set(programs.values()), "the server of the nodes")
        (podserver,) = set(living(tmp_path)) - set(programs.values())
        os.kill(programs.pop("kwok"), signal.SIGKILL)
        Nodes(plane.api).add("joins-later", capacity=GENERAL, allocatable=GENERAL)
        wait_until(lambda: Nodes(plane.api).is_ready("joins-later"), "a heartbeat from the restarted kwok")
        assert told == []
        os.kill(podserver, signal.SIGKILL)
        del programs["kubelet"]  # It ended together with the server of its nodes.
        wait_until(lambda: told, "the end of the kubelet")
        said = "kubelet ended with code 1; its log: .*/kubelet.log[\\s\\S]*podserver ended with code -9"
        assert re.match(said, str(told.pop()))
        # Kill etcd last: without it all others end.
        for name in sorted(programs, key="etcd".__eq__):
            os.kill(programs[name], signal.SIGKILL)
            wait_until(lambda: told, f"the report of the end of {name}")
            assert str(told.pop()).startswith(f"{name} was ended by SIGKILL; its log: {plane.logs / name}.log\n")
    finally:
        plane.stop()


def test_reset_connection_does_not_end_the_start(
    tmp_path: Path, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get = KubernetesClient.get

    def reset_once(api: KubernetesClient, path: str, **query: str) -> Object:
        asked.append(path)
        if len(asked) == 1:
            raise urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset by peer"))
        return get(api, path, **query)

    monkeypatch.setattr(KubernetesClient, "get", reset_once)
    plane = ControlPlane(tmp_path, binaries, name="reset")
    try:
        plane.start()
        assert len(asked) > 1
    finally:
        plane.stop()


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver", "kwok"])
def test_component_that_does_not_start_is_named_with_its_log(
    tmp_path: Path, binaries: Binaries, component: str
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for program in binaries.directory.iterdir():
        (broken / program.name).symlink_to(program)
    (broken / component).unlink()
    (broken / component).write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    (broken / component).chmod(0o755)
    plane = ControlPlane(tmp_path / "plane", Binaries(broken), name="broken")
    # The error names the component, not the condition that the start waited for.
    with pytest.raises(ProcessError, match=rf"(?s){component} ended with code 3; its log: .*no such luck"):
        plane.start()
    assert not pids_of(tmp_path / "plane")


def test_api_reads_the_admin_kubeconfig(control_plane: ControlPlane) -> None:
    assert KubernetesClient.from_kubeconfig(control_plane.admin_kubeconfig).text("/readyz") == "ok"
