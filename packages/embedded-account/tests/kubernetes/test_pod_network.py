"""The network of pods in sandboxes, without a cluster."""

import subprocess
import sys

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
network = PodNetwork(service_ip="10.100.0.1", api_port=1)
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
