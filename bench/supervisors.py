"""Measure how many requests job supervisors send to a real API server, and how much memory each takes.

python -m bench.supervisors --supervisors 50 --seconds 240
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import cdk8s
import typer

from config.facts.versions import PYTHON_IMAGE
from controllers.kubernetes_api import LONG_WATCH_SECONDS
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.shared.names import JOB_SUPERVISOR
from rehearsal.paths import BINARIES, ROOT
from tests.support.fake_ray import FakeRay, serve
from tests.support.waiting import wait_until

NAMESPACE: Final = "ray"
_COUNT: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_RESOURCES: Final = ("jobs", "leases", "pods")
_WATCHES: Final = 2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def main(supervisors: int = 50, seconds: int = 240) -> None:
    """Start SUPERVISORS beside an idle control plane, and count the requests of SECONDS in two halves."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        plane = ControlPlane(Path(directory) / "plane", binaries.ensure(BINARIES, print), name="bench")
        plane.start()
        stack.callback(plane.stop)
        kubectl = Kubectl(plane)
        ray = stack.enter_context(serve())
        _prepare(plane, kubectl, ray, Path(directory) / "account")
        idle = _rates(kubectl, seconds / 2)
        processes = [
            stack.enter_context(_supervisor(plane, Path(directory), f"run-{number:03}"))
            for number in range(supervisors)
        ]
        wait_until(lambda: _let_begin(ray) == supervisors, "all submissions")
        wait_until(lambda: _begun(kubectl) == supervisors, "all begins")
        # The last change of each run's phase has been saved.
        time.sleep(5)
        for half in ("first", "second"):
            rates = _rates(kubectl, seconds / 2)
            rates.subtract(idle)
            each = {f"{verb} {resource}": rate / supervisors for (verb, resource), rate in rates.items() if rate > 0}
            print(f"{half} half, requests/s of each supervisor: " + ", ".join(f"{k} {v:.4f}" for k, v in each.items()))
            watches = _WATCHES / LONG_WATCH_SECONDS
            total = sum(each.values()) + watches
            print(
                f"  with {_WATCHES} watches each {LONG_WATCH_SECONDS} s: {total:.4f}; "
                f"of 1,000 supervisors: {1000 * total:.1f}"
            )
        memory = sorted(_resident(process) for process in processes)[supervisors // 2]
        print(f"memory of a supervisor (median): {memory / 2**20:.0f} MiB")


def _prepare(plane: ControlPlane, kubectl: Kubectl, ray: FakeRay, account: Path) -> None:
    """Create what a supervisor needs, and the files of its service account."""
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    chart = JobSupervisorChart(cdk8s.App(), "supervisor", supervisor=JobSupervisor(NAMESPACE, PYTHON_IMAGE))
    kubectl.apply(*chart.to_json())
    labels = {"ray.io/cluster": "rayml", "ray.io/node-type": "head"}
    container = {"name": "ray", "image": "example.invalid/ray"}
    # No node takes the pod, so that nothing but this function reports its state.
    spec = {"containers": [container], "schedulerName": "nobody"}
    metadata = {"name": "rayml-head", "namespace": NAMESPACE, "labels": labels}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    status = f'{{"status": {{"phase": "Running", "podIP": "{ray.host}", "podIPs": [{{"ip": "{ray.host}"}}]}}}}'
    kubectl("-n", NAMESPACE, "patch", "pod", "rayml-head", "--subresource=status", "--type=merge", "-p", status)
    account.mkdir()
    (account / "token").write_text(kubectl("-n", NAMESPACE, "create", "token", JOB_SUPERVISOR, "--duration=2h"))
    (account / "ca.crt").write_bytes(plane.ca_pem)


@contextmanager
def _supervisor(plane: ControlPlane, directory: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the supervisor of a new run; its Job starts no pod."""
    container = {"name": "none", "image": "example.invalid/none"}
    spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    plane.api.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job)
    words = [
        *(f"--run={name}", f"--namespace={NAMESPACE}", "--cluster=rayml", "--entrypoint=train", "--storage=/fsx"),
        *("--max-attempts=9", "--max-stalled=9", f"--service-account={directory / 'account'}", "--listen=127.0.0.1:0"),
    ]
    host, _, port = plane.endpoint.removeprefix("https://").partition(":")
    env = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "HOSTNAME": f"{name}-pod",
        "PYTHONPATH": str(ROOT),
    }
    with (directory / f"{name}.log").open("wb") as log:
        argv = [sys.executable, "-m", "controllers.job_supervisor", *words]
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _let_begin(ray: FakeRay) -> int:
    """Let each submitted job print that it has its resources; return how many there are."""
    jobs = list(ray.jobs.values())
    for job in jobs:
        job.output = "has its resources\n"
    return len(jobs)


def _begun(kubectl: Kubectl) -> int:
    leases: list[dict[str, Any]] = kubectl.get("-n", NAMESPACE, "leases")["items"]
    return sum('"began": true' in str(lease["metadata"].get("annotations")) for lease in leases)


def _rates(kubectl: Kubectl, seconds: float) -> Counter[tuple[str, str]]:
    """Return the requests/s during the next seconds, by verb and resource."""
    before, began = _requests(kubectl), time.monotonic()
    time.sleep(seconds)
    counted = _requests(kubectl)
    counted.subtract(before)
    took = time.monotonic() - began
    return Counter({key: number / took for key, number in counted.items()})


def _requests(kubectl: Kubectl) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for labels, value in _COUNT.findall(kubectl("get", "--raw", "/metrics")):
        named = dict(_LABEL.findall(labels))
        if named["resource"] in _RESOURCES:
            counted[named["verb"], named["resource"]] += int(float(value))
    return counted


def _resident(process: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * _PAGE


if __name__ == "__main__":
    typer.run(main)
