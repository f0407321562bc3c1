"""The network of pods in sandboxes, without a cluster."""

import http.server
import subprocess
import sys
import threading

PODS = 4
# In a process of its own, which becomes root of a user namespace.
PROGRAM = f"""
import subprocess
from embedded_account.kubernetes.pods.sandbox import kernel
from embedded_account.kubernetes.pods.sandbox.network import PodNetwork

def say():
    show = ["ip", "-oneline", "link", "show", "pods"]
    print(network.run(lambda: subprocess.check_output(show, text=True)).split("link/ether ")[1].split()[0])

kernel.become_root_of_a_user_namespace()
network = PodNetwork(service_ip="10.100.0.1", api_port=1, aws_port=None)
say()
pods = []
for number in range({PODS}):
    pod = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE)
    pods.append(pod)
    pod.stdout.readline()
    network.connect(pod.pid, f"10.245.1.{{number + 1}}")
    say()
for pod in pods:
    pod.kill()
    pod.wait()
    say()
"""


def test_address_of_the_api_server_stays_while_pods_come_and_go() -> None:
    """Other pods know its Ethernet address, and send to it for up to two minutes after it has changed."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert said == ["02:00:00:00:00:01"] * (1 + 2 * PODS)


ASKS_AWS = """
import sys
import subprocess
from embedded_account.kubernetes.pods.sandbox import kernel
from embedded_account.kubernetes.pods.sandbox.network import GATEWAY, PodNetwork

kernel.become_root_of_a_user_namespace()
network = PodNetwork(service_ip="10.100.0.1", api_port=1, aws_port=int(sys.argv[1]))
url = f"http://{GATEWAY}:{sys.argv[1]}/path"
ask = f"import urllib.request; print(urllib.request.urlopen('{url}', timeout=20).read().decode())"
waits = ["unshare", "--net", "sh", "-c", 'echo; read connected; exec "$@"', "sh", sys.executable, "-c", ask]
pod = subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
pod.stdout.readline()
network.connect(pod.pid, "10.245.1.1")
print(pod.communicate("go\\n")[0])
"""


class Account(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"the account has {self.path}".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_pods_reach_the_account_at_one_address() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Account) as account:
        threading.Thread(target=account.serve_forever, daemon=True).start()
        argv = [sys.executable, "-c", ASKS_AWS, str(account.server_port)]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        account.shutdown()
    assert said.split("\n")[0] == "the account has /path"
