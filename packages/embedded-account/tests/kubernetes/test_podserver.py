"""Test logs, exec and port-forward with the real kubectl, for pods with running programs and simulated pods."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import urllib3

from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import PYTHON_IMAGE, Kubectl, Object, pod
from embedded_account.testing.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until

TALKER = """
import http.server, itertools, os, sys, threading, time
print("first word", flush=True)
def talk():
    for number in itertools.count():
        print(f"line {number}", flush=True)
        time.sleep(0.1)
threading.Thread(target=talk, daemon=True).start()
host, _, port = sys.argv[1].partition("=")[2].rpartition(":")
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path} by {os.environ['WHO']}".encode())
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer((host, int(port)), Pages).serve_forever()
"""


def talker(name: str) -> Object:
    container = {
        "name": "main",
        "image": PYTHON_IMAGE,
        "command": ["python", "-c", TALKER],
        "args": ["--listen=:8080"],
        "env": [{"name": "WHO", "value": "the talker"}],
    }
    return pod(name, containers=[container], terminationGracePeriodSeconds=1)


@pytest.fixture(scope="module")
def talking(nodes: Nodes, kubectl: Kubectl) -> Iterator[Kubectl]:
    """Return kubectl after starting two pods.

    Pod `talker` writes a line ten times a second and answers on port 8080; pod `silent` is simulated.
    """
    kubectl.apply(talker("talker"), pod("silent"))
    kubectl("wait", "--for=condition=Ready", "pod/talker", "pod/silent", KUBECTL_PATIENCE)
    yield kubectl
    kubectl("delete", "pod", "talker", "silent", KUBECTL_PATIENCE)


def test_logs_are_what_the_program_wrote(talking: Kubectl) -> None:
    wait_until(lambda: "line 1\n" in talking("logs", "talker"), "the log")
    assert talking("logs", "talker").startswith("first word\nline 0\n")
    assert talking("logs", "talker", "--limit-bytes=5") == "first"


def test_tail_is_the_end_of_the_log(talking: Kubectl) -> None:
    lines = talking("logs", "talker", "--tail=2").splitlines()
    assert len(lines) == 2
    assert int(lines[1].split()[1]) == int(lines[0].split()[1]) + 1


def test_followed_log_continues_and_ends_with_the_container(talking: Kubectl) -> None:
    talking.apply(talker("short-lived"))
    talking("wait", "--for=condition=Ready", "pod/short-lived", KUBECTL_PATIENCE)
    with talking.start("logs", "-f", "short-lived") as following:
        assert following.stdout
        seen = [following.stdout.readline() for _ in range(8)]
        assert seen[0] == "first word\n"
        assert seen[7] == "line 6\n"
        talking("delete", "pod", "short-lived", KUBECTL_PATIENCE)
        assert following.wait(timeout=PATIENCE_SECONDS) == 0


def test_exec_runs_a_command_with_the_containers_environment(talking: Kubectl) -> None:
    assert talking("exec", "talker", "--", "sh", "-c", "echo $WHO; echo not this >&2") == "the talker\n"
    assert talking("exec", "-i", "talker", "--", "cat", stdin="through and back") == "through and back"


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("no-such-command", 127)]
)
def test_exit_code_of_exec_is_the_commands(talking: Kubectl, command: str, code: int) -> None:
    with talking.start("exec", "talker", "--", "sh", "-c", command) as running:
        assert running.wait(timeout=PATIENCE_SECONDS) == code


def test_port_forward_reaches_the_programs_port(talking: Kubectl) -> None:
    with talking.start("port-forward", "pod/talker", ":8080") as forwarding:
        assert forwarding.stdout
        local = forwarding.stdout.readline().split("127.0.0.1:")[1].split()[0]
        pool = urllib3.PoolManager(retries=False)
        answers = [
            pool.request("GET", f"http://127.0.0.1:{local}/{n}", timeout=PATIENCE_SECONDS).data.decode()
            for n in range(3)
        ]
        forwarding.terminate()
    assert answers == [f"/{number} by the talker" for number in range(3)]


def test_port_that_nothing_listens_on_is_refused(talking: Kubectl) -> None:
    assert "nothing of pod talker listens on port 9" in _refusal(talking, "pod/talker")


def _refusal(talking: Kubectl, pod: str) -> str:
    """Connect to a forwarding of the pod's port 9; return kubectl's error output."""
    with talking.start("port-forward", pod, ":9") as forwarding:
        assert forwarding.stdout
        local = int(forwarding.stdout.readline().split("127.0.0.1:")[1].split()[0])
        with socket.create_connection(("127.0.0.1", local), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            # kubectl may close before or after it has read what was sent: a reset or an orderly end.
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b""
        _, refusal = forwarding.communicate(timeout=PATIENCE_SECONDS)
    return refusal


SIMULATED = "pod default/silent is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"


@pytest.mark.parametrize("arguments", [("logs", "silent"), ("exec", "silent", "--", "true")])
def test_simulated_pod_says_so(talking: Kubectl, arguments: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match=SIMULATED):
        talking(*arguments)


def test_port_forward_to_a_simulated_pod_says_so(talking: Kubectl) -> None:
    assert SIMULATED in _refusal(talking, "pod/silent")


JOBS = "/api/jobs/"
DASHBOARD = 8265


@contextmanager
def forwarded(kubectl: Kubectl, pod: str) -> Iterator[urllib3.HTTPConnectionPool]:
    """Forward a free local port to a head's dashboard."""
    with kubectl.start("port-forward", f"pod/{pod}", f":{DASHBOARD}") as forwarding:
        assert forwarding.stdout
        local = int(forwarding.stdout.readline().split("127.0.0.1:")[1].split()[0])
        yield urllib3.HTTPConnectionPool("127.0.0.1", local, retries=False, timeout=PATIENCE_SECONDS)
        forwarding.terminate()


def head(name: str, made: Object) -> Object:
    made["metadata"] |= {"name": name, "labels": {"ray.io/node-type": "head"}}
    return made


@pytest.fixture
def simulated_head(talking: Kubectl) -> Iterator[Kubectl]:
    talking.apply(head("head", pod("head")))
    talking("wait", "--for=condition=Ready", "pod/head", KUBECTL_PATIENCE)
    yield talking
    talking("delete", "pod", "head", KUBECTL_PATIENCE)


def test_a_simulated_head_knows_that_no_job_runs_and_nothing_else(simulated_head: Kubectl) -> None:
    def listed() -> tuple[int, bytes]:
        with forwarded(simulated_head, "head") as connection, suppress(urllib3.exceptions.HTTPError):
            answer = connection.request("GET", JOBS)
            return answer.status, answer.data
        return 0, b""

    wait_until(lambda: listed() == (200, b"[]"), "the list of jobs")
    for method, path in (("POST", JOBS), ("GET", "/api/jobs/one"), ("GET", "/"), ("PUT", "/api/packages/gcs/a.zip")):
        with forwarded(simulated_head, "head") as connection:
            refused = connection.request(method, path)
        assert (refused.status, SIMULATED.partition(" is ")[2] in refused.data.decode()) == (501, True), path
    with pytest.raises(AssertionError, match="container main of pod default/head is simulated"):
        simulated_head("logs", "head")
    assert "nothing of pod head listens on port 9" in _refusal(simulated_head, "pod/head")


def test_a_head_with_a_program_answers_for_itself(talking: Kubectl) -> None:
    talking.apply(head("talking-head", talker("talking-head")))
    talking("wait", "--for=condition=Ready", "pod/talking-head", KUBECTL_PATIENCE)
    with pytest.raises(urllib3.exceptions.HTTPError), forwarded(talking, "talking-head") as connection:
        connection.request("GET", JOBS)
    talking("delete", "pod", "talking-head", KUBECTL_PATIENCE)


def test_timestamps_of_a_log_are_refused(talking: Kubectl) -> None:
    with pytest.raises(AssertionError, match="the rehearsal does not know timestamps of a log"):
        talking("logs", "talker", "--timestamps")


def test_only_the_control_plane_is_served(talking: Kubectl, control_plane: ControlPlane) -> None:
    """A client of this server runs commands as the rehearsal's user, so it must refuse others on this machine."""
    endpoints = talking.get("node", "system-1")["status"]["daemonEndpoints"]
    port = endpoints["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context(cadata=control_plane.ca_pem.decode())
    pool = urllib3.PoolManager(ssl_context=context, retries=False)
    with pytest.raises(urllib3.exceptions.HTTPError, match="certificate required"):
        pool.request("GET", f"https://localhost:{port}/containerLogs/default/talker/main", timeout=PATIENCE_SECONDS)
