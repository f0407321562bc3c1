"""Run pods that have a program on this machine, as their kubelet; kwok simulates all others.

`python -m embedded_account.kubernetes.pods.kubelet --kubeconfig FILE --directory DIR --binaries DIR --port PORT`
watches pods on kwok's nodes. A container whose image is in `programs.table` runs as a local process. Its log is
DIR/logs/pods/<namespace>_<pod>.log, and kubectl reaches it through PORT (`podserver`). A node without heartbeats loses
its processes without a report.

Not simulated for these pods: security contexts, resource limits, and the features of volumes that `volumes` excludes.
The simulated heads of RayClusters answer that no job runs on them (`simulated_heads`).
With --ray the pods of Ray's images also run, and every pod runs in a sandbox (`sandbox`): closer to a node, with more
requirements.
"""

import argparse
import itertools
import logging
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import urllib3

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.nodes import KUBELET_LABEL, KUBELET_VALUE
from embedded_account.kubernetes.pki import SERVICE_IP
from embedded_account.kubernetes.pods import identity, podserver, programs, simulated_heads
from embedded_account.kubernetes.pods.runner import PodRunner
from embedded_account.kubernetes.pods.sandbox import hosts, kernel
from embedded_account.kubernetes.pods.sandbox.sandboxes import Sandboxes
from embedded_account.kubernetes.watching import Watched
from embedded_account.machine.processes import end_with_parent

_EVERY_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


class Kubelet:
    """Runs the pods of the table that are on live nodes, with one runner per pod."""

    def __init__(
        self,
        kubeconfig: Path,
        directory: Path,
        table: Sequence[programs.Program],
        records: podserver.PodRecords,
        sandboxes: Sandboxes | None,
        *,
        aws: identity.AwsAddress | None,
    ) -> None:
        self._api = KubernetesClient.from_kubeconfig(kubeconfig)
        self._table = table
        self._files = directory / "data" / "pods"
        self._logs = directory / "logs" / "pods"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._records = records
        self._sandboxes = sandboxes
        self._aws = aws
        self._runners: dict[str, PodRunner] = {}
        self._addresses = _pod_addresses()
        self._pods = Watched(self._api, "/api/v1/pods", self._has_program, fieldSelector="spec.nodeName!=")
        self._simulated_heads = simulated_heads.SimulatedHeads(records)
        self._heads = Watched(
            self._api,
            "/api/v1/pods",
            lambda pod: not self._has_program(pod),
            fieldSelector="spec.nodeName!=",
            labelSelector=simulated_heads.SELECTOR,
        )
        self._services = Watched(self._api, "/api/v1/services", lambda _: True)
        self._nodes = Watched(
            self._api, "/api/v1/nodes", lambda _: True, labelSelector=f"{KUBELET_LABEL}={KUBELET_VALUE}"
        )

    def run(self, ending: threading.Event, server: subprocess.Popen[bytes]) -> int:
        """Work until `ending` is set or the nodes' server has ended, then kill all pods; return the exit code."""
        self._pods.start()
        self._heads.start()
        if self._sandboxes:
            self._services.start()
        self._nodes.start()
        while not ending.wait(_EVERY_SECONDS):
            if server.poll() is not None:
                _log.error("podserver ended with code %s", server.returncode)
                break
            self._step()
        for uid in list(self._runners):
            self._forget(uid)
        return 0 if ending.is_set() else 1

    def _step(self) -> None:
        pods = self._pods.snapshot()
        alive = {node["metadata"]["name"] for node in self._nodes.snapshot().values()}
        here = {uid: pod for uid, pod in pods.items() if pod["spec"]["nodeName"] in alive}
        heads = self._heads.snapshot()
        self._simulated_heads.update({uid: pod for uid, pod in heads.items() if pod["spec"]["nodeName"] in alive})
        if self._sandboxes:
            self._sandboxes.update(self._services.snapshot().values(), here.values())
        for uid in self._runners.keys() - here.keys():
            self._forget(uid)
        for uid, pod in here.items():
            try:
                if uid not in self._runners:
                    self._runners[uid] = self._runner(pod)
                self._runners[uid].step(pod)
            except (KubernetesClientError, urllib3.exceptions.HTTPError) as error:
                _log.warning("pod %s: %s", pod["metadata"]["name"], error)

    def _runner(self, pod: Object) -> PodRunner:
        return PodRunner(
            identity.with_role(pod, self._api, self._aws) if self._aws else pod,
            api=self._api,
            programs=self._table,
            directory=self._files / pod["metadata"]["uid"],
            logs=self._logs,
            records=self._records,
            sandboxes=self._sandboxes,
            ip=next(self._addresses),
        )

    def _forget(self, uid: str) -> None:
        self._runners.pop(uid).kill()
        shutil.rmtree(self._files / uid, ignore_errors=True)

    def _has_program(self, pod: Object) -> bool:
        return programs.runs(self._table, pod["spec"], sandboxed=self._sandboxes is not None)


def _pod_addresses() -> Iterator[str]:
    """Return pod addresses outside kwok's range; without sandboxes nothing listens on them."""
    return (f"10.245.{number // 250 % 250}.{number % 250 + 1}" for number in itertools.count())


def main() -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description="Run the pods whose images are in the table of programs.")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="an administrator's kubeconfig")
    parser.add_argument("--directory", type=Path, required=True, help="the control plane's folder")
    parser.add_argument("--binaries", type=Path, required=True, help="folder with the control plane's programs")
    parser.add_argument("--port", type=int, required=True, help="port of the nodes' kubelet")
    parser.add_argument(
        "--ray",
        type=programs.RealRay.parsed,
        action="append",
        default=[],
        metavar="IMAGE=DIRECTORY",
        help="pattern of an image of Ray, whose pods then really run, in sandboxes, with this Python environment",
    )
    parser.add_argument(
        "--aws",
        type=identity.AwsAddress.parsed,
        metavar="REGION=URL",
        help="where pods whose service account names an IAM role find AWS's APIs; without it they have no role",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    rays: list[programs.RealRay] = arguments.ray
    aws: identity.AwsAddress | None = arguments.aws
    sandboxes = _sandboxes(arguments.kubeconfig, arguments.directory, rays, aws) if rays else None
    if aws and sandboxes:
        aws = replace(aws, endpoint=f"http://{hosts.AWS}:{aws.port}")
    binaries = Binaries(arguments.binaries)
    # For the control plane, which may outlive its starter.
    binaries.hold()
    folder: Path = arguments.directory
    records = podserver.PodRecords(folder / "data" / "podserver", binaries["podserver"])
    kubelet = Kubelet(arguments.kubeconfig, folder, programs.table(binaries, rays), records, sandboxes, aws=aws)
    log = folder / "logs" / "podserver.log"
    server = podserver.start(binaries["podserver"], arguments.port, records, pki=folder / "pki", log=log)
    try:
        return kubelet.run(ending, server)
    finally:
        server.kill()
        server.wait()


def _sandboxes(
    kubeconfig: Path, directory: Path, rays: Sequence[programs.RealRay], aws: identity.AwsAddress | None
) -> Sandboxes:
    """Return the sandboxes; exit with a message if this machine has no namespaces."""
    try:
        kernel.become_root_of_a_user_namespace()
    except kernel.NamespacesUnavailableError as error:
        sys.exit(str(error))
    end_with_parent()  # the kernel forgets it when the user changes
    port = urlsplit(KubernetesClient.from_kubeconfig(kubeconfig).server).port or 443
    return Sandboxes(directory, service_ip=SERVICE_IP, api_port=port, aws_port=aws.port if aws else None, rays=rays)


if __name__ == "__main__":
    sys.exit(main())
