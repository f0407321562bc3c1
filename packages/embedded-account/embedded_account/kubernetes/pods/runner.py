"""Run the containers of one pod as processes, and report its status as kubelet does."""

import functools
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from embedded_account.kubernetes.api import STRATEGIC_PATCH, KubernetesClient, KubernetesClientError, Object
from embedded_account.kubernetes.pods.container import Container, timestamp
from embedded_account.kubernetes.pods.launch import Launch, prepare, prepare_inside
from embedded_account.kubernetes.pods.podserver import PodRecord, PodRecords
from embedded_account.kubernetes.pods.programs import Program, program_of
from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.kubernetes.pods.sandbox.pod import Sandbox
from embedded_account.kubernetes.pods.sandbox.sandboxes import Sandboxes
from embedded_account.kubernetes.pods.volumes import Volumes


class PodRunner:
    """Runs the containers of a pod that have a program; the others count as running.

    Init containers count as done. In a sandbox, those with a program run one after another.
    """

    def __init__(
        self,
        pod: Object,
        *,
        api: KubernetesClient,
        programs: Sequence[Program],
        directory: Path,
        logs: Path,
        records: PodRecords,
        ip: str,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self._api = api
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._uid = metadata["uid"]
        self._pod = pod
        self._records = records
        self._ip = ip
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._sandboxes = sandboxes
        self._sandbox: Sandbox | None = None
        self._volumes = Volumes(api, pod, directory)
        self._since: dict[str, tuple[str, str]] = {}
        self._reported: Object = {}
        self._started_at = timestamp()
        self._kill_at: float | None = None
        log = logs / f"{metadata['namespace']}_{metadata['name']}.log"
        policy = spec["restartPolicy"]
        self._containers = self._made(spec["containers"], programs, policy, log)
        own = spec.get("initContainers", ()) if sandboxes else ()
        self._init = self._made(
            own, programs, "OnFailure" if policy == "Always" else policy, log.with_suffix(".init.log")
        )

    def _made(
        self, specs: Sequence[Object], programs: Sequence[Program], policy: str, log: Path
    ) -> dict[str, Container]:
        found = {spec["name"]: (spec, program_of(programs, spec["image"])) for spec in specs}
        return {
            name: Container(spec, policy, functools.partial(self._launch, spec, program), log)
            for name, (spec, program) in found.items()
            if program
        }

    def _launch(self, spec: Object, program: Program) -> Launch:
        """Return the process of a container. Raises ContainerConfigError."""
        if self._sandboxes is None:
            return prepare(self._api, self._pod, spec, program, self._volumes)
        if self._sandbox is None:
            mounts = self._volumes.tree(self._sandboxes.claims)
            self._sandbox = self._sandboxes.make(self._pod, self._directory, self._ip, mounts)
        return prepare_inside(self._sandbox, self._api, self._pod, spec, program)

    def step(self, pod: Object) -> None:
        """Advance the pod. Raises ApiError if the API server refuses a request, except if the pod is gone."""
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod["metadata"].get("deletionGracePeriodSeconds", 30))
            else:
                self._run_containers()
                self._renew_token()
                self._record()
                self._report(pod)
        except KubernetesClientError as error:
            if error.status not in (404, 409):
                raise

    def kill(self) -> None:
        """End the processes at once and report nothing: the pod or its node is gone."""
        self._kill()
        self._records.remove(self._pod)

    def _kill(self) -> None:
        if self._sandbox:
            self._sandbox.kill()
            return
        for container in self._containers.values():
            container.signal(signal.SIGKILL)

    def _run_containers(self) -> None:
        for container in self._init.values():
            container.step()
            if container.exit_code != 0:
                return
        for container in self._containers.values():
            container.step()
        codes = [container.exit_code for container in self._containers.values()]
        if self._sandbox and None not in codes:
            self._sandbox.kill()  # also ends what the containers left behind

    def _record(self) -> None:
        """Record how kubectl reaches the started containers."""
        everyone = self._init | self._containers
        containers = {name: found for name, each in everyone.items() if (found := each.record())}
        ports = {port: local for each in self._containers.values() for port, local in each.ports().items()}
        dial = (*self._sandbox.enter, *self._records.dial) if self._sandbox else ()
        self._records.keep(self._pod, PodRecord(containers, dial, ports))

    def _end(self, grace: float) -> None:
        """End each container in order, with SIGKILL after the grace period; then delete the pod object."""
        now = time.monotonic()
        if self._kill_at is None:
            self._kill_at = now + grace
        everyone = [*self._init.values(), *self._containers.values()]
        for container in everyone:
            container.end()
        if now >= self._kill_at:
            self._kill()
        if all(container.has_ended() for container in everyone):
            self._kill()  # also ends what a container left behind in its sandbox
            self._api.delete(self._path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}})

    def _renew_token(self) -> None:
        """Renew the tokens of running containers. A refusal shows when the program uses the old token, as on a node."""
        if any(container.is_running for container in (*self._init.values(), *self._containers.values())):
            try:
                self._volumes.renew()
            except ContainerConfigError:
                return

    def _report(self, pod: Object) -> None:
        statuses = [self._status_of(container) for container in pod["spec"]["containers"]]
        ready = all(status["ready"] for status in statuses)
        conditions = {
            "PodReadyToStartContainers": True,
            "Initialized": all(container.exit_code == 0 for container in self._init.values()),
            "ContainersReady": ready,
            "Ready": ready,
        }
        status: Object = {
            "phase": self._phase(statuses),
            "startTime": self._started_at,
            "podIP": self._ip,
            "podIPs": [{"ip": self._ip}],
            "conditions": [self._condition(kind, is_true) for kind, is_true in conditions.items()],
            "containerStatuses": statuses,
            "initContainerStatuses": [self._init_status_of(each) for each in pod["spec"].get("initContainers", ())],
        }
        if status != self._reported:
            self._api.patch(f"{self._path}/status", {"metadata": {"uid": self._uid}, "status": status}, STRATEGIC_PATCH)
            self._reported = status

    def _status_of(self, spec: Object) -> Object:
        container = self._containers.get(spec["name"])
        return container.status() if container else _simulated(spec, {"running": {"startedAt": self._started_at}})

    def _init_status_of(self, spec: Object) -> Object:
        container = self._init.get(spec["name"])
        done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        return container.status() if container else _simulated(spec, done)

    def _phase(self, statuses: Sequence[Object]) -> str:
        if any(container.exit_code for container in self._init.values()):
            return "Failed"
        codes = [container.exit_code for container in self._containers.values()]
        if len(codes) == len(statuses) and all(code is not None for code in codes):
            return "Failed" if any(codes) else "Succeeded"
        started = all("running" in status["state"] or status["restartCount"] for status in statuses)
        return "Running" if started or self._reported.get("phase") == "Running" else "Pending"

    def _condition(self, kind: str, is_true: bool) -> Object:
        value = str(is_true)
        if self._since.get(kind, ("", ""))[0] != value:
            self._since[kind] = (value, timestamp())
        return {"type": kind, "status": value, "lastTransitionTime": self._since[kind][1]}


def _simulated(spec: Object, state: Object) -> Object:
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": state,
    }
