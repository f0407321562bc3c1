"""A run whose supervisor is a separate process, between a fake API server and a Ray head."""

import base64
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fake_kubernetes import JOBS, LEASES, PODS, SECRETS, FakeKubernetes
from tests.support.waiting import PATIENCE_SECONDS

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
# Not the jobs' Python, which may be older than that of the controllers' image.
PYTHON = ROOT / ".venv" / "bin" / "python"
STATE = "ray-on-hyperpod/state"
HURRIED = """
import sys
from controllers import job_decision, job_supervisor, lease, run_objects, supervision
for module, name, seconds in (
    (run_objects, "_RENEW_SECONDS", {renews}),
    (run_objects, "_PASSED_OVER", {passes_over}),
    (supervision, "_SAYS_NOTHING_SECONDS", {says_nothing}),
    (supervision, "_POLL_SECONDS", 0.05),
    (job_decision, "_FIRST_DELAY_SECONDS", 0.05),
    (lease, "_POLL_SECONDS", 0.05),
):
    getattr(module, name)  # A renamed one would stay as long as it is.
    setattr(module, name, seconds)
sys.exit(job_supervisor.main())
"""
"""The supervisor's program with shorter pauses."""


class Supervised:
    """A run in namespace `ray`, on the RayCluster `rayml`; `number` orders runs by their submission."""

    def __init__(
        self, kubernetes: FakeKubernetes, head: str, directory: Path, name: str = "train", number: int = 1
    ) -> None:
        self.kubernetes = kubernetes
        kubernetes.live = {PODS, JOBS, LEASES}
        self.name = name
        self.log = directory / f"{name}.log"
        self._processes: list[subprocess.Popen[bytes]] = []
        created = f"2026-11-{number:02}T10:00:00Z"
        metadata = {"name": name, "uid": f"job-{number}", "creationTimestamp": created, "annotations": {}}
        kubernetes.put(JOBS, {"metadata": metadata | {"resourceVersion": "1"}})
        self.head(head)

    def head(self, address: str | None, uid: str = "head-1") -> None:
        """Set the address of the head's pod; with None, remove the pod."""
        self.kubernetes.collections[PODS].pop("rayml-head", None)
        if address:
            self.pod("rayml-head", "head", uid, address)

    def takes_token(self, token: str) -> None:
        """Let the head's pod take its token as KubeRay's do (kuberay: common/pod.go, SetContainerTokenAuthEnvVars)."""
        reference = {"secretKeyRef": {"name": "rayml", "key": "auth_token"}}
        head = self.kubernetes.collections[PODS]["rayml-head"]
        head["spec"]["containers"] = [{"name": "ray-head", "env": [{"name": "RAY_AUTH_TOKEN", "valueFrom": reference}]}]
        data = {"auth_token": base64.b64encode(token.encode()).decode()}
        self.kubernetes.put(SECRETS, {"metadata": {"name": "rayml"}, "data": data})

    def pod(self, name: str, kind: str, uid: str, address: str = "10.0.0.1") -> None:
        """Add a running pod."""
        labels = {"ray.io/cluster": "rayml", "ray.io/node-type": kind}
        pod = {
            "metadata": {"name": name, "uid": uid, "labels": labels},
            "spec": {"nodeName": f"node-of-{name}"},
            "status": {"phase": "Running", "podIP": address},
        }
        self.kubernetes.put(PODS, pod)

    def move(self, name: str, at: str = "2026-11-23T10:00:00Z") -> None:
        """Ask the runs to save before a pod moves, as the reaper does."""
        pod = self.kubernetes.collections[PODS][name]
        condition = {"type": "ray-on-hyperpod/Move", "status": "True", "lastTransitionTime": at}
        self.kubernetes.put(PODS, pod | {"status": pod["status"] | {"conditions": [condition]}})

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the run's Lease."""
        lease = self.kubernetes.collections[LEASES].get(self.name, {"metadata": {}})
        return dict(lease["metadata"].get("labels") or {})

    def start(
        self,
        *arguments: str,
        name: str = "train-abcde",
        entrypoint: str = "python train.py",
        hurried: bool = True,
        passes_over: float = 150,
        renews: float = 0.2,
        says_nothing: float = 30,
    ) -> int:
        """Start a supervisor, and return its process id.

        Seconds: it `passes_over` runs that are silent for so long, `renews` its Lease so often, and takes an attempt
        that `says_nothing` of its resources for so long for one that has them.
        """
        text = HURRIED.format(passes_over=passes_over, renews=renews, says_nothing=says_nothing)
        program = ["-c", text] if hurried else ["-m", "controllers.job_supervisor"]
        cluster = self.kubernetes.cluster
        words = [
            f"--run={self.name}",
            "--namespace=ray",
            "--cluster=rayml",
            f"--entrypoint={entrypoint}",
            "--storage=/fsx/runs",
            "--max-attempts=20",
            "--max-stalled=3",
            f"--service-account={cluster.account}",
            "--listen=127.0.0.1:0",
            *arguments,
        ]
        env = {
            "KUBERNETES_SERVICE_HOST": cluster.host,
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
            "HOSTNAME": name,
            "PYTHONPATH": str(ROOT),
            "PATH": os.environ["PATH"],
        }
        with self.log.open("ab") as log:
            process = subprocess.Popen([PYTHON, *program, *words], env=env, stdout=log, stderr=log)
        self._processes.append(process)
        return process.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to the newest supervisor, and wait until it exits."""
        self._processes[-1].send_signal(number)
        return self.exit_code()

    def exit_code(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until the newest supervisor exits, and return its exit code."""
        return self._processes[-1].wait(seconds)

    def end(self) -> None:
        """Kill all supervisors that still run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def state(self) -> Object:
        """Return the state that the supervisor recorded."""
        lease = self.kubernetes.collections[LEASES].get(self.name, {"metadata": {}})
        state: Object = json.loads(lease["metadata"].get("annotations", {}).get(STATE, "{}"))
        return state

    def logged(self, message: str) -> list[Object]:
        """Return the supervisor's log lines that contain a message."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["message"] == message]

    def free_lease(self) -> None:
        """Expire the Lease, as happens some time after its holder was killed."""
        lease = self.kubernetes.collections[LEASES][self.name]
        lease["spec"]["holderIdentity"] = ""

    def stop(self) -> None:
        """Request that the run stops, as `ops job stop` does."""
        job = self.kubernetes.collections[JOBS][self.name]
        job["metadata"]["annotations"]["ray-on-hyperpod/stop"] = "requested"
